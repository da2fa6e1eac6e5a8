/**
 * The one error family. Every failure a user can meet is an `UnshardError`: plain data about what disagreed, and what
 * the user can do. Cancelling is not a failure: it rejects with the `AbortSignal`'s reason and never reaches this type.
 *
 * @module
 */

/** What went wrong, by what the user can do about it. The command line maps each kind to an exit code. */
export type ErrorKind =
  /** An option or argument is wrong. */
  | 'usage'
  /** The folder holds no checkpoint that can be read. */
  | 'not-checkpoint'
  /** A shard of the checkpoint is not there. */
  | 'missing-shard'
  /** A file is truncated, corrupted, hostile or not what its name says. */
  | 'bad-file'
  /** Two parts of the checkpoint contradict each other. */
  | 'inconsistent'
  /** A correct input that Unshard cannot convert. */
  | 'unsupported'
  /** A finite value does not fit the output dtype. */
  | 'overflow'
  /** Reading failed, or the input changed while it was read. */
  | 'source'
  /** Writing failed: no space, no permission, name taken. */
  | 'sink'
  /** The GPU failed in a way that the CPU could not take over. */
  | 'gpu';

/** The data of an error: what `UnshardError` carries, what crosses a worker, what `--json` prints. */
export interface ErrorDetail {
  readonly kind: ErrorKind;
  /** Stable id of this exact defect, for example `zip-crc-mismatch`. Lower case, words joined by `-`. */
  readonly code: string;
  /** One sentence that names the file and the numbers that disagree. */
  readonly message: string;
  /** What the user can do next, in one or two sentences. */
  readonly advice: string;
  /** The values in the message, for programs: `file`, `expected`, `found`, `offset`, `tensor`, … */
  readonly facts: Readonly<Record<string, string | number>>;
}

/** A failure the user can act on. `message` already ends with the advice. */
export class UnshardError extends Error {
  readonly detail: ErrorDetail;

  constructor(detail: ErrorDetail, options?: { cause?: unknown }) {
    super(`${detail.message} ${detail.advice}`.trim(), options);
    this.name = 'UnshardError';
    this.detail = detail;
  }
}

/** True for an `UnshardError`, of one of `kinds` where any is given. */
export function isUnshardError(error: unknown, ...kinds: ErrorKind[]): error is UnshardError {
  return error instanceof UnshardError && (kinds.length === 0 || kinds.includes(error.detail.kind));
}

/** True for the rejection of a cancelled operation. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Throws when an invariant of this program (not of its input) does not hold. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`Internal error: ${message}`);
}
