import { expect, it } from 'vitest';
import { openBackend } from '../../../src/worker/backends.js';

it('takes the CPU where there is no GPU, unless a GPU is asked for', async () => {
  expect((await openBackend('cpu'))?.name).toBe('cpu');
  expect((await openBackend('auto'))?.name).toBe('cpu');
  expect(await openBackend('gpu')).toBeUndefined();
});
