/**
 * All fp32 bit patterns, in 256 blocks of 2^24: block `b` holds `b << 24` up to `(b + 1) << 24`. Blocks from 128 on are
 * the negative numbers.
 *
 * @module
 */

import expected from '../numeric/expected.json';

/** Patterns in a block. */
export const BLOCK_ELEMENTS = 2 ** 24;

/** SHA-256 of each block's results as torch gives them, NaNs canonical. */
export const BLOCK_HASHES: Readonly<Record<'F16' | 'BF16', readonly string[]>> = expected.f32_blocks_of_2_24;

/** Writes the patterns of a block, in ascending order. */
export function fillBlock(words: Uint32Array, block: number): void {
  for (let i = 0; i < words.length; i++) words[i] = (block << 24) | i;
}
