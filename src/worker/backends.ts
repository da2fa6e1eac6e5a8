// Not through the library's entry, which loads the GPU part with its first use: the page is to work offline once loaded.
import { openGpuBackend } from '../engine/gpu/backend.js';
import { type Backend, cpuBackend, isUnshardError } from '../index.js';
import type { BackendChoice } from './protocol.js';

/**
 * Opens what a choice asks for; undefined where that is a GPU and there is none.
 *
 * @throws UnshardError of kind `gpu` where a GPU was asked for and cannot be had. `auto` then takes the CPU.
 */
export async function openBackend(choice: BackendChoice): Promise<Backend | undefined> {
  switch (choice) {
    case 'cpu':
      return cpuBackend();
    case 'gpu':
      return openGpuBackend();
    case 'auto':
      return (await openHardwareGpu()) ?? cpuBackend();
  }
}

/** The GPU; undefined where there is none, where it cannot be had, and where it is software, slower than the CPU itself. */
async function openHardwareGpu(): Promise<Backend | undefined> {
  const gpu = await openGpuBackend().catch((error: unknown) => {
    if (isUnshardError(error, 'gpu')) return undefined;
    throw error;
  });
  if (!gpu?.software) return gpu;
  await gpu.close();
  return undefined;
}
