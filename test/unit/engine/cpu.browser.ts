import { expect, onTestFinished, test } from 'vitest';
import type { CpuAnswer } from './cpu.worker.js';

test('WebAssembly gives the bytes and the statistics of the specification in a worker of the browser', async () => {
  const worker = new Worker(new URL('./cpu.worker.ts', import.meta.url), { type: 'module' });
  onTestFinished(() => worker.terminate());
  const answer = await new Promise<CpuAnswer>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<CpuAnswer>) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage('convert');
  });
  expect(answer).toEqual({ description: 'WebAssembly SIMD', wrong: [] });
});
