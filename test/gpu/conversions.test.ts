import { afterAll, beforeAll, describe, test } from 'vitest';
import { bytesOf } from '../../src/base/dtype.js';
import type { GpuBackend } from '../../src/engine/gpu/backend.js';
import { testConversions } from '../helpers/conversion-tests.js';
import { mixedBytes, PAIRS, randomBytes, wholeJob } from '../helpers/float-vectors.js';
import { expectRight, openTestBackend } from '../helpers/gpu.js';

let gpu: GpuBackend;
beforeAll(async () => {
  gpu = await openTestBackend();
});
afterAll(() => gpu.close());

testConversions((job) => gpu.convert(job));

describe.each(['inf', 'clamp'] as const)('overflow to %s', (overflow) => {
  test.each(PAIRS)('%s to %s: bytes and counts are those of the CPU', async (from, to) => {
    await expectRight(gpu, wholeJob(from, to, mixedBytes(from, 300_001), overflow));
  });
});

test.each(PAIRS)('%s to %s: every small number of elements', async (from, to) => {
  for (let count = 0; count <= 35; count++) {
    await expectRight(gpu, wholeJob(from, to, randomBytes(count * bytesOf(from), 9)));
  }
});
