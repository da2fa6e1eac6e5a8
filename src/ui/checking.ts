/**
 * What the size of the output files costs: Chromium checks each file that is written to a folder before it appears, and
 * for a large file this takes longer than all else.
 *
 * @module
 */

import type { FileView } from '../worker/protocol.js';
import { formatSeconds } from './format.js';

/** Seconds that Chromium checks one gigabyte of a finished file, on an ordinary machine. */
export const CHECK_SECONDS_PER_GB = 10;

/** Files that are written, and so checked, side by side. */
const FILES_AT_ONCE = 4;

/** Outputs below this size, in bytes, are checked too fast to speak of it. */
const LARGE_OUTPUT = 500_000_000;

/** A sentence on the time that the checking will take; undefined where it is not worth one. */
export function checkingHint(files: readonly FileView[]): string | undefined {
  const total = files.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (total < LARGE_OUTPUT) return undefined;
  const largest = Math.max(...files.map(({ byteLength }) => byteLength));
  const lanes = Math.min(FILES_AT_ONCE, total / largest);
  const seconds = ((total / 1e9) * CHECK_SECONDS_PER_GB) / lanes;
  const cost = `The browser checks each file before it appears: about ${formatSeconds(seconds)} in all.`;
  return lanes < 2 ? `${cost} Several smaller files are checked side by side and are ready sooner.` : cost;
}
