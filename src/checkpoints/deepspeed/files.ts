/**
 * The names of DeepSpeed's checkpoint files, and the tag folders that hold them. Names only; nothing is opened.
 *
 * @module
 */

import { isUnshardError, UnshardError } from '../../base/errors.js';
import { inNaturalOrder } from '../../base/natural-order.js';
import { readBytes } from '../../io/read.js';
import type { FileTree, TreeEntry } from '../../io/types.js';
import type { Notice, TagChoice } from '../inventory.js';

/** What the name of a file in a tag folder says. Ranks are numbers, as their zero padding varies. */
export type ShardName = ModelName | OptimName | LayerName | ExpertName | ExpertOptimName;

/** The state dict and the facts of a model-parallel rank. */
export interface ModelName {
  readonly kind: 'model';
  readonly name: string;
  readonly mp: number;
  /** Data-parallel rank; absent at stage 0 to 2. */
  readonly dp?: number;
}

/** The optimizer's state of a data-parallel rank of a model-parallel rank. */
export interface OptimName {
  readonly kind: 'optim';
  readonly name: string;
  readonly mp: number;
  readonly dp: number;
  readonly prefix: string;
}

/** The state dict of one layer of a pipeline. */
export interface LayerName {
  readonly kind: 'layer';
  readonly name: string;
  readonly layer: number;
  /** Tensor-parallel rank; absent where the layer is whole. */
  readonly tp?: number;
  /** Ranks of a topology that is not known. */
  readonly axes?: string;
}

/** The state dict of one expert: of one layer with experts, or before 0.6.0 of all of them. */
export interface ExpertName {
  readonly kind: 'expert';
  readonly name: string;
  readonly mp: number;
  readonly expert: number;
  readonly moeLayer?: number;
}

/** The optimizer of one expert-parallel rank. */
export interface ExpertOptimName {
  readonly kind: 'expert-optim';
  readonly name: string;
  readonly mp: number;
  readonly ep: number;
}

