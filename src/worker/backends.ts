import { type Backend, cpuBackend, openGpuBackend } from '../index.js';
import type { BackendChoice } from './protocol.js';

/**
 * Opens what a choice asks for; undefined where that is a GPU and there is none. `auto` passes over an adapter in
 * software: it is slower than the CPU itself.
 */
export async function openBackend(choice: BackendChoice): Promise<Backend | undefined> {
  if (choice === 'cpu') return cpuBackend();
  const gpu = await openGpuBackend();
  if (choice === 'gpu' || (gpu && !gpu.software)) return gpu;
  await gpu?.close();
  return cpuBackend();
}
