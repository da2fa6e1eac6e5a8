/**
 * What can still be had of a checkpoint whose optimizer files are missing or damaged: at stage 1 and 2 the model file holds
 * a copy of every weight at the precision of the training.
 *
 * @module
 */

import { type ErrorDetail, isUnshardError, type UnshardError } from '../base/errors.js';
import type { FileTree } from '../io/types.js';
import { parseShardName } from './deepspeed/files.js';
import { type DeepspeedInventory, inspectDeepspeed } from './deepspeed/inspect.js';
import type { Notice, TagChoice } from './inventory.js';
import type { InspectOptions } from './options.js';

/**
 * Inspects a tag folder. Where that finds problems that go away without the optimizer files, these are left out and a
 * warning and a failed check, both `partial`, say so. Otherwise the result is that of `inspectDeepspeed`.
 *
 * @throws UnshardError as `inspectDeepspeed` does for the whole folder.
 */
export async function inspectPartial(
  tree: FileTree,
  tag: TagChoice,
  options: InspectOptions,
): Promise<DeepspeedInventory> {
  const whole = await attempt(tree, tag, options);
  const problems = 'error' in whole ? [whole.error.detail] : whole.inventory.problems;
  if (problems[0]) {
    const rest = await attempt(withoutOptimizer(tree), tag, options);
    if ('inventory' in rest && rest.inventory.problems.length === 0 && rest.inventory.tensors.length > 0) {
      return withReasons(rest.inventory, problems);
    }
  }
  if ('error' in whole) throw whole.error;
  return whole.inventory;
}

/** Inspects, and keeps an error that another reading could avoid. */
async function attempt(
  tree: FileTree,
  tag: TagChoice,
  options: InspectOptions,
): Promise<{ readonly inventory: DeepspeedInventory } | { readonly error: UnshardError }> {
  try {
    return { inventory: await inspectDeepspeed(tree, tag, options) };
  } catch (error) {
    if (isUnshardError(error, 'bad-file', 'inconsistent', 'unsupported', 'source')) return { error };
    throw error;
  }
}

/** The tree without the files of optimizers. */
function withoutOptimizer(tree: FileTree): FileTree {
  return {
    name: tree.name,
    async list(path) {
      const entries = await tree.list(path);
      return entries.filter(({ name }) => !/optim$/.test(parseShardName(name)?.kind ?? ''));
    },
    open: (path) => tree.open(path),
  };
}

function withReasons(inventory: DeepspeedInventory, problems: readonly ErrorDetail[]): DeepspeedInventory {
  const reasons = problems.map(({ message }) => message).join(' ');
  const message = `This is a partial recovery: no optimizer file was used. Every trained weight is the copy in the model file, at the precision of the training, not the master. The reason: ${reasons}`;
  const notice: Notice = { code: 'partial', message };
  return {
    ...inventory,
    // The layout tells that there are no optimizer files; there may be some.
    warnings: [notice, ...inventory.warnings.filter(({ code }) => code !== 'no-masters')],
    checks: [...inventory.checks, { id: 'partial', status: 'failed', detail: reasons }],
  };
}
