/**
 * The names of DeepSpeed's checkpoint files, and the tag folders that hold them. Names only; nothing is opened.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';
import { readBytes } from '../../io/read.js';
import type { FileTree } from '../../io/types.js';
import type { Notice, TagChoice } from '../inventory.js';

/** What the name of a file in a tag folder says. Ranks are numbers, as their zero padding varies. */
export type ShardName =
  | {
      readonly kind: 'model';
      readonly name: string;
      readonly mp: number /** Absent at stage 0 to 2. */;
      readonly dp?: number;
    }
  | { readonly kind: 'optim'; readonly name: string; readonly mp: number; readonly dp: number; readonly prefix: string }
  | { readonly kind: 'layer' | 'expert' | 'expert-optim'; readonly name: string };

const MODEL = /^(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt$/;
// DeepSpeed before 0.3.14 left out the last underscore.
const OPTIM = /^((?:bf16_)?zero_pp_rank_)(\d+)_mp_rank_(\d+)_?optim_states\.pt$/;
const LAYER = /^layer_\d+(?:-\w+_\d+)*-model_states\.pt$/;
const EXPERT = /^(?:layer_\d+_)?expert_\d+_mp_rank_\d+_model_states\.pt$/;
const EXPERT_OPTIM = /^expp_rank_\d+_mp_rank_\d+_optim_states\.pt$/;

/** Reads a file name; undefined for a file that is no part of a checkpoint. */
export function parseShardName(name: string): ShardName | undefined {
  const model = MODEL.exec(name);
  if (model)
    return { kind: 'model', name, mp: Number(model[2]), ...(model[1] === undefined ? {} : { dp: Number(model[1]) }) };
  const optim = OPTIM.exec(name);
  if (optim) return { kind: 'optim', name, prefix: optim[1] ?? '', dp: Number(optim[2]), mp: Number(optim[3]) };
  if (LAYER.test(name)) return { kind: 'layer', name };
  if (EXPERT.test(name)) return { kind: 'expert', name };
  if (EXPERT_OPTIM.test(name)) return { kind: 'expert-optim', name };
  return undefined;
}

/** The longest text a `latest` file may hold: a tag is a folder name. */
const LATEST_LIMIT = 4096;

/** How many folders below the picked one are searched: `checkpoint-N/global_stepN`. */
const SEARCH_DEPTH = 2;

/** The tag folders of a picked folder. */
export interface FoundTags {
  /** In natural order. */
  readonly tags: readonly TagChoice[];
  /** One error for every `latest` file that names a folder that is not there. */
  readonly dangling: readonly UnshardError[];
}

/**
 * Finds every tag folder in the picked folder: the folder itself, its sub-folders and theirs.
 *
 * @throws UnshardError `latest-bad` when a `latest` file does not hold the name of one folder.
 */
export async function findTags(tree: FileTree, signal?: AbortSignal): Promise<FoundTags> {
  const found = await tagsBelow(tree, '', SEARCH_DEPTH, signal);
  const order = new Intl.Collator('en', { numeric: true });
  return { ...found, tags: found.tags.toSorted((a, b) => order.compare(a.path, b.path)) };
}

async function tagsBelow(
  tree: FileTree,
  path: string,
  depth: number,
  signal: AbortSignal | undefined,
): Promise<{ tags: TagChoice[]; dangling: UnshardError[] }> {
  signal?.throwIfAborted();
  const entries = await tree.list(path);
  const files = entries.filter((entry) => entry.kind === 'file').map((entry) => entry.name);
  const holdsShards = files.some((name) => parseShardName(name) !== undefined);
  const tags: TagChoice[] = holdsShards ? [{ tag: baseName(path) || tree.name, path, latest: false }] : [];
  const dangling: UnshardError[] = [];
  if (depth === 0) return { tags, dangling };
  for (const entry of entries) {
    if (entry.kind !== 'directory') continue;
    const below = await tagsBelow(tree, joinPath(path, entry.name), depth - 1, signal);
    tags.push(...below.tags);
    dangling.push(...below.dangling);
  }
  if (!files.includes('latest')) return { tags, dangling };
  const file = joinPath(path, 'latest');
  const latest = await readLatest(tree, file, signal);
  const named = joinPath(path, latest);
  if (!tags.some((tag) => tag.path === named)) dangling.push(missingTag(file, latest, tags));
  return { tags: tags.map((tag) => (tag.path === named ? { ...tag, latest: true } : tag)), dangling };
}

/**
 * Chooses the tag to read: the wanted one, else the one that `latest` names, else the last in natural order.
 *
 * @throws UnshardError `no-checkpoint`, `tag-not-found` or `latest-missing-tag`.
 */
export function chooseTag(found: FoundTags, folder: string, wanted?: string): { tag: TagChoice; warnings: Notice[] } {
  const { tags, dangling } = found;
  const names = tags.map((tag) => tag.path || tag.tag).join(', ');
  if (wanted !== undefined) {
    const tag = tags.find((choice) => choice.path === wanted) ?? tags.find((choice) => choice.tag === wanted);
    if (tag) return { tag, warnings: [] };
    throw new UnshardError({
      kind: 'usage',
      code: 'tag-not-found',
      message: `${folder} holds no tag ${wanted}.`,
      advice: tags.length ? `Choose one of: ${names}.` : 'It holds no DeepSpeed checkpoint at all.',
      facts: { file: folder, expected: wanted, found: names },
    });
  }
  if (dangling[0] && !tags.some((tag) => tag.latest)) throw dangling[0];
  const candidates = tags.some((tag) => tag.latest) ? tags.filter((tag) => tag.latest) : tags;
  const tag = candidates.at(-1);
  if (!tag) {
    throw new UnshardError({
      kind: 'not-checkpoint',
      code: 'no-checkpoint',
      message: `${folder} holds no DeepSpeed checkpoint: no *_model_states.pt or *_optim_states.pt in it or two folders below.`,
      advice: 'Pick the folder that holds global_stepN, or global_stepN itself.',
      facts: { file: folder },
    });
  }
  if (candidates.length === 1) return { tag, warnings: [] };
  const message = `${candidates.length} checkpoints are here and no one is named as the latest: ${tag.path} was taken, the last of ${names}.`;
  return { tag, warnings: [{ code: 'tag-chosen', message }] };
}

async function readLatest(tree: FileTree, path: string, signal: AbortSignal | undefined): Promise<string> {
  const source = await tree.open(path);
  try {
    const length = Math.min(source.size, LATEST_LIMIT + 1);
    const text = new TextDecoder().decode(await readBytes(source, 0, length, signal)).trim();
    if (text === '' || text === '.' || text === '..' || length > LATEST_LIMIT || /[/\\\0\n]/.test(text)) {
      throw new UnshardError({
        kind: 'bad-file',
        code: 'latest-bad',
        message: `${path} must hold the name of one folder; it holds ${JSON.stringify(text.slice(0, 80))}.`,
        advice: 'Pick the folder of the checkpoint itself, for example global_step1000, or mend the file.',
        facts: { file: path, found: text.slice(0, 80) },
      });
    }
    return text;
  } finally {
    await source.close();
  }
}

function missingTag(file: string, tag: string, tags: readonly TagChoice[]): UnshardError {
  const present = tags.map((choice) => choice.path || choice.tag);
  return new UnshardError({
    kind: 'not-checkpoint',
    code: 'latest-missing-tag',
    message: `${file} names the tag ${tag}, but there is no such checkpoint folder beside it.`,
    advice: present.length
      ? `Pick one of the folders that are there (${present.join(', ')}), or mend the file.`
      : 'Copy that folder here, or pick the folder that holds the *_states.pt files.',
    facts: { file, expected: tag, found: present.join(', ') },
  });
}

/** Joins two parts of a path; either may be empty. */
export function joinPath(folder: string, name: string): string {
  return folder === '' ? name : name === '' ? folder : `${folder}/${name}`;
}

/** The folder that holds a path; empty for the root. */
export function parentPath(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
