/**
 * Single files of a plan that is run in parts: each is written with the proof of it, compared with that, or given up.
 *
 * @module
 */

import { isAbort, isUnshardError, type UnshardError } from '../../base/errors.js';
import type { OutputTree } from '../../io/types.js';
import { hashPlan } from '../../plan/hash.js';
import type { Plan } from '../../plan/plan.js';
import { CrcAudit } from '../audit.js';
import { refuseExisting } from '../existing.js';
import { reportOf } from '../make-report.js';
import { readBack } from '../read-back.js';
import type { Report } from '../report.js';
import type { RunOptions } from '../run.js';
import { PlanSources } from '../sources.js';
import { outputFile } from '../tiles.js';
import { type FilesPlan, planOfFiles } from './parts.js';
import { type FinishedFile, joinBackends, joinChecks, joinFiles, joinNeighbours, joinStats } from './report.js';
import { assertSamePlan, type CompleteFile, PartsState } from './state.js';

/** Writes some files of a plan. What is read goes to the audit, which is not asked for its findings. */
export type WriteFiles = (plan: Plan, options: RunOptions, audit: CrcAudit) => Promise<Report>;

/** What it takes to work on the files of a plan one by one. */
export interface PartsContext {
  readonly plan: Plan;
  readonly options: RunOptions;
  readonly states: PartsState;
  readonly writeFiles: WriteFiles;
}

/**
 * Opens the states of a plan's files.
 *
 * @throws UnshardError `parts-of-other-plan` of kind `sink`, unless files may be replaced.
 */
export async function openParts(plan: Plan, options: RunOptions, writeFiles: WriteFiles): Promise<PartsContext> {
  const states = new PartsState(options.output, await hashPlan(plan));
  if (options.overwrite !== true) assertSamePlan(await states.record(), states.plan, options.output.name);
  return { plan, options, states, writeFiles };
}

/**
 * Throws where files are there that no run of this plan has begun, unless files may be replaced.
 *
 * @throws UnshardError `output-exists` of kind `sink`.
 */
export async function refuseOthers({ plan, options, states }: PartsContext, files: readonly number[]): Promise<void> {
  if (options.overwrite === true) return;
  const others: string[] = [];
  for (const { path } of files.map((index) => outputFile(plan, index))) {
    // In this order: another run of the part writes the state first, and then the file.
    if ((await options.output.has(path)) && !(await states.read(path))) others.push(path);
  }
  await refuseExisting(options.output, others, files.length);
}

/** Writes one file and the proof of it. */
export async function writeFile(context: PartsContext, index: number, options: RunOptions): Promise<CompleteFile> {
  const { plan, states } = context;
  const { path, byteLength } = outputFile(plan, index);
  await states.write(path, { version: 1, status: 'started', plan: states.plan });
  const verify = options.verify ?? true;
  const audit = new CrcAudit(plan.crcs);
  const report = await writeUndisturbed(context, index, options, audit);
  const runs = verify ? audit.takeRuns() : [];
  const { name, description, threads, jobsOnCpu } = report.backend;
  const { crc32, sha256 } = report.files[0] ?? {};
  const state: CompleteFile = {
    version: 1,
    status: 'complete',
    plan: states.plan,
    byteLength,
    ...(crc32 === undefined ? {} : { crc32: Number.parseInt(crc32, 16) }),
    ...(sha256 === undefined ? {} : { sha256 }),
    stats: report.tensors.map((tensor) => tensor.stats ?? null),
    // What several files read must be the same runs in each, or they overlap when all are put together.
    audited: plan.options.duplicateTied ? runs : joinNeighbours(runs),
    backend: { name, description, threads, jobsOnCpu },
    bytesRead: report.bytesRead,
    seconds: report.seconds,
  };
  await states.write(path, state);
  return state;
}

/** A file that another run of its part replaces while it is read back is written again, so many times in all. */
const WRITE_TIMES = 5;

