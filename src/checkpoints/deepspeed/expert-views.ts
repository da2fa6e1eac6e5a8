/**
 * The parameters of each group of a model with experts before 0.7.4, when no file of such a model lists them group by
 * group. Weights were saved as the views into the 16-bit flat buffers that they are: where a weight lies in its storage is
 * where its master lies in the flat buffer, and the bits tell which buffer that is.
 *
 * @module
 */

import { bytesOf } from '../../base/dtype.js';
import type { Extent } from '../../base/extent.js';
import { slicePieces } from '../../base/slice.js';
import type { TorchStorage, TorchTensor } from '../../formats/torch/tensor.js';
import type { StoredBits } from '../inventory.js';
import { bitsOf, type Draft, locate } from './draft.js';
import { RANK_ORDERS, type RankOrder, ranksOfGroup } from './expert-ranks.js';
import { type Experts, isExpert, isOnRank } from './experts.js';
import { bitsMatch } from './probe.js';
import { worldSizeOf } from './ranks.js';
import type { GroupShapes, ModelStates, NamedShape, OptimStates } from './states.js';
import { paddingLimit } from './sub-partitions.js';
import { flatParams } from './zero12.js';

/** A weight of the state dict. */
type Weight = readonly [name: string, tensor: TorchTensor];

/**
 * The parameters of each group in flat order, named as the ranks of the first experts name them. Undefined where the
 * weights are no views of flat buffers, or their bits are of other masters.
 */
export async function viewedShapes(
  draft: Draft,
  model: ModelStates,
  optims: readonly OptimStates[],
  experts: Experts,
  signal: AbortSignal | undefined,
): Promise<GroupShapes | undefined> {
  const dense = [...model.module].filter(([name]) => !experts.tensors.has(name)).map(([, tensor]) => tensor);
  const slices = optims.map(({ shard, flatGroups }) => ({ shard, tensors: flatGroups }));
  await locate(draft, [{ shard: model.shard, tensors: dense }, ...slices], signal);
  for (const order of RANK_ORDERS) {
    const groups = await shapesInOrder(draft, distinct(model.module), optims, { experts, order, signal });
    if (groups) return groups;
  }
  return undefined;
}

interface Reading {
  readonly experts: Experts;
  readonly order: RankOrder;
  readonly signal: AbortSignal | undefined;
}

async function shapesInOrder(
  draft: Draft,
  weights: readonly Weight[],
  optims: readonly OptimStates[],
  { experts, order, signal }: Reading,
): Promise<GroupShapes | undefined> {
  const open = new Map(weights);
  const groups: NamedShape[][] = [];
  const world = worldSizeOf(optims);
  for (const index of optims[0]?.flatGroups.keys() ?? []) {
    const count = ranksOfGroup(optims, index);
    const own = optims.filter((_, r) => order(r, count, world) === 0);
    const held = (name: string) => count === world || (isExpert(name) && isOnRank(experts, name, 0, world / count));
    const candidates = [...open].filter(([name]) => held(name));
    const group = await viewsOf(draft, candidates, own, index, signal);
    if (!group) return undefined;
    for (const [name] of group) open.delete(name);
    groups.push(group.map(([name, { shape }]) => [name, shape]));
  }
  return groups;
}

/** The weights that fill a flat buffer one after another, with the bits of its masters. Undefined where they do not. */
async function viewsOf(
  draft: Draft,
  candidates: readonly Weight[],
  optims: readonly OptimStates[],
  index: number,
  signal: AbortSignal | undefined,
): Promise<Weight[] | undefined> {
  const count = optims.reduce((sum, { flatGroups }) => sum + (flatGroups[index]?.numel ?? 0), 0);
  const limit = paddingLimit(optims, index);
  const whole = await flatParams(draft, { index, shapes: [['', [count]]], optims }, signal);
  const [flat] = Array.isArray(whole) ? whole : [];
  if (!flat) return undefined;
  const found: Weight[] = [];
  for (const views of byStorage(candidates)) {
    // Weights that are alike may be at one place of two buffers: all of a storage are of the same one.
    if (await areOf(flat.stored, views)) found.push(...views);
  }
  found.sort(([, a], [, b]) => a.offset - b.offset);
  let end = 0;
  const isFilled = found.every(([, { offset, numel }]) => {
    const follows = offset === end;
    end += numel;
    return follows;
  });
  if (!isFilled) return undefined;
  const shapes = found.map(([name, { shape }]): NamedShape => [name, shape]);
  return Array.isArray(await flatParams(draft, { index, shapes, optims }, signal)) ? found : undefined;

  async function areOf(masters: StoredBits, views: readonly Weight[]): Promise<boolean> {
    for (const [, tensor] of views) {
      const { offset, numel, storage, dtype } = tensor;
      const left = storage.byteLength / bytesOf(dtype) - count;
      if (left < 0 || left >= limit || offset + numel > count) return false;
      const master = rangeOf(draft, masters, offset, offset + numel);
      if (!(await bitsMatch(draft, master, bitsOf(draft, tensor), numel, signal))) return false;
    }
    return true;
  }
}

function byStorage(weights: readonly Weight[]): Iterable<Weight[]> {
  const storages = new Map<TorchStorage, Weight[]>();
  for (const weight of weights) {
    const views = storages.get(weight[1].storage) ?? [];
    storages.set(weight[1].storage, views);
    views.push(weight);
  }
  return storages.values();
}

/** Elements `[start, end)` of a flat buffer. */
function rangeOf(draft: Draft, { dtype, pieces }: StoredBits, start: number, end: number): StoredBits {
  const size = bytesOf(dtype);
  const { runs } = slicePieces(pieces, draft.partitions, start * size, end * size);
  return { dtype, pieces: runs.map((run): Extent => ({ ...run })) };
}

/** Weights with elements, the first name of each. */
function distinct(module: ReadonlyMap<string, TorchTensor>): Weight[] {
  const seen = new Map<TorchStorage, Set<string>>();
  return [...module].filter(([, { storage, offset, shape, numel }]) => {
    const views = seen.get(storage) ?? new Set();
    seen.set(storage, views);
    const view = `${offset} ${shape.join()}`;
    const isFirst = !views.has(view);
    views.add(view);
    return isFirst && numel > 0;
  });
}
