import { expect, test } from 'vitest';
import { nameAdapter } from '../../../../src/engine/gpu/adapter.js';
import { openGpuBackend } from '../../../../src/engine/gpu/backend.js';

const nothing = { vendor: '', architecture: '', device: '', description: '', isFallbackAdapter: false };

test.each([
  { info: { description: 'NVIDIA H200' }, description: 'NVIDIA H200', software: false },
  { info: { vendor: 'nvidia', architecture: 'hopper' }, description: 'nvidia hopper', software: false },
  {
    info: { vendor: 'google', architecture: 'swiftshader' },
    description: 'google swiftshader (software)',
    software: true,
  },
  { info: { description: 'llvmpipe (LLVM 15)' }, description: 'llvmpipe (LLVM 15) (software)', software: true },
  { info: { vendor: 'x', isFallbackAdapter: true }, description: 'x (software)', software: true },
  { info: {}, description: 'unnamed adapter', software: false },
])('$info is called $description', ({ info, description, software }) => {
  expect(nameAdapter({ ...nothing, ...info })).toEqual({ description, software });
});

test('where there is no WebGPU, there is no backend', async () => {
  expect(await openGpuBackend()).toBeUndefined();
});
