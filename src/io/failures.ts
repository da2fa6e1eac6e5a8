/**
 * What can fail when bytes are read or written, whatever the platform. Adapters map their platform's errors to these
 * codes, so that a full disk reads the same in the browser and in Node.
 *
 * @module
 */

import { type ErrorDetail, UnshardError } from '../base/errors.js';

/** How reading can fail. */
export type SourceFailure =
  | 'source-changed'
  | 'source-missing'
  | 'source-not-a-file'
  | 'source-not-allowed'
  | 'source-too-many-open'
  | 'source-failed';

/** How writing can fail. */
export type SinkFailure =
  | 'sink-not-allowed'
  | 'sink-no-space'
  | 'sink-locked'
  | 'sink-blocked'
  | 'sink-gone'
  | 'sink-name-taken'
  | 'sink-bad-name'
  | 'sink-too-large'
  | 'sink-failed';

/** What is said about a failure: a sentence that starts with the file's name, and what to do. */
type Wording = readonly [says: string, advice: string];

const SOURCE_WORDING: Readonly<Record<SourceFailure, Wording>> = {
  'source-changed': [
    'changed or was removed while it was read.',
    'Wait until nothing writes to the checkpoint any more, then start again.',
  ],
  'source-missing': ['is not there.', 'Check that the folder is complete and still connected.'],
  'source-not-a-file': [
    'is a device, a pipe or a socket, not an ordinary file.',
    'Put a copy of the file in its place.',
  ],
  'source-not-allowed': ['may not be read.', 'Give permission to read it, then start again.'],
  'source-too-many-open': [
    'cannot be opened: the system does not allow more open files.',
    'Raise the limit (ulimit -n) or close other programs, then start again.',
  ],
  'source-failed': ['could not be read.', 'Check the disk or network share it is on, then start again.'],
};

const SINK_WORDING: Readonly<Record<SinkFailure, Wording>> = {
  'sink-not-allowed': [
    'may not be written.',
    'Give permission to write to the output folder, or choose another folder.',
  ],
  'sink-no-space': [
    'does not fit on the disk.',
    'Free some space or choose a folder on another disk, then start again.',
  ],
  'sink-locked': [
    'is in use by another program, tab or run.',
    'Close what uses it or choose another folder, then start again.',
  ],
  'sink-blocked': [
    'was blocked by the safety check that the browser makes of finished files.',
    'Choose another folder or file name, or use the command line.',
  ],
  'sink-gone': [
    'cannot be written because its folder is no longer there.',
    'Reconnect the disk or choose another folder, then start again.',
  ],
  'sink-name-taken': [
    'cannot be written because its name, or that of its folder, belongs to something else.',
    'Choose another output folder.',
  ],
  'sink-bad-name': [
    'cannot be written because the file system does not take its name.',
    'Choose another output folder.',
  ],
  'sink-too-large': [
    'is larger than a file may be on this file system.',
    'Split the output into smaller files, or choose a folder on another disk.',
  ],
  'sink-failed': ['could not be written.', 'Check the disk or network share it is on, then start again.'],
};

/** Reading `file` failed. */
export function sourceFailure(code: SourceFailure, file: string, cause?: unknown): UnshardError {
  return failure('source', code, SOURCE_WORDING[code], { file }, cause);
}

/** Writing `file`, which is to have `byteLength` bytes where that is known, failed. */
export function sinkFailure(code: SinkFailure, file: string, cause?: unknown, byteLength?: number): UnshardError {
  const [says, advice] = SINK_WORDING[code];
  if (byteLength === undefined) return failure('sink', code, [says, advice], { file }, cause);
  const facts = { file, needed: byteLength };
  return failure('sink', code, [`(${byteLength} bytes) ${says}`, advice], facts, cause);
}

/** Fewer bytes are in `file` at `offset` than `expected`. */
export function shortRead(file: string, offset: number, expected: number, found: number): UnshardError {
  return new UnshardError({
    kind: 'source',
    code: 'short-read',
    message: `${file} holds ${found} of the ${expected} bytes expected at offset ${offset}.`,
    advice: 'The file is probably a cut copy: copy it again.',
    facts: { file, offset, expected, found },
  });
}

/** The browser lets the page write nothing to storage of its own. */
export function storageMissing(cause?: unknown): UnshardError {
  const detail: ErrorDetail = {
    kind: 'sink',
    code: 'storage-missing',
    message: 'The browser gives this page no storage of its own, where downloads are made.',
    advice:
      'Open the page over https or on localhost, in a window that is not private. Or write to a folder, or use the command line.',
    facts: {},
  };
  return new UnshardError(detail, cause === undefined ? {} : { cause });
}

function failure(
  kind: 'source' | 'sink',
  code: string,
  [says, advice]: Wording,
  facts: ErrorDetail['facts'],
  cause: unknown,
): UnshardError {
  const detail = { kind, code, message: `${facts['file']} ${says}`, advice, facts };
  return new UnshardError(detail, cause === undefined ? {} : { cause });
}
