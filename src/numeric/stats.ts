/**
 * What is counted while a tensor is converted or copied.
 *
 * @module
 */

/** What happened to the elements of one tensor. */
export interface ConvertStats {
  /** Finite values beyond the range of the output dtype. */
  overflow: number;
  /** Values other than zero that became zero. */
  underflow: number;
  /** NaNs in the input. */
  nan: number;
  /** Infinities in the input. */
  inf: number;
  /** Largest magnitude of the finite input values, exact; 0 for none. Of fp64 it is rounded to fp32 first, to at most the largest fp32. */
  largest: number;
}

/** The statistics of no elements. */
export function emptyStats(): ConvertStats {
  return { overflow: 0, underflow: 0, nan: 0, inf: 0, largest: 0 };
}

/** Adds the statistics of other elements of the same tensor to `into`. */
export function addStats(into: ConvertStats, more: Readonly<ConvertStats>): void {
  into.overflow += more.overflow;
  into.underflow += more.underflow;
  into.nan += more.nan;
  into.inf += more.inf;
  into.largest = Math.max(into.largest, more.largest);
}

/** The value of a finite fp32 magnitude (a word without its sign). */
export function valueOfF32(magnitude: number): number {
  if (magnitude < 0x00800000) return magnitude * 2 ** -149;
  return ((magnitude & 0x7fffff) | 0x800000) * 2 ** ((magnitude >>> 23) - 150);
}
