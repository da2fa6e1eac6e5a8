/**
 * What the page shows of an error.
 *
 * @module
 */

import { type ErrorKind, isUnshardError, messageOf } from '../base/errors.js';

/** An error in parts: what happened, what to do, and a stable code to search for. */
export interface Failure {
  readonly message: string;
  readonly advice: string;
  readonly code: string;
  readonly kind: ErrorKind | 'internal';
}

/** Takes an error apart. What is not an `UnshardError` is a defect of this program, and says so. */
export function failureOf(error: unknown): Failure {
  if (isUnshardError(error)) {
    const { message, advice, code, kind } = error.detail;
    return { message, advice, code, kind };
  }
  return {
    message: messageOf(error),
    advice: 'This is a defect in Unshard, not in your checkpoint. Please report it with this message.',
    code: 'internal',
    kind: 'internal',
  };
}
