import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytesOf } from '../../src/base/dtype.js';
import type { GpuBackend } from '../../src/engine/gpu/backend.js';
import { PAIRS, randomBytes, wholeJob } from '../helpers/float-vectors.js';
import { expectRight, openTestBackend } from '../helpers/gpu.js';
import { expectedOf, jobOf, type Run } from '../helpers/piece-jobs.js';

let gpu: GpuBackend;
beforeAll(async () => {
  gpu = await openTestBackend();
});
afterAll(() => gpu.close());

const input = randomBytes(1 << 18, 21);

describe.each([0, 1, 2, 3, 4, 5, 6, 7, 8])('input at byte %i', (offset) => {
  test.each(PAIRS)('%s to %s', async (from, to) => {
    // The piece ends where the input ends, so that the last element may end in the middle of a word.
    for (const count of [1, 2, 1001]) {
      const bytes = input.subarray(0, offset + count * bytesOf(from));
      await expectRight(gpu, jobOf(from, to, bytes, [{ input: offset, count }]));
      await expectRight(gpu, jobOf(from, to, input, [{ input: offset, count }], { outputOffset: offset }));
    }
  });
});

test('two pieces in one word of output', async () => {
  const one = new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer);
  const job = jobOf('F32', 'BF16', one, [
    { input: 12, count: 1 },
    { input: 0, count: 1, slot: 1 },
    { input: 8, count: 1, slot: 2 },
  ]);
  const stats = await gpu.convert(job);
  expect([...new Uint16Array(job.output.buffer)]).toEqual([0x4080, 0x3f80, 0x4040]);
  expect(stats.map(({ largest }) => largest)).toEqual([4, 1, 3]);
});

test('single elements in reverse order', async () => {
  const runs = Array.from(
    { length: 30_001 },
    (_, i): Run => ({ input: 4 * (30_000 - i) + (i % 4), count: 1, slot: i % 7 }),
  );
  await expectRight(gpu, jobOf('F32', 'F16', input, runs));
});

test('lengths from 0 to many workgroups, at odd offsets, in three slots', async () => {
  const counts = [0, 1, 2, 7, 8, 9, 0, 0, 1023, 1024, 1025, 5000, 3, 31, 33, 0];
  const runs = counts.map((count, i): Run => ({ input: 37 * i, count, slot: i % 3 }));
  for (const [from, to] of PAIRS) await expectRight(gpu, jobOf(from, to, input, runs, { overflow: 'clamp' }));
});

test('a slot that no piece names has empty statistics', async () => {
  const job = { ...jobOf('F32', 'F16', input, [{ input: 0, count: 5, slot: 2 }]), slots: 4 };
  const stats = await gpu.convert(job);
  const empty = { overflow: 0, underflow: 0, nan: 0, inf: 0, largest: 0 };
  expect([stats[0], stats[1], stats[3]]).toEqual([empty, empty, empty]);
  expect(stats[2]).toEqual(expectedOf(job).stats[2]);
});

test('a job of no elements needs no dispatch', async () => {
  const empty = { overflow: 0, underflow: 0, nan: 0, inf: 0, largest: 0 };
  expect(await gpu.convert({ ...jobOf('F32', 'F16', input, []), slots: 1 })).toEqual([empty]);
});

test('a job that breaks the rules is refused before it reaches the device', async () => {
  const job = jobOf('F32', 'F16', new Uint8Array(8), [{ input: 1, count: 2 }]);
  await expect(gpu.convert(job)).rejects.toThrow('bytes [1, 9) of 8 bytes of input');
});

describe('jobs larger than the buffers', () => {
  test('go in batches that give the same bytes and counts', async () => {
    const small = await openTestBackend({ maxBufferBytes: 1024 });
    const counts = [700, 1, 3000, 8, 0, 513];
    const runs = counts.map((count, i): Run => ({ input: 50_001 - 997 * i, count, slot: i % 2 }));
    for (const [from, to] of PAIRS) await expectRight(small, jobOf(from, to, input, runs, { outputOffset: 1 }));
    await small.close();
  });

  test('a piece table larger than a buffer is cut too', async () => {
    const small = await openTestBackend({ maxBufferBytes: 1024 });
    const runs = Array.from({ length: 500 }, (_, i): Run => ({ input: 2 * ((i * 13) % 500), count: 1, slot: i % 2 }));
    await expectRight(small, jobOf('F16', 'BF16', input, runs));
    await small.close();
  });
});

describe.each([
  { bytes: 16, title: 'whole vectors' },
  { bytes: 4, title: 'whole words' },
  { bytes: 1, title: 'single bytes' },
])('pieces whose octets lie at $title', ({ bytes }) => {
  test.each(PAIRS)('%s to %s, within a workgroup and over several', async (from, to) => {
    const size = bytesOf(from);
    const counts = [40_000, 16, 8, 16_384, 1, 30_001];
    let elements = 0;
    const runs = counts.map((count, i): Run => {
      // As far into a vector as the first element of the output is into an octet, and some steps more but for the first.
      const input = ((elements * size) % 16) + 1600 * i + (i === 0 ? 0 : bytes);
      elements += count;
      return { input, count, slot: i % 3 };
    });
    await expectRight(gpu, jobOf(from, to, randomBytes(400_000, 31), runs));
    const ordinary = new Uint8Array(Uint16Array.from({ length: 200_000 }, (_, i) => 0x3c00 + (i % 700)).buffer);
    await expectRight(gpu, jobOf(from, to, ordinary, runs));
  });
});

test('a single value to count among many that are ordinary, wherever it lies', async () => {
  const elements = 40_003;
  for (const at of [0, 7, 8, 16_383, 16_384, 32_768, elements - 1]) {
    const values = new Float32Array(elements).fill(0.5);
    values[at] = -1e9;
    await expectRight(gpu, wholeJob('F32', 'F16', new Uint8Array(values.buffer), 'clamp'));
  }
});

test('many jobs at once, of all kinds and sizes', async () => {
  await Promise.all(
    Array.from({ length: 40 }, (_, i) => {
      const [from, to] = PAIRS[i % PAIRS.length] as (typeof PAIRS)[number];
      const runs: Run[] = [
        { input: i, count: (i * 7919) % 9000 },
        { input: 2 * i, count: i, slot: 1 },
      ];
      return expectRight(gpu, jobOf(from, to, input, runs, { overflow: i % 2 ? 'inf' : 'clamp', outputOffset: i % 5 }));
    }),
  );
});
