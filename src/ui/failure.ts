/**
 * What the page shows of an error.
 *
 * @module
 */

import { type ErrorKind, isUnshardError, messageOf } from '../base/errors.js';
import { canBeLost } from '../checkpoints/deepspeed/files.js';

/** An error in parts: what happened, what to do, and a stable code to search for. */
export interface Failure {
  readonly message: string;
  readonly advice: string;
  readonly code: string;
  readonly kind: ErrorKind | 'internal';
  /** Path of a damaged file that a partial recovery can do without. */
  readonly lostFile?: string;
}

/** Takes an error apart. What is not an `UnshardError` is a defect of this program, and says so. */
export function failureOf(error: unknown): Failure {
  if (isUnshardError(error)) {
    const { message, advice, code, kind, facts } = error.detail;
    const file = kind === 'bad-file' ? facts['file'] : undefined;
    return { message, advice, code, kind, ...(typeof file === 'string' && canBeLost(file) ? { lostFile: file } : {}) };
  }
  return {
    message: messageOf(error),
    advice: 'This is a defect in Unshard, not in your checkpoint. Please report it with this message.',
    code: 'internal',
    kind: 'internal',
  };
}
