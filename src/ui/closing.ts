/**
 * How long the browser will still check finished files. It tells nothing meanwhile, so that only what earlier files took
 * can say it.
 *
 * @module
 */

import type { ClosingFile } from '../worker/closing.js';
import type { ConvertProgress, PlanView } from '../worker/protocol.js';
import { type Sample, secondsLeft } from './speed.js';

/** Seconds that a file takes to be checked in all. */
export function checkSeconds({ byteLength }: Pick<ClosingFile, 'byteLength'>, secondsPerGigabyte: number): number {
  return (byteLength * secondsPerGigabyte) / 1e9;
}

/** Seconds until all files that are checked now have appeared, at `now` in milliseconds since 1970; 0 where it should be over. */
export function checkSecondsLeft(closing: readonly ClosingFile[], secondsPerGigabyte: number, now: number): number {
  const left = closing.map((file) => checkSeconds(file, secondsPerGigabyte) - (now - file.since) / 1000);
  return Math.max(0, ...left);
}

/** What the time left of a run follows from. */
export interface RunTimes {
  readonly plan: Pick<PlanView, 'totals' | 'files'>;
  readonly progress: Pick<ConvertProgress, 'written' | 'closing'>;
  readonly samples: readonly Sample[];
  /** Seconds that a gigabyte is checked by the browser, and read back after that. */
  readonly check: number;
  readonly readBack: number;
  /** Seconds that nothing but reading back has gone on. */
  readonly read: number;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** Seconds until the run has written, checked and read back everything; undefined while the speed is not known. */
export function runSecondsLeft(times: RunTimes): number | undefined {
  const { plan, progress, samples, check, now } = times;
  // Earlier files are checked and read back while later ones are written: what is waited for in the end is the last.
  const last = { byteLength: Math.max(0, ...plan.files.map(({ byteLength }) => byteLength)) };
  const reading = checkSeconds(last, times.readBack);
  const checking = checkSecondsLeft(progress.closing, check, now);
  const bytes = plan.totals.outputBytes - progress.written;
  if (bytes <= 0) return Math.max(0, checking + reading - times.read);
  const writing = secondsLeft(samples, bytes);
  return writing === undefined ? undefined : Math.max(writing + checkSeconds(last, check), checking) + reading;
}

/** True where everything was written and checked by the browser, and is read back. */
export function isReadingBack({ phase, written, total, closing }: ConvertProgress): boolean {
  return phase === 'check' && written >= total && closing.length === 0;
}
