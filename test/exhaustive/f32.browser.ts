import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { GpuBackend } from '../../src/engine/gpu/backend.js';
import { BLOCK_ELEMENTS, BLOCK_HASHES, fillBlock } from '../helpers/f32-blocks.js';
import { canonicalizeNaNs, sha256, wholeJob } from '../helpers/float-vectors.js';
import { openTestBackend } from '../helpers/gpu.js';

/**
 * The blocks in which something changes, in both signs. All others are runs of normal numbers, or of one result, that
 * differ from a block named here in the exponent only.
 */
const BLOCKS = [
  { block: 0x00, why: 'zero, the fp32 subnormals, and the bf16 subnormals with their underflow' },
  { block: 0x01, why: 'the smallest numbers that are normal in fp32 and bf16, and zero in fp16' },
  { block: 0x32, why: 'the last block that is all zero in fp16' },
  { block: 0x33, why: 'the underflow tie of fp16 and its smallest subnormal' },
  { block: 0x35, why: 'fp16 subnormals of a few bits' },
  { block: 0x37, why: 'fp16 subnormals of nearly all bits' },
  { block: 0x38, why: 'from fp16 subnormals to normals' },
  { block: 0x3f, why: 'around one: ties of both dtypes, carries into the exponent' },
  { block: 0x47, why: 'the largest fp16 and its overflow' },
  { block: 0x48, why: 'the first block that is all infinite in fp16' },
  { block: 0x7e, why: 'the last block that is all finite' },
  { block: 0x7f, why: 'the largest bf16 and its overflow, infinity, all NaNs' },
].flatMap(({ block, why }) => [
  { block, why },
  { block: block | 0x80, why: `${why}, negative` },
]);

let gpu: GpuBackend;
beforeAll(async () => {
  gpu = await openTestBackend();
});
afterAll(() => gpu.close());

const words = new Uint32Array(BLOCK_ELEMENTS);

describe.each(['F16', 'BF16'] as const)('F32 to %s on the GPU', (to) => {
  test.each(BLOCKS)('block $block: $why', async ({ block }) => {
    fillBlock(words, block);
    const output = new Uint8Array(BLOCK_ELEMENTS * 2);
    await gpu.convert({ ...wholeJob('F32', to, new Uint8Array(words.buffer)), output });
    canonicalizeNaNs(to, output);
    expect(await sha256(output)).toBe(BLOCK_HASHES[to][block]);
  });
});