async function writeUndisturbed(
  context: PartsContext,
  index: number,
  options: RunOptions,
  audit: CrcAudit,
  times = WRITE_TIMES,
): Promise<Report> {
  const { plan, writeFiles } = context;
  const { path } = outputFile(plan, index);
  try {
    return await writeFiles(planOfFiles(plan, [index]).plan, { ...options, overwrite: true }, audit);
  } catch (error) {
    // What was only stopped may be finished by another run of this part at this moment.
    if (isAbort(error)) throw error;
    const isReplaced =
      isUnshardError(error, 'source') && error.detail.code === 'source-changed' && error.detail.facts['file'] === path;
    if (isReplaced && times > 1) {
      audit.takeRuns();
      return writeUndisturbed(context, index, options, audit, times - 1);
    }
    await context.options.output.remove(path);
    throw error;
  }
}

/** The state of a file that is complete and as long as it should be. */
export async function completeState(
  { plan, options, states }: PartsContext,
  index: number,
): Promise<CompleteFile | undefined> {
  const file = outputFile(plan, index);
  const state = await states.read(file.path);
  if (state?.status !== 'complete' || state.byteLength !== file.byteLength) return undefined;
  if (state.stats.length !== planOfFiles(plan, [index]).tensors.length) return undefined;
  return (await sizeOf(options.output, file.path)) === file.byteLength ? state : undefined;
}

/**
 * Reads a finished file. With `verify` it is compared with its state, where that has a CRC-32; where the options ask for its
 * SHA-256, the state that is given back has it.
 *
 * @throws UnshardError `read-back-differs` of kind `sink`.
 */
export async function rereadFile(
  { plan, options }: PartsContext,
  index: number,
  state: CompleteFile,
  verify: boolean,
): Promise<CompleteFile> {
  const { crc32, byteLength } = state;
  const { plan: alone } = planOfFiles(plan, [index]);
  const isCompared = verify && crc32 !== undefined;
  const sha256 = await readBack(
    { plan: alone, output: options.output, signal: options.signal ?? new AbortController().signal },
    outputFile(alone, 0),
    {
      ...(isCompared ? { written: [{ at: 0, length: byteLength, crc32 }] } : {}),
      header: isCompared,
      sha256: options.sha256 ?? false,
    },
  );
  return sha256 === undefined ? state : { ...state, sha256 };
}

/** Gives a file up: it is to be written again. */
export async function voidFile({ plan, options, states }: PartsContext, index: number): Promise<void> {
  const { path } = outputFile(plan, index);
  await states.write(path, { version: 1, status: 'started', plan: states.plan });
  await options.output.remove(path);
}

/**
 * The report on files as one run of them would give it, but for what reading back has shown. Where a source turns out to
 * be damaged, what was made of it is given up. Of the sources up to `extra` bytes each are read that no file needed.
 *
 * @throws UnshardError `crc-mismatch`.
 */
export async function joinReport(
  context: PartsContext,
  ours: FilesPlan,
  files: readonly FinishedFile[],
  extra?: number,
): Promise<Report> {
  const { plan, options } = context;
  const sources = new PlanSources((path) => options.input.open(path), plan.sources);
  try {
    const checks = await joinChecks(ours.plan, files, extra, sources, options.signal);
    const stats = joinStats(plan, files);
    const report = reportOf(ours.plan, {
      backend: joinBackends(files),
      files: joinFiles(plan, files),
      stats: ours.tensors.flatMap((tensor) => stats[tensor] ?? []),
      checks: [...plan.checks, ...checks],
      seconds: files.reduce((sum, { state }) => sum + state.seconds, 0),
    });
    return { ...report, bytesRead: files.reduce((sum, { state }) => sum + state.bytesRead, 0) };
  } catch (error) {
    if (isUnshardError(error, 'bad-file')) await voidReaders(context, files, error);
    throw error;
  } finally {
    await sources.close();
  }
}

/** Gives up the files that something was read for of the range which an error tells of. */
async function voidReaders(context: PartsContext, files: readonly FinishedFile[], { detail }: UnshardError) {
  const { sources, crcs } = context.plan;
  const damaged = crcs.findIndex(
    ({ source, offset }) => sources[source]?.path === detail.facts['file'] && offset === detail.facts['offset'],
  );
  for (const { index, state } of files) {
    if (state.audited.some(({ range }) => range === damaged)) await voidFile(context, index);
  }
}

/** Size of a file; undefined where there is none. */
async function sizeOf(output: OutputTree, path: string): Promise<number | undefined> {
  try {
    const source = await output.open(path);
    await source.close();
    return source.size;
  } catch (error) {
    if (isUnshardError(error, 'source') && error.detail.code === 'source-missing') return undefined;
    throw error;
  }
}
