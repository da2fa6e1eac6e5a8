import { expect, it } from 'vitest';
import { openBackend } from '../../../src/worker/backends.js';

it('takes the CPU where there is no GPU, unless a GPU is asked for', async () => {
  expect(await openBackend('cpu', undefined)).toMatchObject({ backend: { name: 'cpu' }, choice: { chosen: 'cpu' } });
  expect(await openBackend('auto', undefined)).toMatchObject({
    backend: { name: 'cpu' },
    choice: { chosen: 'cpu', reason: expect.stringContaining('no GPU adapter') },
  });
  expect(await openBackend('gpu', undefined)).toBeUndefined();
});

it('measures each conversion once', async () => {
  const first = await openBackend('auto', planOf('F32', 'F16'));
  expect((await openBackend('auto', planOf('F32', 'F16')))?.choice).toBe(first?.choice);
  expect((await openBackend('auto', planOf('F16', 'F32')))?.choice).not.toBe(first?.choice);
  expect((await openBackend('cpu', planOf('F32', 'F16')))?.choice).not.toBe(first?.choice);
});

function planOf(from: 'F32' | 'F16', to: 'F32' | 'F16') {
  return {
    tensors: [{ name: 'w', shape: [8], origin: 'master', from, to, fromCopy: false, pieces: [] } as const],
  };
}
