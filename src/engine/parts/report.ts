/**
 * Joins what was found out file by file to what one run of all of them would have found out.
 *
 * @module
 */

import { combineCrc32 } from '../../base/crc32.js';
import { assert } from '../../base/errors.js';
import { counted } from '../../base/words.js';
import type { CheckReport } from '../../checkpoints/inventory.js';
import { addStats, emptyStats } from '../../numeric/stats.js';
import type { Plan } from '../../plan/plan.js';
import { type AuditRun, CrcAudit } from '../audit.js';
import type { ConvertStats } from '../backend.js';
import { proofReports } from '../prove.js';
import { readBackDetail } from '../read-back.js';
import type { BackendReport, FileReport } from '../report.js';
import type { PlanSources } from '../sources.js';
import { outputFile } from '../tiles.js';
import { planOfFiles } from './parts.js';
import type { CompleteFile } from './state.js';

/** A file of a plan, by its index there, and its state. */
export interface FinishedFile {
  readonly index: number;
  readonly state: CompleteFile;
}

/** The statistics of each tensor of a plan, over the given files. */
export function joinStats(plan: Plan, files: readonly FinishedFile[]): ConvertStats[] {
  const sums = plan.tensors.map(() => emptyStats());
  for (const { index, state } of files) {
    for (const [i, tensor] of planOfFiles(plan, [index]).tensors.entries()) {
      const sum = sums[tensor];
      assert(sum, `the plan has no tensor ${tensor}`);
      const found = state.stats[i];
      if (found) addStats(sum, found);
    }
  }
  return sums;
}

/** The files as a report has them, in the order of the plan. */
export function joinFiles(plan: Plan, files: readonly FinishedFile[]): FileReport[] {
  return files
    .toSorted((a, b) => a.index - b.index)
    .map(({ index, state: { byteLength, crc32, sha256 } }) => ({
      path: outputFile(plan, index).path,
      byteLength,
      ...(crc32 === undefined ? {} : { crc32: crc32.toString(16).padStart(8, '0') }),
      ...(sha256 === undefined ? {} : { sha256 }),
    }));
}

/** What converted the files: one backend, or several. */
export function joinBackends(files: readonly FinishedFile[]): BackendReport {
  const backends = files.map(({ state }) => state.backend);
  const descriptions = new Set(backends.map(({ description }) => description));
  return {
    name: backends.some(({ name }) => name === 'gpu') ? 'gpu' : 'cpu',
    description: [...descriptions].join('; '),
    threads: Math.max(1, ...backends.map(({ threads }) => threads)),
    jobsOnCpu: backends.reduce((sum, { jobsOnCpu }) => sum + jobsOnCpu, 0),
  };
}

/**
 * The checks that need what was read: recorded CRC-32s, and comparisons. They are passed where they were for every file.
 * `plan` has these files and no others. Of a range with a recorded CRC-32 up to `extra` bytes that no file needed are read.
 *
 * @throws UnshardError `crc-mismatch`.
 */
export async function joinChecks(
  plan: Plan,
  files: readonly FinishedFile[],
  extra: number | undefined,
  sources: PlanSources,
  signal: AbortSignal | undefined,
): Promise<CheckReport[]> {
  const crcs = await auditOf(plan, files, extra).finish(sources, plan.sources, signal);
  const unverified = files.filter(({ state }) => state.crc32 === undefined).length;
  if (unverified === 0) return [crcs, ...proofReports(plan)];
  const detail = `Written with verification switched off: ${unverified} of ${counted(files.length, 'file')}.`;
  return ['input-crc32', ...new Set(['master-copy', ...proofReports(plan).map(({ id }) => id)])].map((id) => ({
    id,
    status: 'not-checkable',
    detail,
  }));
}

/** What reading back has shown: with `wasRead` that every file which was verified is as it was written. */
export function readBackReport(files: readonly FinishedFile[], wasRead: boolean): CheckReport {
  const id = 'read-back';
  const unverified = files.filter(({ state }) => state.crc32 === undefined).length;
  const bytes = files.reduce((sum, { state }) => sum + state.byteLength, 0);
  if (wasRead && unverified === 0) {
    const detail = readBackDetail(files.length, bytes);
    return { id, status: 'passed', detail };
  }
  const what = wasRead ? `${unverified} of ${counted(files.length, 'file')}` : 'the output';
  return { id, status: 'not-checkable', detail: `Not read back, since verification is switched off: ${what}.` };
}

/** An audit that has seen what was read for the files, of the ranges that something was read of. */
function auditOf(plan: Plan, files: readonly FinishedFile[], extra: number | undefined): CrcAudit {
  const runs = files.flatMap(({ state }) => state.audited);
  const ranges = [...new Set(runs.map(({ range }) => range))].toSorted((a, b) => a - b);
  const numbers = new Map(ranges.map((range, number) => [range, number]));
  const audit = new CrcAudit(
    ranges.flatMap((range) => plan.crcs[range] ?? []),
    extra,
  );
  audit.note(runs.map((run) => ({ ...run, range: numbers.get(run.range) ?? -1 })));
  return audit;
}

/** Runs with neighbours joined, and without those that lie in another. Overlapping ones stay as they are. */
export function joinNeighbours(runs: readonly AuditRun[]): AuditRun[] {
  const joined: AuditRun[] = [];
  for (const run of runs.toSorted((a, b) => a.range - b.range || a.start - b.start || b.length - a.length)) {
    const last = joined.at(-1);
    const end = last?.range === run.range ? last.start + last.length : -1;
    if (run.start + run.length <= end) continue;
    if (!last || run.start !== end) joined.push(run);
    else {
      const crc32 = combineCrc32(last.crc32, run.crc32, run.length);
      joined[joined.length - 1] = { ...last, length: last.length + run.length, crc32 };
    }
  }
  return joined;
}
