/**
 * From a picked folder to an inventory: choose the tag, read names, directories and pickles, let the layout put the
 * tensors together. No tensor bytes are read, beyond the few that decide between two readings.
 *
 * @module
 */

import { UnshardError } from '../base/errors.js';
import { numelOf } from '../base/shape.js';
import type { FileTree } from '../io/types.js';
import { findCompanions } from './companions.js';
import { chooseTag, findTags, parentPath } from './deepspeed/files.js';
import { inspectDeepspeed } from './deepspeed/inspect.js';
import { findGathered, withGathered } from './gathered.js';
import type { CheckReport, Companion, Inventory, Notice, Problem, SourceFile, TagChoice } from './inventory.js';
import type { InspectOptions } from './options.js';
import { inspectPartial } from './partial.js';
import { adapterNames } from './peft-names.js';

/**
 * Finds what a checkpoint folder holds. The folder may be the outer one, `checkpoint-N` or `global_stepN` itself.
 *
 * A checkpoint that is there but cannot be converted (a missing rank, counts that disagree) comes back with its
 * `problems`; `plan` refuses it, or those of its tensors that a problem concerns alone.
 *
 * @throws UnshardError of kind `not-checkpoint`, `bad-file`, `unsupported`, `source` or `usage`.
 */
export async function inspect(tree: FileTree, options: InspectOptions = {}): Promise<Inventory> {
  const { signal } = options;
  const found = await findTags(tree, signal);
  const { tag, warnings } = chooseTag(found, tree.name, options.tag);
  const isPartial = options.partial || (options.lost?.length ?? 0) > 0;
  const read = await (isPartial ? inspectPartial : inspectDeepspeed)(tree, tag, options);
  // A folder picked at the tag itself has nothing beside it; its own files are the only candidates.
  const beside = parentPath(tag.path);
  const adapters = adapterNames(read.tensors.map(({ name }) => name));
  const companions = await findCompanions(tree, beside, adapters, signal);
  const sources: SourceFile[] = [...read.sources];
  const numbered = companions.map(({ path, size, modified, ...companion }): Companion => {
    return { source: sources.push({ path, size, modified }) - 1, ...companion };
  });
  const empty = new Set(read.tensors.filter(({ shape }) => shape.includes(0)).map(({ name }) => name));
  const gathered = await findGathered(tree, beside, sources.length, empty, signal);
  // Of several tags beside it, nothing tells which one the gathered weights belong to.
  const isOfTag = found.tags.filter(({ path }) => parentPath(path) === beside).length === 1;
  const isProof = read.layout === 'deepspeed-zero3' && isOfTag;
  const elements = read.tensors.reduce((sum, tensor) => sum + numelOf(tensor.shape), 0);
  return {
    ...read,
    folder: tree.name,
    tag,
    tags: found.tags,
    sources: [...sources, ...gathered.sources],
    crcs: [...read.crcs, ...gathered.crcs],
    tensors: isProof ? withGathered(read.tensors, gathered) : read.tensors,
    companions: numbered,
    warnings: [...warnings, ...tagWarnings(tag, read.facts.globalSteps), ...read.warnings, ...gathered.warnings],
    checks: [latestCheck(tag, found.tags), ...read.checks],
    facts: { ...read.facts, elements },
  };
}

/** Whether the tag is the one that a `latest` file names. That one it names is there is checked where it is read. */
function latestCheck(tag: TagChoice, tags: readonly TagChoice[]): CheckReport {
  const id = 'latest-tag';
  if (tag.latest) return { id, status: 'passed', detail: `The file latest names the tag ${tag.tag}, which was read.` };
  const other = tags.find(({ latest }) => latest);
  const why = other ? `The file latest names ${other.tag}, another tag` : 'No file latest names a tag';
  return { id, status: 'not-checkable', detail: `${why}; ${tag.tag} was read.` };
}

/** A folder that was renamed still tells the step that it was saved at. */
function tagWarnings({ tag }: TagChoice, steps: number | undefined): Notice[] {
  const named = /^global_step(\d+)$/.exec(tag)?.[1];
  if (named === undefined || steps === undefined || Number(named) === steps) return [];
  const message = `The tag ${tag} was saved at step ${steps}, by what its files say.`;
  return [{ code: 'tag-step-differs', message }];
}

/** The text of problems as one error, for callers that cannot go on. Undefined where there is none. */
export function problemError(problems: readonly Problem[]): UnshardError | undefined {
  const [first, ...more] = problems;
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
