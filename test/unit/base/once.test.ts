import { expect, test, vi } from 'vitest';
import { once } from '../../../src/base/once.js';

test.each([[{ made: true }], [undefined]])('%o is made at the first call, and once', (value) => {
  const make = vi.fn(() => value);
  const get = once(make);
  expect(make).not.toHaveBeenCalled();
  expect([get(), get()]).toEqual([value, value]);
  expect(make).toHaveBeenCalledTimes(1);
});
