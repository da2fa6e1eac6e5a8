import type { UnshardError } from '../../base/errors.js';
import { type Facts, unsupportedFile } from '../fault.js';

export { badFile as badZip } from '../fault.js';

/** What to do about a file that a zip program wrote in a way that PyTorch does not. */
const SAVE_AGAIN = 'Use the file as the training run saved it, or unpack it and zip it again without compression.';

/** The error for a feature of zip that Unshard refuses. `message` goes on after the file's name. */
export function unsupportedZip(file: string, code: string, message: string, facts: Facts = {}): UnshardError {
  return unsupportedFile(file, code, message, facts, SAVE_AGAIN);
}
