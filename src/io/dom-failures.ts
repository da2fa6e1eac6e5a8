import { UnshardError } from '../base/errors.js';
import { type SinkFailure, type SourceFailure, sinkFailure, sourceFailure } from './failures.js';

/** What the names of browser errors mean when a file is read. */
const SOURCE_CODES: ReadonlyMap<string, SourceFailure> = new Map([
  ['NotReadableError', 'source-changed'],
  ['NotFoundError', 'source-missing'],
  ['TypeMismatchError', 'source-missing'],
  ['NotAllowedError', 'source-not-allowed'],
  ['SecurityError', 'source-not-allowed'],
]);

/** What they mean when a file is written. */
const SINK_CODES: ReadonlyMap<string, SinkFailure> = new Map([
  ['NotAllowedError', 'sink-not-allowed'],
  ['SecurityError', 'sink-not-allowed'],
  ['QuotaExceededError', 'sink-no-space'],
  ['InvalidStateError', 'sink-locked'],
  ['NoModificationAllowedError', 'sink-locked'],
  ['AbortError', 'sink-blocked'],
  ['NotFoundError', 'sink-gone'],
  ['TypeMismatchError', 'sink-name-taken'],
]);

/** Explains what a browser threw while `file` was read. An `UnshardError` stays as it is. */
export function domSourceFailure(file: string, error: unknown): UnshardError {
  if (error instanceof UnshardError) return error;
  return sourceFailure(SOURCE_CODES.get(nameOf(error)) ?? 'source-failed', file, error);
}

/** Explains what a browser threw while `file`, of `byteLength` bytes, was written. An `UnshardError` stays as it is. */
export function domSinkFailure(file: string, error: unknown, byteLength?: number): UnshardError {
  if (error instanceof UnshardError) return error;
  return sinkFailure(SINK_CODES.get(nameOf(error)) ?? 'sink-failed', file, error, byteLength);
}

/** True where a browser says that there is no file or folder of a name: none at all, or one of the other kind. */
export function isMissing(error: unknown): boolean {
  return error instanceof DOMException && (error.name === 'NotFoundError' || error.name === 'TypeMismatchError');
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : '';
}
