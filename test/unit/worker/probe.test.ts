import { expect, it } from 'vitest';
import { largestOf } from '../../../src/worker/probe.js';

/** A place of so many bytes, and the sizes that it was asked for. */
function place(quota: number) {
  const asked: number[] = [];
  const reserve = (byteLength: number): void => {
    asked.push(byteLength);
    if (byteLength > quota) throw new DOMException('Full.', 'QuotaExceededError');
  };
  return { reserve, asked };
}

it('what fits is found with one try', () => {
  const { reserve, asked } = place(5e9);
  expect(largestOf(5e9, reserve)).toBe(5e9);
  expect(asked).toEqual([5e9]);
});

it.each([0, 1, 3_333_333_333, 4.999e9, 7e12])(
  'of more than fits in %d bytes, all that fits is found, and never more',
  (quota) => {
    const wanted = Math.max(1, quota * 1.5);
    const found = largestOf(wanted, place(quota).reserve);
    expect(found).toBeLessThanOrEqual(quota);
    expect(quota - found).toBeLessThanOrEqual(wanted / 4096 + 1);
  },
);

it('another failure is passed on', () => {
  const reserve = () => {
    throw new DOMException('Locked.', 'NoModificationAllowedError');
  };
  expect(() => largestOf(1, reserve)).toThrow('Locked.');
});
