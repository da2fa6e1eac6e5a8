import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { converter } from '../../src/numeric/convert.js';
import { F32_INFINITY, LIMITS } from '../../src/numeric/limits.js';
import { emptyStats } from '../../src/numeric/stats.js';
import { BLOCK_ELEMENTS, BLOCK_HASHES, fillBlock } from '../helpers/f32-blocks.js';
import { canonicalizeNaNs } from '../helpers/float-vectors.js';
import { simdImplementation } from '../helpers/kernels.js';

/**
 * Converts all 2^32 fp32, by the specification and by WebAssembly, which must give the same bytes, NaNs included, and
 * compares with torch, block by block. Each dtype has a test file of its own, so that they run in two processes.
 */
export function expectEveryBlock(to: 'F16' | 'BF16'): void {
  const words = new Uint32Array(BLOCK_ELEMENTS);
  const input = new Uint8Array(words.buffer);
  const output = new Uint8Array(BLOCK_ELEMENTS * 2);
  const simdOutput = new Uint8Array(output.byteLength);
  const [stats, simdStats] = [emptyStats(), emptyStats()];
  const convert = converter('F32', to, 'inf');
  const convertBySimd = simdImplementation().converter('F32', to, 'inf');

  test.each(BLOCK_HASHES[to].map((hash, block) => ({ block, hash })))(
    `F32 to ${to}, block $block`,
    ({ block, hash }) => {
      fillBlock(words, block);
      convert(input, output, stats);
      convertBySimd(input, simdOutput, simdStats);
      expect(Buffer.compare(simdOutput, output), 'WebAssembly differs from the specification').toBe(0);
      canonicalizeNaNs(to, output);
      expect(createHash('sha256').update(output).digest('hex')).toBe(hash);
    },
  );

  test(`F32 to ${to}, the counts over all blocks`, () => {
    const { overflowFrom, underflowBelow } = LIMITS[to];
    expect(simdStats).toEqual(stats);
    expect(stats).toEqual({
      overflow: 2 * (F32_INFINITY - overflowFrom),
      underflow: 2 * (underflowBelow - 1),
      nan: 2 * (2 ** 23 - 1),
      inf: 2,
      largest: (2 - 2 ** -23) * 2 ** 127,
    });
  });
}
