/**
 * What converts and counts elements at any alignment: the seam between gathering elements and computing with them.
 *
 *     const convert = kernels.converter('F32', 'F16', 'inf');
 *     convert(input, output, stats);
 *
 * @module
 */

import type { FloatDType, TargetDType } from '../base/dtype.js';
import type { Convert } from './convert.js';
import type { Scan } from './scan.js';

/** Elements that are taken at once: 256 KiB of fp32, so that they stay in the second cache from one step to the next. */
export const BLOCK_ELEMENTS = 65_536;

/**
 * One implementation of all conversions. All give the same bytes and the same statistics. Input and output may have any
 * alignment; where they lie in the memory of the kernels (`reserveBytes`) they are not copied.
 */
export interface Kernels {
  /** What runs, for people. */
  readonly description: string;
  /** Room for `BLOCK_ELEMENTS` of any dtype, to gather them in. It is nobody's between two calls. */
  readonly block: Uint8Array;
  /**
   * What converts `from` to another dtype. With `clamp`, a finite value beyond the range becomes the largest finite
   * value of its sign; infinities stay.
   */
  converter(from: FloatDType, to: TargetDType, overflow: 'inf' | 'clamp'): Convert;
  /** What counts over elements that are copied. */
  scanner(dtype: FloatDType): Scan;
}
