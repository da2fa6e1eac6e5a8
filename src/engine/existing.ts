import { UnshardError } from '../base/errors.js';
import { counted } from '../base/words.js';
import type { OutputTree } from '../io/types.js';

/**
 * Throws where files are there already. `total` counts all files that are to be written.
 *
 * @throws UnshardError `output-exists` of kind `sink`.
 */
export async function refuseExisting(
  output: OutputTree,
  paths: readonly string[],
  total = paths.length,
): Promise<void> {
  const there: string[] = [];
  for (const path of paths) if (await output.has(path)) there.push(path);
  if (there.length === 0) return;
  throw new UnshardError({
    kind: 'sink',
    code: 'output-exists',
    message: `${output.name} already holds ${there.length} of the ${counted(total, 'file')} to write: ${there.slice(0, 5).join(', ')}.`,
    advice: 'Choose another folder, or ask to replace them.',
    facts: { file: there.join(', '), expected: 0, found: there.length },
  });
}
