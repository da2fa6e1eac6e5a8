// Not through the library's entry, which loads the GPU part with its first use: the page is to work offline once loaded.
import { mainConversion } from '../engine/calibrate.js';
import { type GpuBackend, openGpuBackend } from '../engine/gpu/backend.js';
import {
  type Backend,
  type BackendChoice,
  type BackendDecision,
  calibrate,
  cpuBackend,
  isUnshardError,
  type Plan,
} from '../index.js';

/** A backend, and why it is this one. */
export interface OpenBackend {
  readonly backend: Backend;
  readonly choice: BackendDecision;
}

/** Decisions of this worker, by what was asked for and the conversion that was measured. */
const decisions = new Map<string, BackendDecision>();

/**
 * Opens what a choice comes to, measured with the conversion of the plan, once for each; undefined where that is a GPU
 * and there is none.
 *
 * @throws UnshardError of kind `gpu` where a GPU was asked for and cannot be had. `auto` then takes the CPU.
 */
export async function openBackend(
  asked: BackendChoice,
  plan: Pick<Plan, 'tensors'> | undefined,
): Promise<OpenBackend | undefined> {
  const cpu = cpuBackend();
  const conversion = plan && mainConversion(plan);
  const key = `${asked} ${plan && (conversion ? `${conversion.from} ${conversion.to}` : 'copy')}`;
  const known = decisions.get(key);
  if (known?.chosen === 'cpu') return { backend: cpu, choice: known };
  const gpu = asked === 'cpu' ? undefined : await openGpu(asked);
  if (asked === 'gpu' && !gpu) return undefined;
  if (known && gpu) return { backend: gpu, choice: known };
  try {
    const choice = await calibrate(plan, { asked, cpu, ...(gpu ? { gpu } : {}) });
    decisions.set(key, choice);
    if (choice.chosen === 'gpu' && gpu) return { backend: gpu, choice };
    await gpu?.close();
    return { backend: cpu, choice };
  } catch (error) {
    await gpu?.close();
    throw error;
  }
}

/** The GPU; undefined where there is none, and, unless it was asked for, where it cannot be had. */
async function openGpu(asked: 'auto' | 'gpu'): Promise<GpuBackend | undefined> {
  try {
    return await openGpuBackend();
  } catch (error) {
    if (asked === 'auto' && isUnshardError(error, 'gpu')) return undefined;
    throw error;
  }
}
