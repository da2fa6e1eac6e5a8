/**
 * What every implementation of the conversions is held to, whatever runs it: torch's tables of all 16-bit patterns, and
 * the named cases.
 *
 * @module
 */

import { describe, expect, test } from 'vitest';
import { bytesOf } from '../../src/base/dtype.js';
import type { ConvertJob, ConvertStats } from '../../src/engine/backend.js';
import { F32_CASES, F64_CASES } from './float-cases.js';
import {
  allHalves,
  canonicalizeNaNs,
  firstDifference,
  namedBytes,
  sha256,
  statsFrom,
  TABLES,
  wholeJob,
} from './float-vectors.js';

/** Declares the tests. `convert` runs a job of one piece. */
export function testConversions(convert: (job: ConvertJob) => Promise<ConvertStats[]>): void {
  test.each(TABLES)('all 65,536 patterns of %s to %s are those of torch', async (from, to, wanted) => {
    const output = new Uint8Array(0x10000 * bytesOf(to));
    await convert({ ...wholeJob(from, to, allHalves()), output });
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
      const stats = await convert(job);
      expect(firstDifference(job.output, wanted, to)).toBeUndefined();
      expect(stats).toEqual([statsFrom(from, job.input, to, wanted)]);
    });
  });
}
