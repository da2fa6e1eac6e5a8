import { UnshardError } from '../base/errors.js';
import { type SinkFailure, type SourceFailure, sinkFailure, sourceFailure } from './failures.js';

/** What the codes of system calls mean when a file is read. */
const SOURCE_CODES: ReadonlyMap<string, SourceFailure> = new Map([
  ['ENOENT', 'source-missing'],
  ['ENOTDIR', 'source-missing'],
  ['ELOOP', 'source-missing'],
  ['EACCES', 'source-not-allowed'],
  ['EPERM', 'source-not-allowed'],
  ['EMFILE', 'source-too-many-open'],
  ['ENFILE', 'source-too-many-open'],
]);

/** What they mean when a file is written. */
const SINK_CODES: ReadonlyMap<string, SinkFailure> = new Map([
  ['EACCES', 'sink-not-allowed'],
  ['EPERM', 'sink-not-allowed'],
  ['EROFS', 'sink-not-allowed'],
  ['ENOSPC', 'sink-no-space'],
  ['EDQUOT', 'sink-no-space'],
  ['EBUSY', 'sink-locked'],
  ['ETXTBSY', 'sink-locked'],
  ['ENOENT', 'sink-gone'],
  ['EISDIR', 'sink-name-taken'],
  ['ENOTDIR', 'sink-name-taken'],
  ['EEXIST', 'sink-name-taken'],
  ['ENAMETOOLONG', 'sink-bad-name'],
  ['EILSEQ', 'sink-bad-name'],
  ['EINVAL', 'sink-bad-name'],
  ['EFBIG', 'sink-too-large'],
]);

/** Explains what Node threw while `file` was read. An `UnshardError` stays as it is. */
export function nodeSourceFailure(file: string, error: unknown): UnshardError {
  if (error instanceof UnshardError) return error;
  return sourceFailure(SOURCE_CODES.get(errnoOf(error)) ?? 'source-failed', file, error);
}

/** Explains what Node threw while `file`, of `byteLength` bytes, was written. An `UnshardError` stays as it is. */
export function nodeSinkFailure(file: string, error: unknown, byteLength?: number): UnshardError {
  if (error instanceof UnshardError) return error;
  return sinkFailure(SINK_CODES.get(errnoOf(error)) ?? 'sink-failed', file, error, byteLength);
}

/** The code of a failed system call, for example `ENOENT`; empty for any other error. */
export function errnoOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
