/**
 * Runs a part of a plan, file by file. What is finished stays, whatever comes after it: the same call takes up where an
 * earlier one was stopped or killed.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { isUnshardError } from '../../base/errors.js';
import { checkPlan } from '../../plan/check.js';
import type { Plan } from '../../plan/plan.js';
import { DEFAULT_MEMORY } from '../lanes.js';
import type { Report, RunProgress } from '../report.js';
import type { RunOptions } from '../run.js';
import type { Threads } from '../threads/threads.js';
import { outputFile } from '../tiles.js';
import {
  completeState,
  joinReport,
  openParts,
  type PartsContext,
  refuseOthers,
  rereadFile,
  type WriteFiles,
  writeFile,
} from './files.js';
import { filesOfPart, type Part, partName, planOfFiles } from './parts.js';
import type { FinishedFile } from './report.js';
import { readBackReport } from './report.js';
import type { CompleteFile } from './state.js';

/** Files that are written at once: while one is closed and read back, another is converted. */
const FILES_AT_ONCE = 2;

/**
 * Writes the files of a part that are not there yet.
 *
 * @throws what `run` throws; beside that UnshardError `part-bad` of kind `usage`, `parts-of-other-plan` of kind `sink`.
 */
export async function runPart(plan: Plan, part: Part, options: RunOptions, writeFiles: WriteFiles): Promise<Report> {
  checkPlan(plan);
  const started = performance.now();
  const files = filesOfPart(plan, part);
  const context = await openParts(plan, options, writeFiles);
  const found: FinishedFile[] = [];
  for (const index of files) {
    const state = await intactState(context, index);
    if (state) found.push({ index, state });
  }
  const done = new Set(found.map(({ index }) => index));
  const missing = files.filter((index) => !done.has(index));
  await refuseOthers(context, missing);
  await context.states.begin(part.count);
  const progress = progressOver(plan, files, done, options.onProgress);
  const stop = new AbortController();
  const signal = AbortSignal.any([stop.signal, ...(options.signal ? [options.signal] : [])]);
  const threads = options.threads ? { threads: oneRunAtATime(options.threads) } : {};
  const memory = (options.memory ?? DEFAULT_MEMORY) / FILES_AT_ONCE;
  const written = await mapBounded(missing, FILES_AT_ONCE, async (index): Promise<FinishedFile> => {
    const onProgress = (step: RunProgress) => progress(index, step);
    try {
      return { index, state: await writeFile(context, index, { ...options, ...threads, signal, memory, onProgress }) };
    } catch (error) {
      stop.abort();
      throw error;
    }
  });
  const finished = [...found, ...written];
  // What this part has not read another has, and the end puts all together.
  const report = await joinReport(context, planOfFiles(plan, files), finished, 0);
  const checks = [...report.checks, readBackReport(finished, options.verify ?? true)];
  return { ...report, checks, part: partName(part), seconds: (performance.now() - started) / 1000 };
}

/** The state of a file that need not be written: it is complete, and as proven as is asked for. */
async function intactState(context: PartsContext, index: number): Promise<CompleteFile | undefined> {
  const { plan, options, states } = context;
  const state = await completeState(context, index);
  if (!state || (state.crc32 === undefined && options.verify !== false)) return undefined;
  const isHashed = options.sha256 !== true || state.sha256 !== undefined;
  if (options.recheck !== true && isHashed) return state;
  try {
    const read = await rereadFile(context, index, state, true);
    if (!isHashed) await states.write(outputFile(plan, index).path, read);
    return read;
  } catch (error) {
    if (isUnshardError(error, 'sink', 'source')) return undefined;
    throw error;
  }
}

/** Threads serve one run at a time: the next one waits until the one before has closed its filler. */
function oneRunAtATime(threads: Threads): Threads {
  let before = Promise.resolve();
  return {
    ...threads,
    async filler(run) {
      const turn = before;
      let end = () => {};
      before = new Promise((resolve) => {
        end = resolve;
      });
      await turn;
      try {
        const filler = await threads.filler(run);
        if (!filler) end();
        return filler && { ...filler, close: () => filler.close().finally(end) };
      } catch (error) {
        end();
        throw error;
      }
    },
  };
}

/** Adds the progress of single files up to that of a part. */
function progressOver(
  plan: Plan,
  files: readonly number[],
  done: ReadonlySet<number>,
  tell: RunOptions['onProgress'],
): (index: number, step: RunProgress) => void {
  const total = files.reduce((sum, index) => sum + outputFile(plan, index).byteLength, 0);
  const writtenOf = new Map([...done].map((index) => [index, outputFile(plan, index).byteLength]));
  const closed = new Set(done);
  return (index, step) => {
    writtenOf.set(index, step.written);
    if (step.filesDone > 0) closed.add(index);
    const written = [...writtenOf.values()].reduce((sum, bytes) => sum + bytes, 0);
    tell?.({ ...step, written, total, filesDone: closed.size, files: files.length });
  };
}
