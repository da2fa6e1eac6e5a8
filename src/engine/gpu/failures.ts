/**
 * The ways in which a GPU fails, as errors. Each leaves the job undone, and the CPU can do it.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';

const ADVICE = 'Convert on the CPU instead: it gives the same bytes.';

/** The device is gone: reset by the driver, removed, or closed. */
export function deviceLost(adapter: string, reason: string, cause?: unknown): UnshardError {
  return new UnshardError(
    {
      kind: 'gpu',
      code: 'gpu-lost',
      message: `The GPU (${adapter}) was lost: ${reason}.`,
      advice: ADVICE,
      facts: { adapter, reason },
    },
    { cause },
  );
}

/** The device refused a command, or its memory did not suffice. */
export function deviceFailed(adapter: string, reason: string): UnshardError {
  return new UnshardError({
    kind: 'gpu',
    code: 'gpu-failed',
    message: `The GPU (${adapter}) reported an error: ${reason}.`,
    advice: ADVICE,
    facts: { adapter, reason },
  });
}

/** The device reported success, but its result does not carry the mark of the job. */
export function resultUntrusted(
  adapter: string,
  job: { readonly expected: number; readonly found: number },
  elements: { readonly expected: number; readonly found: number },
): UnshardError {
  return new UnshardError({
    kind: 'gpu',
    code: 'gpu-untrusted',
    message:
      `The GPU (${adapter}) answered job ${job.expected} of ${elements.expected} elements as job ${job.found} of ` +
      `${elements.found} elements.`,
    advice: ADVICE,
    facts: {
      adapter,
      expectedJob: job.expected,
      foundJob: job.found,
      expectedElements: elements.expected,
      foundElements: elements.found,
    },
  });
}
