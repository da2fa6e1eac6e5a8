/**
 * Errors of the containers. A message goes on after the file's name.
 *
 * @module
 */

import { UnshardError } from '../base/errors.js';

/** Values for programs, beside the file's name. */
export type Facts = Readonly<Record<string, string | number>>;

/** What to do about a file that was whole once. */
const COPY_AGAIN = 'The file was damaged or changed after it was saved: copy it again from where it was written.';

/** The error for a file that contradicts itself or is not all there. */
export function badFile(
  file: string,
  code: string,
  message: string,
  facts: Facts = {},
  advice = COPY_AGAIN,
): UnshardError {
  return new UnshardError({
    kind: 'bad-file',
    code,
    message: `${file}: ${message}.`,
    advice,
    facts: { file, ...facts },
  });
}

/** The error for a feature that Unshard refuses. */
export function unsupportedFile(
  file: string,
  code: string,
  message: string,
  facts: Facts,
  advice: string,
): UnshardError {
  return new UnshardError({
    kind: 'unsupported',
    code,
    message: `${file}: ${message}.`,
    advice,
    facts: { file, ...facts },
  });
}
