/**
 * From a picked folder to an inventory: choose the tag, read names, directories and pickles, let the layout put the
 * tensors together. No tensor bytes are read, beyond the few that decide between two readings.
 *
 * @module
 */

import { UnshardError } from '../base/errors.js';
import { numelOf } from '../base/shape.js';
import type { FileTree } from '../io/types.js';
import { findCompanions, findHollowWeights } from './companions.js';
import { chooseTag, findTags, parentPath } from './deepspeed/files.js';
import { inspectDeepspeed } from './deepspeed/inspect.js';
import type { Companion, Inventory, SourceFile } from './inventory.js';
import type { InspectOptions } from './options.js';

/**
 * Finds what a checkpoint folder holds. The folder may be the outer one, `checkpoint-N` or `global_stepN` itself.
 *
 * A checkpoint that is there but cannot be converted (a missing rank, counts that disagree) comes back with its
 * `problems`; `plan` refuses it.
 *
 * @throws UnshardError of kind `not-checkpoint`, `bad-file`, `unsupported`, `source` or `usage`.
 */
export async function inspect(tree: FileTree, options: InspectOptions = {}): Promise<Inventory> {
  const { signal } = options;
  const found = await findTags(tree, signal);
  const { tag, warnings } = chooseTag(found, tree.name, options.tag);
  const read = await inspectDeepspeed(tree, tag, options);
  // A folder picked at the tag itself has nothing beside it; its own files are the only candidates.
  const beside = parentPath(tag.path);
  const companions = await findCompanions(tree, beside, signal);
  const hollow = await findHollowWeights(tree, beside, signal);
  const sources: SourceFile[] = [...read.sources];
  const numbered = companions.map(({ path, name, size, modified, text }): Companion => {
    const source = sources.push({ path, size, modified }) - 1;
    return { source, name, ...(text === undefined ? {} : { text }) };
  });
  const elements = read.tensors.reduce((sum, tensor) => sum + numelOf(tensor.shape), 0);
  return {
    ...read,
    folder: tree.name,
    tag,
    tags: found.tags,
    sources,
    companions: numbered,
    warnings: [...warnings, ...read.warnings, ...hollow],
    facts: { ...read.facts, elements },
  };
}

/** The text of an inventory's problems as one error, for callers that cannot go on. */
export function problemError(inventory: Inventory): UnshardError | undefined {
  const [first, ...more] = inventory.problems;
  if (!first) return undefined;
  const rest =
    more.length === 0
      ? ''
      : ` (${more.length} more: ${more
          .slice(0, 3)
          .map((p) => p.message)
          .join(' ')})`;
  return new UnshardError({ ...first, message: `${first.message}${rest}` });
}
