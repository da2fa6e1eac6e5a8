/**
 * The backend that converts on the calling thread. Here is only the gathering: short pieces are put into blocks, one
 * after another; blocks and long pieces are converted by the kernels of `numeric/`.
 *
 * @module
 */

import { bytesOf, type FloatDType } from '../base/dtype.js';
import { UnshardError } from '../base/errors.js';
import { once } from '../base/once.js';
import { BLOCK_ELEMENTS, type Kernels } from '../numeric/kernels.js';
import { scriptKernels } from '../numeric/script.js';
import { simdKernels } from '../numeric/simd.js';
import { emptyStats } from '../numeric/stats.js';
import type { Backend, ConvertJob, ConvertStats } from './backend.js';
import { checkJob } from './job.js';

/** Which kernels convert: those of WebAssembly, or the specification in JavaScript. Both give the same bytes. */
export type CpuKernel = 'wasm' | 'js';

/** What can be chosen, by tests and benchmarks. */
export interface CpuOptions {
  /** Default: WebAssembly where it has SIMD, else JavaScript. */
  readonly kernel?: CpuKernel;
}

/**
 * A backend that converts on the calling thread. A job is done before `convert` returns its promise.
 *
 * @throws UnshardError of kind `usage` where WebAssembly is asked for and cannot be had.
 */
export function cpuBackend({ kernel }: CpuOptions = {}): Backend {
  const kernels = kernelsOf(kernel);
  return {
    name: 'cpu',
    description: kernels.description,
    convert: async (job) => convertOnCpu(kernels, job),
    close: async () => {},
  };
}

/** Statistics of elements that are copied as they are. The bytes may have any alignment. */
export function scanBytes(dtype: FloatDType, bytes: Uint8Array, { kernel }: CpuOptions = {}): ConvertStats {
  const kernels = kernelsOf(kernel);
  const stats = emptyStats();
  kernels.scanner(dtype)(bytes, stats);
  return stats;
}

// Kept for the thread, with the memory they reserve.
const simd = once(simdKernels);
const script = once(scriptKernels);

function kernelsOf(kernel: CpuKernel | undefined): Kernels {
  const wasm = kernel === 'js' ? undefined : simd();
  if (kernel === 'wasm' && !wasm) throw noWebAssembly();
  return wasm ?? script();
}

/** Up to this length a loop is faster than making a view to copy from. */
const LOOP_BYTES = 64;

/** Pieces of fewer elements are gathered with their neighbours; of more, a call for each costs less than their copy. */
const GATHER_BELOW = 2048;

function convertOnCpu({ converter, block }: Kernels, job: ConvertJob): ConvertStats[] {
  checkJob(job);
  const stats = Array.from({ length: job.slots }, emptyStats);
  const convert = converter(job.from, job.to, job.overflow);
  const [fromBytes, toBytes] = [bytesOf(job.from), bytesOf(job.to)];
  const blockBytes = BLOCK_ELEMENTS * fromBytes;
  let filled = 0;
  let filledSlot = 0;
  let written = 0;
  const convertTo = (input: Uint8Array, slot: number): void => {
    const length = (input.byteLength / fromBytes) * toBytes;
    convert(input, job.output.subarray(written, written + length), stats[slot] as ConvertStats);
    written += length;
  };
  const flush = (): void => {
    if (filled > 0) convertTo(block.subarray(0, filled), filledSlot);
    filled = 0;
  };
  for (const [i, { input, count, slot }] of job.pieces.entries()) {
    const length = count * fromBytes;
    if (slot !== filledSlot || count >= GATHER_BELOW || filled + length > blockBytes) flush();
    const isAlone = filled === 0 && job.pieces[i + 1]?.slot !== slot;
    if (isAlone || count >= GATHER_BELOW) {
      convertTo(job.input.subarray(input, input + length), slot);
      continue;
    }
    copyBytes(job.input, input, block, filled, length);
    filled += length;
    filledSlot = slot;
  }
  flush();
  return stats;
}

function copyBytes(source: Uint8Array, from: number, target: Uint8Array, to: number, length: number): void {
  if (length > LOOP_BYTES) target.set(source.subarray(from, from + length), to);
  else for (let i = 0; i < length; i++) target[to + i] = source[from + i] as number;
}

function noWebAssembly(): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'no-webassembly',
    message: 'WebAssembly SIMD cannot be had here.',
    advice: 'Leave the choice of the kernel open: JavaScript gives the same bytes.',
    facts: {},
  });
}
