/**
 * Jobs of many pieces, and what they are to give: the conversion of the gathered bytes, in one piece.
 *
 * @module
 */

import { bytesOf, type FloatDType, type TargetDType } from '../../src/base/dtype.js';
import type { ConvertJob, ConvertStats, JobPiece } from '../../src/engine/backend.js';
import { converter } from '../../src/numeric/convert.js';
import { emptyStats } from '../../src/numeric/stats.js';
import { concat } from './float-vectors.js';

/** A run of elements: where it is, how many, whose. */
export interface Run {
  readonly input: number;
  readonly count: number;
  readonly slot?: number;
}

/** A job over the runs, in their order. Its output starts `outputOffset` bytes after a multiple of 8. */
export function jobOf(
  from: FloatDType,
  to: TargetDType,
  input: Uint8Array,
  runs: readonly Run[],
  { overflow = 'inf' as 'inf' | 'clamp', outputOffset = 0 } = {},
): ConvertJob {
  let elements = 0;
  const pieces: JobPiece[] = [];
  for (const { input: offset, count, slot = 0 } of runs) {
    pieces.push({ input: offset, output: elements, count, slot });
    elements += count;
  }
  const output = new Uint8Array(outputOffset + elements * bytesOf(to)).subarray(outputOffset);
  const slots = Math.max(0, ...runs.map(({ slot = 0 }) => slot + 1));
  return { from, to, overflow, input, pieces, output, slots };
}

/** The output and the statistics that the job must give, by the functions of `numeric/` on gathered, aligned bytes. */
export function expectedOf(job: ConvertJob): { readonly output: Uint8Array; readonly stats: ConvertStats[] } {
  const convert = converter(job.from, job.to, job.overflow);
  const stats = Array.from({ length: job.slots }, emptyStats);
  const parts = job.pieces.map(({ input, count, slot }) => {
    const output = new Uint8Array(count * bytesOf(job.to));
    const gathered = new Uint8Array(job.input.subarray(input, input + count * bytesOf(job.from)));
    convert(gathered, output, stats[slot] as ConvertStats);
    return output;
  });
  return { output: concat(parts), stats };
}
