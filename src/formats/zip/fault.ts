import { UnshardError } from '../../base/errors.js';

type Facts = Readonly<Record<string, string | number>>;

/** What to do about a file that was whole once. */
const COPY_AGAIN = 'The file was damaged or changed after it was saved: copy it again from where it was written.';

/** What to do about a file that a zip program wrote in a way that PyTorch does not. */
const SAVE_AGAIN = 'Use the file as the training run saved it, or unpack it and zip it again without compression.';

/** The error for a zip file that contradicts itself or is not all there. `message` goes on after the file's name. */
export function badZip(
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

/** The error for a feature of zip that Unshard refuses. `message` goes on after the file's name. */
export function unsupportedZip(file: string, code: string, message: string, facts: Facts = {}): UnshardError {
  const advice = SAVE_AGAIN;
  return new UnshardError({
    kind: 'unsupported',
    code,
    message: `${file}: ${message}.`,
    advice,
    facts: { file, ...facts },
  });
}
