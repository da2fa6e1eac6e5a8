/**
 * Ends what parts have begun: sees that every file is there and right, and writes what comes last.
 *
 * @module
 */

import { isUnshardError, UnshardError } from '../../base/errors.js';
import { counted } from '../../base/words.js';
import type { FileTree, SharedOutput } from '../../io/types.js';
import { checkPlan, STATE_FOLDER } from '../../plan/check.js';
import type { Plan } from '../../plan/plan.js';
import type { Report, RunProgress } from '../report.js';
import { writeFiles } from '../run.js';
import { outputFile } from '../tiles.js';
import {
  completeState,
  joinReport,
  openParts,
  type PartsContext,
  refuseOthers,
  rereadFile,
  voidFile,
  writeFile,
} from './files.js';
import { lastFiles, partName, partOfFiles } from './parts.js';
import { type FinishedFile, joinFiles, readBackReport } from './report.js';

/** Options of `finish`. */
export interface FinishOptions {
  /** The folder that was inspected. Little is read of it: what lies between the pieces that parts have read. */
  readonly input: FileTree;
  /** Where the parts were written. */
  readonly output: SharedOutput;
  /** Replace an index that is there already and is of no part of this plan. Default false: it is an error. */
  readonly overwrite?: boolean;
  /** Read every file back and compare it with what was written. Default true; else only sizes are compared. */
  readonly verify?: boolean;
  /** Take the SHA-256 of every file, for the report. Default false: the report has those that parts have taken. */
  readonly sha256?: boolean;
  readonly signal?: AbortSignal;
  /** Called as files are read back, and as the last ones are written. */
  readonly onProgress?: (progress: RunProgress) => void;
}

/**
 * Finishes a plan whose parts were run: compares every file with the proof that its part has left, joins the reports of
 * all parts, writes the index of a sharded model, and removes the proofs.
 *
 * @throws UnshardError of kind `sink`: `parts-missing` with the files and parts that are not there, `parts-of-other-plan`,
 * `read-back-differs`, `output-exists`; of kind `usage`: `parts-finished` where all was done before; of kind `bad-file`:
 * `crc-mismatch` where pieces of a source that several parts have read are not what was saved. In the cases that damage a
 * file, its part is to be run again.
 */
export async function finish(plan: Plan, options: FinishOptions): Promise<Report> {
  checkPlan(plan);
  const started = performance.now();
  const context = await openParts(plan, options, writeFiles);
  const last = lastFiles(plan);
  const verify = options.verify ?? true;
  const complete = await allParts(context, last);
  await refuseOthers(context, last);
  const isRead = verify || options.sha256 === true;
  const parts = isRead ? await rereadAll(context, complete, verify, options.onProgress) : complete;
  // What is wrong shows before the index appears, which makes the files a model.
  const report = await joinReport(context, { plan, tensors: [...plan.tensors.keys()] }, parts);
  const ends: FinishedFile[] = [];
  for (const index of last) ends.push({ index, state: await writeFile(context, index, writing(options)) });
  await options.output.sweep(plan.files.map(({ path }) => path));
  // First the record: without it nothing that is left of the folder is taken for a part.
  await context.states.forget();
  await options.output.removeFolder(STATE_FOLDER);
  const files = [...parts, ...ends];
  return {
    ...report,
    files: joinFiles(plan, files),
    checks: [...report.checks, readBackReport(files, verify)],
    seconds: report.seconds + (performance.now() - started) / 1000,
  };
}

/** What progress tells is said of all files, and not of the small last ones by themselves. */
function writing({ onProgress: _, ...options }: FinishOptions): FinishOptions {
  return options;
}

/**
 * The states of all files that parts write.
 *
 * @throws UnshardError `parts-missing`, `parts-finished`.
 */
async function allParts(context: PartsContext, last: readonly number[]): Promise<FinishedFile[]> {
  const { plan, options, states } = context;
  const record = await states.record();
  if (!record && (await isAllThere(context))) throw alreadyFinished(plan, options.output.name);
  const inParts = [...plan.files.keys()].filter((index) => !last.includes(index));
  const found: FinishedFile[] = [];
  const missing: number[] = [];
  for (const index of inParts) {
    const state = await completeState(context, index);
    if (state) found.push({ index, state });
    else missing.push(index);
  }
  if (missing.length > 0) throw partsMissing(context, missing, found.length, record?.count);
  return found;
}

async function isAllThere({ plan, options }: PartsContext): Promise<boolean> {
  for (const { path } of plan.files) if (!(await options.output.has(path))) return false;
  return true;
}

/** Reads every file back. One that is not what was written is given up, so that its part writes it again. */
async function rereadAll(
  context: PartsContext,
  parts: readonly FinishedFile[],
  verify: boolean,
  tell: FinishOptions['onProgress'],
): Promise<FinishedFile[]> {
  const total = parts.reduce((sum, { state }) => sum + state.byteLength, 0);
  let written = 0;
  const read: FinishedFile[] = [];
  for (const [filesDone, { index, state }] of parts.entries()) {
    context.options.signal?.throwIfAborted();
    const { path, byteLength } = outputFile(context.plan, index);
    tell?.({ written, total, file: path, filesDone, files: parts.length, phase: 'check' });
    try {
      read.push({ index, state: await rereadFile(context, index, state, verify) });
    } catch (error) {
      if (!isUnshardError(error, 'sink')) throw error;
      await voidFile(context, index);
      const advice = `It was removed; run the part with this file again (file ${index + 1} of the plan). ${error.detail.advice}`;
      throw new UnshardError({ ...error.detail, advice }, { cause: error });
    }
    written += byteLength;
  }
  return read;
}

/** Files and parts that a message names at most; the facts have them all. */
const MAX_NAMED = 10;

function partsMissing(
  { plan, options }: PartsContext,
  missing: readonly number[],
  found: number,
  count: number | undefined,
): UnshardError {
  const partOf = count === undefined ? undefined : partOfFiles(plan, count);
  const nameOf = (index: number) => {
    const part = partOf?.get(index);
    const inPart = part === undefined || count === undefined ? '' : ` of part ${partName({ index: part, count })}`;
    return `file ${index + 1} (${outputFile(plan, index).path})${inPart}`;
  };
  const named = missing.slice(0, MAX_NAMED).map(nameOf).join(', ');
  const more = missing.length > MAX_NAMED ? ` and ${missing.length - MAX_NAMED} more` : '';
  const parts = new Set(missing.flatMap((index) => partOf?.get(index) ?? []));
  const expected = found + missing.length;
  return new UnshardError({
    kind: 'sink',
    code: 'parts-missing',
    message: `${options.output.name} holds ${found} of the ${counted(expected, 'file')} that parts write. Missing: ${named}${more}.`,
    advice: 'Run these parts, again where they were stopped, and then finish.',
    facts: {
      file: missing.map((index) => outputFile(plan, index).path).join(', '),
      expected,
      found,
      ...(count === undefined
        ? {}
        : {
            parts: [...parts]
              .toSorted((a, b) => a - b)
              .map((index) => partName({ index, count }))
              .join(', '),
          }),
    },
  });
}

function alreadyFinished(plan: Plan, folder: string): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'parts-finished',
    message: `${folder} holds all ${plan.files.length} files of the plan, and no part is under way.`,
    advice: 'It was finished before. unshard verify compares the weights with the checkpoint.',
    facts: { file: folder, found: plan.files.length },
  });
}
