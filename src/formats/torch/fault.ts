import type { UnshardError } from '../../base/errors.js';
import { type Facts, unsupportedFile } from '../fault.js';

export { badFile as badTorch } from '../fault.js';

/** What to do about a file that torch itself can read. */
const SAVE_AGAIN = 'Load the file with PyTorch and save it again with torch.save.';

/** The error for a feature of torch files that Unshard refuses. `message` goes on after the file's name. */
export function unsupportedTorch(
  file: string,
  code: string,
  message: string,
  facts: Facts = {},
  advice = SAVE_AGAIN,
): UnshardError {
  return unsupportedFile(file, code, message, facts, advice);
}
