/**
 * The kernels of `simd.wat`: WebAssembly on eight elements at a time.
 *
 * A block is converted in one pass, which also finds its extremes. Most blocks have nothing to count, and their extremes
 * say so. Of the others the elements are counted in a second pass, as fp32 words.
 *
 * @module
 */

import { bytesOf, type FloatDType, type TargetDType } from '../base/dtype.js';
import { assert } from '../base/errors.js';
import { addressOf, kernelMemory, reserveInMemory } from '../base/kernel-memory.js';
import { instantiate } from '../base/wasm.js';
import { f16ToF32 } from './bits.js';
import { BLOCK_ELEMENTS, type Kernels } from './kernels.js';
import { F32_INFINITY, LIMITS } from './limits.js';
import { SIMD_MODULE } from './simd-module.js';
import { addStats, type ConvertStats, valueOfF32 } from './stats.js';

/** Walks from `from` to `end`; all arguments are byte addresses, but for the step, which those of fp64 take. */
type Walk = (from: number, end: number, to: number, tally: number, step: number) => void;

type WalkName =
  | `f32To${'F16' | 'Bf16'}`
  | `f16To${'F32' | 'Bf16'}`
  | `bf16To${'F32' | 'F16'}`
  | `f64To${'F32' | 'F16' | 'Bf16'}`
  | 'scan16'
  | 'scan32';

/** The functions of `simd.wat`. */
type SimdExports = Readonly<Record<WalkName, Walk>> & {
  clamp(from: number, end: number, limit: number): void;
  count(from: number, end: number, overflowFrom: number, underflowBelow: number, counts: number): void;
};

/** The function of each pair. */
const WALKS: Readonly<Record<FloatDType, Readonly<Partial<Record<TargetDType, WalkName>>>>> = {
  F32: { F16: 'f32ToF16', BF16: 'f32ToBf16' },
  F16: { F32: 'f16ToF32', BF16: 'f16ToBf16' },
  BF16: { F32: 'bf16ToF32', F16: 'bf16ToF16' },
  F64: { F32: 'f64ToF32', F16: 'f64ToF16', BF16: 'f64ToBf16' },
};

/** Elements that the loops take at once. The last ones are filled up with zeros, which count as nothing. */
const LANES = 8;

// What is added to a finite fp64 that fp32 cannot hold.
const KEEP_FINITE = -1;
const LET_GROW = 0;

// Where things lie in the scratch memory: what is converted and what comes out where the caller's bytes lie elsewhere, the
// block to gather in, elements as fp32 words, the last elements of a block and their results, extremes, counts.
const SOURCE = 0;
const TARGET = SOURCE + BLOCK_ELEMENTS * bytesOf('F64');
const GATHERED = TARGET + BLOCK_ELEMENTS * bytesOf('F32');
const WORDS = GATHERED + BLOCK_ELEMENTS * bytesOf('F64');
const LAST = WORDS + BLOCK_ELEMENTS * bytesOf('F32');
const LAST_RESULTS = LAST + LANES * bytesOf('F64');
const TALLY = LAST_RESULTS + LANES * bytesOf('F32');
const COUNTS = TALLY + 64;
const SCRATCH_BYTES = COUNTS + 32;

/** The tally of no elements: the largest magnitudes, the smallest less one, counts of fp64. */
const EMPTY_TALLY = Uint32Array.from({ length: 16 }, (_, i) => (i >= 4 && i < 8 ? 0xffffffff : 0));

/** What the extremes of a block are compared with, in the magnitudes that its loop finds. */
interface Ends {
  readonly overflowFrom: number;
  readonly underflowBelow: number;
  /** The value of a finite magnitude. */
  value(magnitude: number): number;
}

