import { UnshardError } from '../../base/errors.js';

type Facts = Readonly<Record<string, string | number>>;

/** What to do about a file that was whole once. */
const COPY_AGAIN = 'The file was damaged or changed after it was saved: copy it again from where it was written.';

/** What to do about a file that torch itself can read. */
const SAVE_AGAIN = 'Load the file with PyTorch and save it again with torch.save.';

/** The error for a torch file that contradicts itself or is not all there. `message` goes on after the file's name. */
export function badTorch(
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

/** The error for a feature of torch files that Unshard refuses. `message` goes on after the file's name. */
export function unsupportedTorch(
  file: string,
  code: string,
  message: string,
  facts: Facts = {},
  advice = SAVE_AGAIN,
): UnshardError {
  return new UnshardError({
    kind: 'unsupported',
    code,
    message: `${file}: ${message}.`,
    advice,
    facts: { file, ...facts },
  });
}
