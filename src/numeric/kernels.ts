/**
 * What converts and counts elements in blocks, in a memory of its own: the seam between gathering elements and
 * computing with them.
 *
 *     const convert = kernels.converter('F32', 'F16', 'inf');
 *     kernels.input.set(bytes);
 *     output.set(convert(bytes.byteLength, stats));
 *
 * There is one memory for all: a block is put there, converted and taken away before the next.
 *
 * @module
 */

import type { FloatDType, TargetDType } from '../base/dtype.js';
import type { ConvertStats } from './stats.js';

/** Elements of a block: 256 KiB of fp32, so that it stays in the second cache from its gathering to its result. */
export const BLOCK_ELEMENTS = 65_536;

/** One implementation of all conversions. All give the same bytes and the same statistics. */
export interface Kernels {
  /** What runs, for people. */
  readonly description: string;
  /** Where the elements of a block are put, `BLOCK_ELEMENTS` of any dtype. What was put there is used up by one call. */
  readonly input: Uint8Array;
  /**
   * What converts `from` to another dtype. With `clamp`, a finite value beyond the range becomes the largest finite
   * value of its sign; infinities stay.
   */
  converter(from: FloatDType, to: TargetDType, overflow: 'inf' | 'clamp'): BlockConverter;
  /** What counts over elements that are copied. */
  scanner(dtype: FloatDType): BlockScanner;
}

/**
 * Converts the first `length` bytes of the input, whole elements, and adds their statistics to `stats`. The results are
 * good until the next block.
 */
export type BlockConverter = (length: number, stats: ConvertStats) => Uint8Array;

/** Adds the statistics of the first `length` bytes of the input, whole elements, to `stats`. */
export type BlockScanner = (length: number, stats: ConvertStats) => void;
