/**
 * Counts what is special in an array of floats: NaNs, infinities, values that a target dtype cannot hold, and the
 * largest magnitude. One pass over the input that needs no output, so that it serves conversions and copies alike.
 *
 * @module
 */

import type { FloatDType, TargetDType } from '../base/dtype.js';
import { f16ToF32, f64ToF32 } from './bits.js';
import { F32_INFINITY, LIMITS, type Limits, NO_LIMITS } from './limits.js';
import { type ConvertStats, valueOfF32 } from './stats.js';
import { words16, words32 } from './words.js';

/**
 * Adds the statistics of all elements of `input` to `stats`. The bytes start at a multiple of the word size (2 or 4
 * bytes; fp64 is two words of 4) in their buffer.
 */
export type Scan = (input: Uint8Array, stats: ConvertStats) => void;

/** Statistics of elements that are copied: nothing overflows or underflows. */
export function scan(dtype: FloatDType): Scan {
  return SCANS[dtype](NO_LIMITS);
}

/** Statistics of elements that are converted. */
export function scanFor(from: FloatDType, to: TargetDType): Scan {
  return SCANS[from](LIMITS[to]);
}

const SCANS: Readonly<Record<FloatDType, (limits: Limits) => Scan>> = {
  F32: ({ overflowFrom, underflowBelow }) => {
    const from = Math.min(overflowFrom, F32_INFINITY);
    return (input, stats) => {
      const largest = scan32(words32(input), from, underflowBelow, stats);
      stats.largest = Math.max(stats.largest, valueOfF32(largest));
    };
  },
  BF16: ({ overflowFrom, underflowBelow }) => {
    const from = Math.min(Math.ceil(overflowFrom / 0x10000), BF16_INFINITY);
    const below = Math.ceil(underflowBelow / 0x10000);
    return (input, stats) => {
      const largest = scan16(words16(input), BF16_INFINITY, from, below, stats);
      stats.largest = Math.max(stats.largest, valueOfF32(largest << 16));
    };
  },
  // Every fp16 value is in the range of bf16 and fp32.
  F16: () => (input, stats) => {
    const largest = scan16(words16(input), F16_INFINITY, F16_INFINITY, 0, stats);
    stats.largest = Math.max(stats.largest, valueOfF32(f16ToF32(largest)));
  },
  F64: (limits) => (input, stats) => {
    const largest = scan64(words32(input), limits, stats);
    stats.largest = Math.max(stats.largest, valueOfF32(Math.min(largest, F32_INFINITY - 1)));
  },
};

const BF16_INFINITY = 0x7f80;
const F16_INFINITY = 0x7c00;

// Each loop counts into `stats` and returns the largest finite magnitude, in its own bits. They are kept apart by the
// width of an element, and ask a single question of an ordinary one, because that makes them three times as fast.

function scan32(words: Uint32Array, overflowFrom: number, underflowBelow: number, stats: ConvertStats): number {
  const ordinary = overflowFrom - underflowBelow;
  let largest = 0;
  for (let i = 0; i < words.length; i++) {
    const magnitude = (words[i] as number) & 0x7fffffff;
    if ((magnitude - underflowBelow) >>> 0 < ordinary) {
      if (magnitude > largest) largest = magnitude;
    } else if (magnitude > F32_INFINITY) stats.nan++;
    else if (magnitude === F32_INFINITY) stats.inf++;
    else {
      if (magnitude >= overflowFrom) stats.overflow++;
      else if (magnitude !== 0) stats.underflow++;
      if (magnitude > largest) largest = magnitude;
    }
  }
  return largest;
}

function scan16(
  words: Uint16Array,
  infinity: number,
  overflowFrom: number,
  underflowBelow: number,
  stats: ConvertStats,
): number {
  const ordinary = overflowFrom - underflowBelow;
  let largest = 0;
  for (let i = 0; i < words.length; i++) {
    const magnitude = (words[i] as number) & 0x7fff;
    if ((magnitude - underflowBelow) >>> 0 < ordinary) {
      if (magnitude > largest) largest = magnitude;
    } else if (magnitude > infinity) stats.nan++;
    else if (magnitude === infinity) stats.inf++;
    else {
      if (magnitude >= overflowFrom) stats.overflow++;
      else if (magnitude !== 0) stats.underflow++;
      if (magnitude > largest) largest = magnitude;
    }
  }
  return largest;
}

function scan64(words: Uint32Array, { overflowFrom, underflowBelow }: Limits, stats: ConvertStats): number {
  let largest = 0;
  for (let i = 0; i < words.length; i += 2) {
    const low = words[i] as number;
    const high = (words[i + 1] as number) & 0x7fffffff;
    if (high >= 0x7ff00000) {
      if (high === 0x7ff00000 && low === 0) stats.inf++;
      else stats.nan++;
      continue;
    }
    const magnitude = f64ToF32(low, high);
    if (magnitude >= overflowFrom) stats.overflow++;
    else if (magnitude < underflowBelow && (low | high) !== 0) stats.underflow++;
    if (magnitude > largest) largest = magnitude;
  }
  return largest;
}