/** Makes the kernels and their memory; undefined where WebAssembly SIMD cannot be had. */
export function simdKernels(): Kernels | undefined {
  const memory = kernelMemory();
  const exports = memory && instantiate<SimdExports>(SIMD_MODULE, memory);
  const scratch = exports && reserveInMemory(SCRATCH_BYTES);
  if (!scratch) return undefined;
  const bytes = new Uint8Array(memory.buffer);
  const at = scratch.byteOffset;
  const tally = new Uint32Array(memory.buffer, at + TALLY, 16);
  const halfTally = new Uint16Array(memory.buffer, at + TALLY, 16);
  const counts = new Uint32Array(memory.buffer, at + COUNTS, 8);

  /** Walks over `count` elements at one address and writes what comes out at another. Extremes and counts go to the tally. */
  const walk = (
    name: WalkName,
    from: number,
    fromBytes: number,
    to: number,
    toBytes: number,
    count: number,
    step = KEEP_FINITE,
  ) => {
    tally.set(EMPTY_TALLY);
    const rest = count % LANES;
    const whole = count - rest;
    const end = from + whole * fromBytes;
    if (whole > 0) exports[name](from, end, to, at + TALLY, step);
    if (rest === 0) return;
    bytes.copyWithin(at + LAST, end, end + rest * fromBytes);
    bytes.fill(0, at + LAST + rest * fromBytes, at + LAST + LANES * fromBytes);
    exports[name](at + LAST, at + LAST + LANES * fromBytes, at + LAST_RESULTS, at + TALLY, step);
    bytes.copyWithin(to + whole * toBytes, at + LAST_RESULTS, at + LAST_RESULTS + rest * toBytes);
  };

  /** Adds what the tally says to `stats`; false where the elements have to be counted. */
  const read = (from: FloatDType, { overflowFrom, underflowBelow, value }: Ends, stats: ConvertStats): boolean => {
    const found = bytesOf(from) === 2 ? halfTally : tally;
    const lanes = bytesOf(from) === 2 ? 8 : 4;
    let most = 0;
    let least = 0xffffffff;
    for (let lane = 0; lane < lanes; lane++) {
      most = Math.max(most, found[lane] as number);
      least = Math.min(least, found[lanes + lane] as number);
    }
    if (
      most >= overflowFrom ||
      least < underflowBelow - 1 ||
      (from === 'F64' && tally.some((n, i) => i >= 8 && n > 0))
    ) {
      return false;
    }
    stats.largest = Math.max(stats.largest, value(most));
    return true;
  };

  /** Counts over `count` elements as fp32 words, which are then at `WORDS`. Finite fp64 stay finite. */
  const countWords = (from: FloatDType, source: number, to: TargetDType, count: number): ConvertStats => {
    const fromBytes = bytesOf(from);
    const widen = WALKS[from].F32;
    if (widen) walk(widen, source, fromBytes, at + WORDS, bytesOf('F32'), count);
    else bytes.copyWithin(at + WORDS, source, source + count * fromBytes);
    const end = at + WORDS + Math.ceil(count / LANES) * LANES * bytesOf('F32');
    bytes.fill(0, at + WORDS + count * bytesOf('F32'), end);
    const { overflowFrom, underflowBelow } = LIMITS[to];
    exports.count(at + WORDS, end, overflowFrom, underflowBelow, at + COUNTS);
    const [overflow = 0, underflow = 0, nan = 0, inf = 0, ...largest] = counts;
    return { overflow, underflow, nan, inf, largest: valueOfF32(Math.max(...largest)) };
  };

  /** As the tally has it, where the elements were fp64: finite values that fp32 cannot hold, and those that became zero. */
  const f64Counts = () => ({ grown: sum(tally.subarray(8, 12)), lost: sum(tally.subarray(12, 16)) });

  /** Where a block of the caller's lies in the memory; it is copied there where it does not. */
  const sourceOf = (input: Uint8Array, first: number, length: number): number => {
    const address = addressOf(input);
    if (address !== undefined) return address + first;
    bytes.set(input.subarray(first, first + length), at + SOURCE);
    return at + SOURCE;
  };

  return {
    description: 'WebAssembly SIMD',
    block: scratch.subarray(GATHERED, WORDS),

    converter(from, to, overflow) {
      const name = WALKS[from][to];
      assert(name !== undefined, `${from} to ${to} is a copy, not a conversion`);
      const [fromBytes, toBytes] = [bytesOf(from), bytesOf(to)];
      const ends = endsOf(from, to);

      /** Counts what a block has, and makes its results anew where they are not yet what was asked for. */
      const settle = (source: number, target: number, count: number): ConvertStats => {
        const stats = countWords(from, source, to, count);
        const { grown, lost } = from === 'F64' ? f64Counts() : { grown: 0, lost: 0 };
        stats.underflow += lost;
        if (to === 'F32') {
          stats.overflow = grown;
          if (grown > 0 && overflow === 'inf') walk(name, source, fromBytes, target, toBytes, count, LET_GROW);
        } else if (stats.overflow > 0 && overflow === 'clamp') {
          const narrow = to === 'F16' ? 'f32ToF16' : 'f32ToBf16';
          exports.clamp(at + WORDS, at + WORDS + Math.ceil(count / LANES) * LANES * 4, LIMITS[to].overflowFrom);
          walk(narrow, at + WORDS, bytesOf('F32'), target, toBytes, count);
        }
        return stats;
      };

      return (input, output, stats) => {
        const address = addressOf(output);
        const elements = output.length / toBytes;
        for (let first = 0; first < elements; first += BLOCK_ELEMENTS) {
          const count = Math.min(BLOCK_ELEMENTS, elements - first);
          const source = sourceOf(input, first * fromBytes, count * fromBytes);
          const target = address === undefined ? at + TARGET : address + first * toBytes;
          walk(name, source, fromBytes, target, toBytes, count);
          if (!read(from, ends, stats)) addStats(stats, settle(source, target, count));
          if (address === undefined) output.set(bytes.subarray(target, target + count * toBytes), first * toBytes);
        }
      };
    },

    scanner(dtype) {
      const size = bytesOf(dtype);
      const name = dtype === 'F64' ? 'f64ToF32' : size === 2 ? 'scan16' : 'scan32';
      const ends = endsOf(dtype, 'F32');
      return (input, stats) => {
        const elements = input.length / size;
        for (let first = 0; first < elements; first += BLOCK_ELEMENTS) {
          const count = Math.min(BLOCK_ELEMENTS, elements - first);
          const source = sourceOf(input, first * size, count * size);
          walk(name, source, size, at + TARGET, 0, count);
          // All that was fp64 is in the range of fp32 by now, so that nothing is lost.
          if (!read(dtype, ends, stats)) addStats(stats, countWords(dtype, source, 'F32', count));
        }
      };
    },
  };
}

function endsOf(from: FloatDType, to: TargetDType): Ends {
  const { overflowFrom, underflowBelow } = LIMITS[to];
  switch (from) {
    case 'F16':
      // Every fp16 value is in the range of bf16 and fp32.
      return { overflowFrom: 0x7c00, underflowBelow: 0, value: (half) => valueOfF32(f16ToF32(half)) };
    case 'BF16':
      return {
        overflowFrom: Math.ceil(Math.min(overflowFrom, F32_INFINITY) / 0x10000),
        underflowBelow: Math.ceil(underflowBelow / 0x10000),
        value: (half) => valueOfF32(half << 16),
      };
    default:
      return { overflowFrom, underflowBelow, value: valueOfF32 };
  }
}

function sum(numbers: Uint32Array): number {
  return numbers.reduce((total, number) => total + number, 0);
}
