/**
 * The kernels of `simd.wat`: WebAssembly on four elements at a time.
 *
 * All pairs go through fp32, as in `bits.ts`: a block is widened, counted, and narrowed, and stays in the cache meanwhile.
 *
 * @module
 */

import { bytesOf, type FloatDType, type TargetDType } from '../base/dtype.js';
import { assert } from '../base/errors.js';
import { newMemory } from '../base/kernel-memory.js';
import { instantiate } from '../base/wasm.js';
import { BLOCK_ELEMENTS, type Kernels } from './kernels.js';
import { LIMITS } from './limits.js';
import { SIMD_MODULE } from './simd-module.js';
import { addStats, type ConvertStats, valueOfF32 } from './stats.js';

/** The functions of `simd.wat`. All arguments are byte addresses, but for the limits and the step. */
type SimdExports = Readonly<Record<'f32ToF16' | 'f32ToBf16' | 'f16ToF32' | 'bf16ToF32', Step>> & {
  f64ToF32(from: number, end: number, to: number, step: number, tally: number): void;
  clamp(from: number, end: number, limit: number): void;
  scan(from: number, end: number, overflowFrom: number, underflowBelow: number, tally: number): void;
};

type Step = (from: number, end: number, to: number) => void;

/** Elements that the loops take at once. A block is filled up to a multiple of them with zeros, which count as nothing. */
const LANES = 4;

// Where things lie in the memory. The input starts at 0; fp32 is not moved before it is narrowed.
const WORDS = BLOCK_ELEMENTS * bytesOf('F64');
const HALVES = WORDS + BLOCK_ELEMENTS * bytesOf('F32');
const TALLY = HALVES + BLOCK_ELEMENTS * bytesOf('F16');
const F64_TALLY = TALLY + 8 * 4;
const MEMORY_BYTES = F64_TALLY + 2 * 4;

/** Makes the kernels and their memory; undefined where WebAssembly SIMD cannot be had. */
export function simdKernels(): Kernels | undefined {
  const memory = newMemory(MEMORY_BYTES);
  const exports = memory && instantiate<SimdExports>(SIMD_MODULE, memory);
  if (!exports) return undefined;
  const input = new Uint8Array(memory.buffer, 0, WORDS);
  const tally = new Uint32Array(memory.buffer, TALLY, 8);
  const f64Tally = new Uint32Array(memory.buffer, F64_TALLY, 2);

  /** Makes fp32 words of the input. Gives where they start and end. Finite fp64 stay finite. */
  const widen = (from: FloatDType, length: number): [start: number, end: number] => {
    const count = Math.ceil(length / bytesOf(from) / LANES) * LANES;
    const end = count * bytesOf(from);
    input.fill(0, length, end);
    if (from === 'F32') return [0, end];
    if (from === 'F64') exports.f64ToF32(0, end, WORDS, -1, F64_TALLY);
    else exports[from === 'F16' ? 'f16ToF32' : 'bf16ToF32'](0, end, WORDS);
    return [WORDS, WORDS + count * bytesOf('F32')];
  };

  const count = (start: number, end: number, to: TargetDType): ConvertStats => {
    const { overflowFrom, underflowBelow } = LIMITS[to];
    exports.scan(start, end, overflowFrom, underflowBelow, TALLY);
    const [overflow = 0, underflow = 0, nan = 0, inf = 0, ...largest] = tally;
    return { overflow, underflow, nan, inf, largest: valueOfF32(Math.max(...largest)) };
  };

  return {
    description: 'WebAssembly SIMD',
    input,

    converter(from, to, overflow) {
      assert(from !== to, `${from} to ${to} is a copy, not a conversion`);
      return (length, stats) => {
        if (length === 0) return new Uint8Array();
        const [start, end] = widen(from, length);
        const found = count(start, end, to);
        if (from === 'F64') {
          const [grown = 0, lost = 0] = f64Tally;
          found.underflow += lost;
          if (to === 'F32') {
            found.overflow = grown;
            if (overflow === 'inf' && grown > 0) exports.f64ToF32(0, 2 * (end - start), WORDS, 0, F64_TALLY);
          }
        }
        addStats(stats, found);
        const resultBytes = (length / bytesOf(from)) * bytesOf(to);
        if (to === 'F32') return new Uint8Array(memory.buffer, start, resultBytes);
        if (overflow === 'clamp' && found.overflow > 0) exports.clamp(start, end, LIMITS[to].overflowFrom);
        exports[to === 'F16' ? 'f32ToF16' : 'f32ToBf16'](start, end, HALVES);
        return new Uint8Array(memory.buffer, HALVES, resultBytes);
      };
    },

    scanner(dtype) {
      return (length, stats) => {
        // All that was fp64 is in the range of fp32 by now, so that nothing is lost.
        if (length > 0) addStats(stats, count(...widen(dtype, length), 'F32'));
      };
    },
  };
}
