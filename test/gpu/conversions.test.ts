import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytesOf } from '../../src/base/dtype.js';
import type { GpuBackend } from '../../src/engine/gpu/backend.js';
import { F32_CASES, F64_CASES } from '../helpers/float-cases.js';
import {
  allHalves,
  canonicalizeNaNs,
  firstDifference,
  mixedBytes,
  namedBytes,
  PAIRS,
  randomBytes,
  sha256,
  statsFrom,
  TABLES,
  wholeJob,
} from '../helpers/float-vectors.js';
import { expectRight, openTestBackend } from '../helpers/gpu.js';

let gpu: GpuBackend;
beforeAll(async () => {
  gpu = await openTestBackend();
});
afterAll(() => gpu.close());

test.each(TABLES)('all 65,536 patterns of %s to %s are those of torch', async (from, to, wanted) => {
  const output = new Uint8Array(0x10000 * bytesOf(to));
  const job = { ...wholeJob(from, to, allHalves()), output };
  await gpu.convert(job);
  canonicalizeNaNs(to, output);
  expect(await sha256(output)).toBe(wanted);
});

describe('the named cases', () => {
  const halves = (key: 'f16' | 'bf16', cases: readonly Record<'f16' | 'bf16', number>[]) =>
    new Uint8Array(Uint16Array.from(cases.flatMap((found) => [found[key], found[key] | 0x8000])).buffer);
  const words = new Uint8Array(Uint32Array.from(F64_CASES.flatMap(({ f32 }) => [f32, f32 | 0x80000000])).buffer);

  test.each([
    { from: 'F32', to: 'F16', wanted: halves('f16', F32_CASES) },
    { from: 'F32', to: 'BF16', wanted: halves('bf16', F32_CASES) },
    { from: 'F64', to: 'F32', wanted: words },
    { from: 'F64', to: 'F16', wanted: halves('f16', F64_CASES) },
    { from: 'F64', to: 'BF16', wanted: halves('bf16', F64_CASES) },
  ] as const)('of $from to $to', async ({ from, to, wanted }) => {
    const job = wholeJob(from, to, namedBytes(from));
    const stats = await gpu.convert(job);
    expect(firstDifference(job.output, wanted, to)).toBeUndefined();
    expect(stats).toEqual([statsFrom(from, job.input, to, wanted)]);
  });
});

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