const MODEL = /^(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt$/;
// DeepSpeed before 0.3.14 left out the last underscore.
const OPTIM = /^((?:bf16_)?zero_pp_rank_)(\d+)_mp_rank_(\d+)_?optim_states\.pt$/;
const LAYER = /^layer_(\d+)((?:-\w+_\d+)*)-model_states\.pt$/;
const TENSOR_AXIS = /^-model_(\d+)$/;
const EXPERT = /^(?:layer_(\d+)_)?expert_(\d+)_mp_rank_(\d+)_model_states\.pt$/;
const EXPERT_OPTIM = /^expp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt$/;

/** Reads a file name; undefined for a file that is no part of a checkpoint. */
export function parseShardName(name: string): ShardName | undefined {
  const model = MODEL.exec(name);
  if (model) return { kind: 'model', name, mp: Number(model[2]), ...given('dp', model[1]) };
  const optim = OPTIM.exec(name);
  if (optim) return { kind: 'optim', name, prefix: optim[1] ?? '', dp: Number(optim[2]), mp: Number(optim[3]) };
  const layer = LAYER.exec(name);
  if (layer) {
    const [, index, axes = ''] = layer;
    const tp = TENSOR_AXIS.exec(axes);
    const ranks = tp || axes === '' ? given('tp', tp?.[1]) : { axes };
    return { kind: 'layer', name, layer: Number(index), ...ranks };
  }
  const expert = EXPERT.exec(name);
  if (expert) {
    const [, moeLayer, id, mp] = expert;
    return { kind: 'expert', name, expert: Number(id), mp: Number(mp), ...given('moeLayer', moeLayer) };
  }
  const expertOptim = EXPERT_OPTIM.exec(name);
  if (expertOptim) return { kind: 'expert-optim', name, ep: Number(expertOptim[1]), mp: Number(expertOptim[2]) };
  return undefined;
}

function given<Key extends string>(key: Key, digits: string | undefined): { readonly [K in Key]?: number } {
  return digits === undefined ? {} : ({ [key]: Number(digits) } as { readonly [K in Key]: number });
}

/** True for a file that holds the share of one rank: a partial recovery can do without it. */
export function isOfOneRank(name: ShardName): boolean {
  return name.kind === 'optim' || (name.kind === 'model' && name.dp !== undefined);
}

/** True for the path of a file that a partial recovery can do without. */
export function canBeLost(path: string): boolean {
  const name = shardNameOf(path);
  return name !== undefined && isOfOneRank(name);
}

/** What the name of the file at a path says. */
export function shardNameOf(path: string): ShardName | undefined {
  return parseShardName(baseName(path));
}

/** Folder of a universal checkpoint that holds a folder for each parameter. */
export const UNIVERSAL_FOLDER = 'zero';

/** Files that name the tag to load: of a run, and of the conversion to a universal checkpoint. */
const POINTERS = ['latest', 'latest_universal'] as const;

/** The longest text a `latest` file may hold: a tag is a folder name. */
const LATEST_LIMIT = 4096;

/** How many folders below the picked one are searched: `checkpoint-N/global_stepN`. */
const SEARCH_DEPTH = 2;

/** The tag folders of a picked folder. */
export interface FoundTags {
  /** In natural order. */
  readonly tags: readonly TagChoice[];
  /** One error for every `latest` file that does not name a tag folder beside it. */
  readonly dangling: readonly UnshardError[];
  /** Folders of `torch.distributed.checkpoint`, which are no tags. */
  readonly distributed: readonly string[];
  /** One error for every folder that was not searched because it may not be read: `lost+found` of a disk, for one. */
  readonly unreadable: readonly UnshardError[];
}

/** Finds every tag folder in the picked folder: the folder itself, its sub-folders and theirs. */
export async function findTags(tree: FileTree, signal?: AbortSignal): Promise<FoundTags> {
  const found = await tagsBelow(tree, '', SEARCH_DEPTH, signal);
  return { ...found, tags: inNaturalOrder(found.tags, ({ path }) => path) };
}

async function tagsBelow(
  tree: FileTree,
  path: string,
  depth: number,
  signal: AbortSignal | undefined,
): Promise<FoundTags> {
  signal?.throwIfAborted();
  const entries = await tree.list(path);
  const files = entries.filter((entry) => entry.kind === 'file').map((entry) => entry.name);
  const isTag =
    files.some((name) => parseShardName(name) !== undefined) || (await isUniversalFolder(tree, path, entries));
  const tags: TagChoice[] = isTag ? [{ tag: baseName(path) || tree.name, path, latest: false }] : [];
  const distributed = files.includes('.metadata') && files.some((name) => name.endsWith('.distcp')) ? [path] : [];
  const [dangling, unreadable]: [UnshardError[], UnshardError[]] = [[], []];
  if (depth === 0) return { tags, dangling, distributed, unreadable };
  for (const entry of entries) {
    // A universal checkpoint has a folder for each parameter, none of which is a tag.
    if (entry.kind !== 'directory' || (isTag && entry.name === UNIVERSAL_FOLDER)) continue;
    const below = await unlessUnreadable(tagsBelow(tree, joinPath(path, entry.name), depth - 1, signal));
    tags.push(...below.tags);
    dangling.push(...below.dangling);
    distributed.push(...below.distributed);
    unreadable.push(...below.unreadable);
  }
  for (const pointer of POINTERS) {
    if (!files.includes(pointer)) continue;
    const file = joinPath(path, pointer);
    const latest = await readLatest(tree, file, signal);
    const named = latest !== undefined && isFolderName(latest) ? joinPath(path, latest) : undefined;
    if (tags.some((tag) => tag.path === named)) {
      const marked = tags.map((tag) => (tag.path === named ? { ...tag, latest: true } : tag));
      return { tags: marked, dangling, distributed, unreadable };
    }
    dangling.push(
      latest === undefined || named === undefined ? badLatest(file, latest) : missingTag(file, latest, tags),
    );
  }
  return { tags, dangling, distributed, unreadable };
}

async function unlessUnreadable(search: Promise<FoundTags>): Promise<FoundTags> {
  try {
    return await search;
  } catch (error) {
    if (!isUnshardError(error, 'source') || error.detail.code !== 'source-not-allowed') throw error;
    return { tags: [], dangling: [], distributed: [], unreadable: [error] };
  }
}

/** True for a universal checkpoint whose model files are missing: it can still be told from any other folder. */
async function isUniversalFolder(tree: FileTree, path: string, entries: readonly TreeEntry[]): Promise<boolean> {
  if (!entries.some(({ kind, name }) => kind === 'directory' && name === UNIVERSAL_FOLDER)) return false;
  const inside = await tree.list(joinPath(path, UNIVERSAL_FOLDER));
  return inside.some(({ kind, name }) => kind === 'file' && name === 'optimizer_state.pt');
}

/**
 * Chooses the tag to read: the wanted one, else that of the picked folder (the one that its `latest` names, or itself),
 * else one that a `latest` further down names, else the last in natural order.
 *
 * @throws UnshardError `no-checkpoint`, `tag-not-found`, `tag-ambiguous`, `latest-missing-tag` or `latest-bad`.
 */
export function chooseTag(found: FoundTags, folder: string, wanted?: string): { tag: TagChoice; warnings: Notice[] } {
  const { tags, dangling } = found;
  const names = tags.map((tag) => tag.path || tag.tag).join(', ');
  if (wanted !== undefined) {
    const named = tags.filter((choice) => choice.tag === wanted);
    const tag = tags.find((choice) => choice.path === wanted) ?? named[0];
    if (tag && (tag.path === wanted || named.length === 1)) return { tag, warnings: [] };
    if (tag) throw tagAmbiguous(folder, wanted, named);
    throw new UnshardError({
      kind: 'usage',
      code: 'tag-not-found',
      message: `${folder} holds no tag ${wanted}.`,
      advice: tags.length ? `Choose one of: ${names}.` : 'It holds no DeepSpeed checkpoint at all.',
      facts: { file: folder, expected: wanted, found: names },
    });
  }
  const named = tags.filter((tag) => tag.latest);
  const own = named.find(({ path }) => parentPath(path) === '') ?? tags.find(({ path }) => path === '');
  if (dangling[0] && !own && named.length === 0) throw dangling[0];
  const candidates = own ? [own] : named.length > 0 ? named : tags;
  const tag = candidates.at(-1);
  if (!tag && found.distributed[0] !== undefined) throw distributedCheckpoint(found.distributed[0] || folder);
  if (!tag && found.unreadable[0]) throw found.unreadable[0];
  if (!tag) {
    throw new UnshardError({
      kind: 'not-checkpoint',
      code: 'no-checkpoint',
      message: `${folder} holds no DeepSpeed checkpoint: no *_model_states.pt or *_optim_states.pt in it or two folders below.`,
      advice: 'Pick the folder that holds global_stepN, or global_stepN itself.',
      facts: { file: folder },
    });
  }
  const warnings = [
    ...dangling.map(({ detail: { code, message } }): Notice => ({ code, message })),
    ...found.unreadable.map(({ detail }): Notice => {
      return { code: 'folder-unreadable', message: `${detail.message} No checkpoint was looked for in it.` };
    }),
  ];
  if (candidates.length === 1) return { tag, warnings };
  const choices = candidates.map((choice) => choice.path || choice.tag).join(', ');
  const message = `${candidates.length} checkpoints are here, and nothing tells which is wanted: ${tag.path} was taken, the last of ${choices}.`;
  return { tag, warnings: [...warnings, { code: 'tag-chosen', message }] };
}

function distributedCheckpoint(file: string): UnshardError {
  return new UnshardError({
    kind: 'unsupported',
    code: 'distributed-checkpoint',
    message: `${file} holds a checkpoint of torch.distributed.checkpoint (.metadata and *.distcp), as FSDP writes it, and no DeepSpeed checkpoint.`,
    advice: 'PyTorch converts it: python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE.',
    facts: { file },
  });
}

function tagAmbiguous(folder: string, wanted: string, named: readonly TagChoice[]): UnshardError {
  const found = named.map((choice) => choice.path).join(', ');
  return new UnshardError({
    kind: 'usage',
    code: 'tag-ambiguous',
    message: `${folder} holds ${named.length} tags of the name ${wanted}.`,
    advice: `Choose one by its path: ${found}.`,
    facts: { file: folder, expected: wanted, found },
  });
}

/** The text of a `latest` file; undefined where it is too long to be read as one. */
async function readLatest(tree: FileTree, path: string, signal: AbortSignal | undefined): Promise<string | undefined> {
  const source = await tree.open(path);
  try {
    if (source.size > LATEST_LIMIT) return undefined;
    return new TextDecoder().decode(await readBytes(source, 0, source.size, signal)).trim();
  } finally {
    await source.close();
  }
}

function isFolderName(text: string): boolean {
  return text !== '' && text !== '.' && text !== '..' && !/[/\\\0\n]/.test(text);
}

function badLatest(file: string, text: string | undefined): UnshardError {
  const found = text === undefined ? `more than ${LATEST_LIMIT} bytes` : JSON.stringify(text.slice(0, 80));
  return new UnshardError({
    kind: 'bad-file',
    code: 'latest-bad',
    message: `${file} must hold the name of one folder; it holds ${found}.`,
    advice: 'Pick the folder of the checkpoint itself, for example global_step1000, or mend the file.',
    facts: { file, found },
  });
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
