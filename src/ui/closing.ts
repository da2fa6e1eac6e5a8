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

/** Seconds until the run has written and checked everything; undefined while the speed is not known. */
export function runSecondsLeft(
  { totals, files }: Pick<PlanView, 'totals' | 'files'>,
  { written, closing }: Pick<ConvertProgress, 'written' | 'closing'>,
  samples: readonly Sample[],
  secondsPerGigabyte: number,
  now: number,
): number | undefined {
  const underWay = checkSecondsLeft(closing, secondsPerGigabyte, now);
  const bytes = totals.outputBytes - written;
  if (bytes <= 0) return underWay;
  const writing = secondsLeft(samples, bytes);
  // Earlier files are checked while later ones are written: what is waited for in the end is the last.
  const last = checkSeconds(
    { byteLength: Math.max(0, ...files.map(({ byteLength }) => byteLength)) },
    secondsPerGigabyte,
  );
  return writing === undefined ? undefined : Math.max(writing + last, underWay);
}
