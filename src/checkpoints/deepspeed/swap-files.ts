/**
 * Masters that ZeRO-3 had swapped to NVMe when it saved (since 0.13.0): the flat buffer in the optimizer file is empty, and
 * `offloaded_tensors/rankNN/IDS.tensor.swp` holds its raw bytes. The ids are those of its parameters, all of them or the
 * first and the last. They count parameters in the order in which the model was built; nothing else tells whose a file is.
 *
 * @module
 */

import { bytesOf } from '../../base/dtype.js';
import type { ErrorDetail } from '../../base/errors.js';
import type { Partition } from '../../base/extent.js';
import { counted } from '../../base/words.js';
import type { FileTree, TreeEntry } from '../../io/types.js';
import type { SourceFile } from '../inventory.js';
import { joinPath } from './files.js';
import { swapFileShort, swapFilesMissing, swapFileUnclear } from './old-problems.js';
import type { GroupShapes, ModelStates, OptimStates } from './states.js';

const FOLDER = 'offloaded_tensors';
const RANK = /^rank0*(\d+)$/;
/** Optimizer states have a prefix before the ids. */
const MASTER = /^(\d+(?:_\d+)*)\.tensor\.swp$/;

/** A file of swapped masters. */
export interface SwapFile {
  /** Index of the file in the inventory's sources. */
  readonly source: number;
  readonly path: string;
  /** Bytes; more than the masters need, as writes are aligned. */
  readonly size: number;
  /** Ids of parameters, in the order of the name. */
  readonly ids: readonly number[];
}

/** Where the masters of a rank's swapped sub-groups lie, by their index. */
export type SwappedGroups = ReadonlyMap<number, Partition>;

/** Finds the swap files of each rank that has empty flat buffers, and adds them to `sources`. */
export async function withSwapFiles(
  tree: FileTree,
  folder: string,
  entries: readonly TreeEntry[],
  optims: readonly OptimStates[],
  sources: SourceFile[],
): Promise<OptimStates[]> {
  const isThere = entries.some(({ kind, name }) => kind === 'directory' && name === FOLDER);
  const root = joinPath(folder, FOLDER);
  const needed = optims.some(({ stage, flatGroups }) => stage === 3 && flatGroups.some(({ numel }) => numel === 0));
  const ranks = isThere && needed ? await tree.list(root) : [];
  const found: OptimStates[] = [];
  for (const optim of optims) {
    const own = ranks.find(({ kind, name }) => kind === 'directory' && rankOf(name) === optim.shard.name.dp);
    const swapFiles = own ? await openSwapFiles(tree, joinPath(root, own.name), sources) : [];
    found.push(swapFiles.length > 0 ? { ...optim, swapFiles } : optim);
  }
  return found;
}

function rankOf(name: string): number | undefined {
  const rank = RANK.exec(name)?.[1];
  return rank === undefined ? undefined : Number(rank);
}

async function openSwapFiles(tree: FileTree, folder: string, sources: SourceFile[]): Promise<SwapFile[]> {
  const files: SwapFile[] = [];
  for (const { kind, name } of await tree.list(folder)) {
    const ids = kind === 'file' ? MASTER.exec(name)?.[1] : undefined;
    if (ids === undefined) continue;
    const path = joinPath(folder, name);
    const source = await tree.open(path);
    await source.close();
    files.push({ source: sources.length, path, size: source.size, ids: ids.split('_').map(Number) });
    sources.push({ path, size: source.size, modified: source.modified });
  }
  return files;
}

/**
 * Gives each swapped sub-group of a rank its file: both in the order of the parameters. `needs` are the elements that the
 * rank should hold of each group.
 */
export function pairSwapFiles(
  model: ModelStates,
  groups: GroupShapes,
  needs: readonly number[],
  optim: OptimStates,
): SwappedGroups | ErrorDetail {
  const isSwapped = (group: number) => optim.flatGroups[group]?.numel === 0 && (needs[group] ?? 0) > 0;
  if (!groups.some((_, group) => isSwapped(group))) return new Map();
  const position = new Map([...model.module.keys()].map((name, i) => [name, i]));
  const swapped = groups
    .map((shapes, group) => {
      const places = shapes.map(([name]) => position.get(name) ?? Number.NaN);
      return { group, count: shapes.length, ...endsOf(places) };
    })
    .filter(({ group }) => isSwapped(group))
    .toSorted((a, b) => a.first - b.first);
  const { swapFiles = [] } = optim;
  if (swapped.length !== swapFiles.length) return missing(optim, swapped.length, swapFiles.length);
  const files = swapFiles.map((file) => ({ file, ...endsOf(file.ids) })).toSorted((a, b) => a.first - b.first);
  const isClear = areApart(swapped) && areApart(files);
  const [firstGroup, firstFile] = [swapped[0]?.first ?? 0, files[0]?.first ?? 0];
  const pairs = new Map<number, Partition>();
  for (const [i, { group, count, first, last }] of swapped.entries()) {
    const pair = files[i];
    if (!pair) break;
    const { file } = pair;
    // Where groups lie across each other, ids and the state dict must count alike.
    const isPlaced =
      isClear || (pair.first - firstFile === first - firstGroup && pair.last - pair.first === last - first);
    const fits = file.ids.length > 2 ? file.ids.length === count : pair.last - pair.first >= count - 1;
    const isOne = count > 1 || file.ids.length === 1 || pair.first === pair.last;
    if (!isPlaced || !fits || !isOne) {
      return swapFileUnclear(file.path, group, counted(count, 'parameter'), `ids ${file.ids.slice(0, 8).join(', ')}`);
    }
    const bytes = (needs[group] ?? 0) * bytesOf(optim.flatGroups[group]?.dtype ?? 'F32');
    if (file.size < bytes) return swapFileShort(file.path, group, bytes, file.size);
    pairs.set(group, { source: file.source, offset: 0 });
  }
  return pairs;
}

function endsOf(places: readonly number[]): { readonly first: number; readonly last: number } {
  return {
    first: places.reduce((least, place) => Math.min(least, place), Number.POSITIVE_INFINITY),
    last: places.reduce((most, place) => Math.max(most, place), Number.NEGATIVE_INFINITY),
  };
}

function areApart(ranges: readonly { readonly first: number; readonly last: number }[]): boolean {
  return ranges.every(({ first }, i) => i === 0 || first > (ranges[i - 1]?.last ?? 0));
}

function missing({ shard }: OptimStates, expected: number, found: number): ErrorDetail {
  const tag = shard.path.slice(0, Math.max(0, shard.path.lastIndexOf('/')));
  const folder = joinPath(tag, `${FOLDER}/rank${String(shard.name.dp).padStart(2, '0')}`);
  return swapFilesMissing(shard.path, folder, expected, found);
}
