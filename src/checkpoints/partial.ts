/**
 * What can still be had of a checkpoint whose files are missing or damaged: what lies wholly in the others, and at stage 1
 * and 2 the model file's copies of the rest.
 *
 * @module
 */

import { isUnshardError, UnshardError } from '../base/errors.js';
import { matches } from '../base/glob.js';
import { counted } from '../base/words.js';
import type { FileTree } from '../io/types.js';
import { joinPath, parseShardName, shardNameOf } from './deepspeed/files.js';
import { type DeepspeedInventory, inspectDeepspeed } from './deepspeed/inspect.js';
import { lostFileUnknown, nothingRecovered } from './deepspeed/lost-problems.js';
import type { Notice, TagChoice, TensorEntry } from './inventory.js';
import type { InspectOptions } from './options.js';

/** What came of a reading. */
type Reading = { readonly inventory: DeepspeedInventory } | { readonly error: UnshardError };

/**
 * Inspects a tag folder without the files that the user gives up. Where that finds problems that go away when files of
 * single ranks are done without, they are; a warning and a failed check, both `partial`, say so. Otherwise the result is
 * that of `inspectDeepspeed`.
 *
 * @throws UnshardError as `inspectDeepspeed` does for the whole folder, and `lost-file-unknown`.
 */
export async function inspectPartial(
  tree: FileTree,
  tag: TagChoice,
  options: InspectOptions,
): Promise<DeepspeedInventory> {
  const given = await filesGivenUp(tree, tag, options.lost ?? []);
  const left = withoutFiles(tree, (path) => given.has(path));
  const asked = [...given].map((path) => `${path} is left out, as asked.`);
  const whole = await attempt(left, tag, { ...options, partial: false });
  const problems = 'error' in whole ? [whole.error.detail] : whole.inventory.problems;
  const [first] = problems;
  if (!first) return withWarnings(inventoryOf(whole), ...asked.map((message) => ({ code: 'file-left-out', message })));
  const best = await bestPart(left, tag, options);
  if (!best) return inventoryOf(whole);
  const { part, unusable = [] } = best;
  if (parametersOf(part).length === 0) return { ...part, problems: [nothingRecovered(tag.path || tag.tag, first)] };
  const reasons = new Set([...asked, ...problems.map(({ message }) => message), ...unusable]);
  return withReasons(part, [...reasons].join(' '));
}

/** What can be had, and why no optimizer file is used where that is so. */
interface Part {
  readonly part: DeepspeedInventory;
  readonly unusable?: readonly string[];
}

/** The reading that gives the most parameters: with the optimizer files that are left, or with none of them. */
async function bestPart(tree: FileTree, tag: TagChoice, options: InspectOptions): Promise<Part | undefined> {
  const partial = { ...options, partial: true };
  const reading = await attempt(tree, tag, partial);
  const masters = usable(reading);
  if (masters?.skipped.length === 0) return { part: masters };
  const copies = usable(await attempt(withoutFiles(tree, isOptimizer), tag, partial));
  if (masters && parametersOf(masters).length >= (copies ? parametersOf(copies).length : 0)) return { part: masters };
  const problems = 'error' in reading ? [reading.error.detail] : reading.inventory.problems;
  return copies && { part: copies, unusable: problems.map(({ message }) => message) };
}

function usable(reading: Reading): DeepspeedInventory | undefined {
  return 'inventory' in reading && reading.inventory.problems.length === 0 ? reading.inventory : undefined;
}

function parametersOf({ tensors }: DeepspeedInventory): readonly TensorEntry[] {
  return tensors.filter(({ origin }) => origin !== 'buffer');
}

/** Inspects, and keeps an error that another reading could avoid. */
async function attempt(tree: FileTree, tag: TagChoice, options: InspectOptions): Promise<Reading> {
  try {
    return { inventory: await inspectDeepspeed(tree, tag, options) };
  } catch (error) {
    if (isUnshardError(error, 'bad-file', 'inconsistent', 'unsupported', 'source')) return { error };
    throw error;
  }
}

function inventoryOf(reading: Reading): DeepspeedInventory {
  if ('error' in reading) throw reading.error;
  return reading.inventory;
}

/** Paths of the checkpoint's files that a pattern names. */
async function filesGivenUp(tree: FileTree, { path: folder, tag }: TagChoice, patterns: readonly string[]) {
  const entries = patterns.length > 0 ? await tree.list(folder) : [];
  const names = entries.flatMap(({ kind, name }) => (kind === 'file' && parseShardName(name) ? [name] : []));
  const paths = new Set<string>();
  for (const pattern of patterns) {
    const found = names.filter((name) => isNamed(pattern, name, joinPath(folder, name)));
    if (found.length === 0) throw new UnshardError(lostFileUnknown(folder || tag, pattern));
    for (const name of found) paths.add(joinPath(folder, name));
  }
  return paths;
}

/** A path may begin further out than the picked folder does. */
function isNamed(pattern: string, name: string, path: string): boolean {
  return matches(pattern, name) || matches(pattern, path) || matches(`*/${path}`, pattern);
}

function isOptimizer(path: string): boolean {
  return /optim$/.test(shardNameOf(path)?.kind ?? '');
}

/** The tree without some files. */
function withoutFiles(tree: FileTree, isLeftOut: (path: string) => boolean): FileTree {
  return {
    name: tree.name,
    async list(path) {
      const entries = await tree.list(path);
      return entries.filter(({ kind, name }) => kind !== 'file' || !isLeftOut(joinPath(path, name)));
    },
    open: (path) => tree.open(path),
  };
}

function withReasons(inventory: DeepspeedInventory, reasons: string): DeepspeedInventory {
  const masters = inventory.tensors.filter(({ origin }) => origin === 'master').length;
  const copies = inventory.tensors.flatMap(({ name, origin }) =>
    origin === 'copy' || origin === 'module' ? [name] : [],
  );
  const skipped = inventory.skipped.length;
  const counts = [
    `masters are there for ${counted(masters, 'parameter')}`,
    `copies in the model file, at the precision of the training, for ${copies.length}`,
    ...(skipped > 0 ? [`not written: ${counted(skipped, 'tensor')}`] : []),
  ];
  const message = `This is a partial recovery: ${counts.join('; ')}. The reason: ${reasons}`;
  const { checks, warnings } = inventory;
  const listed = new Set(warnings.flatMap(({ tensors = [] }) => tensors));
  const tensors = copies.filter((name) => !listed.has(name));
  return {
    ...inventory,
    // That there are no optimizer files is no news; there may be some.
    warnings: [
      { code: 'partial', message, ...(tensors.length > 0 ? { tensors } : {}) },
      ...warnings.filter(({ code }) => code !== 'no-masters'),
    ],
    checks: [...checks, { id: 'partial', status: 'failed', detail: reasons }],
  };
}

function withWarnings(inventory: DeepspeedInventory, ...warnings: readonly Notice[]): DeepspeedInventory {
  return { ...inventory, warnings: [...warnings, ...inventory.warnings] };
}
