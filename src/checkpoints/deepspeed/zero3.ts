/**
 * ZeRO stage 3: every parameter is cut over all ranks in equal shares, one flat buffer per rank and sub-group.
 *
 * @module
 */

import { bytesOf } from '../../base/dtype.js';
import type { Extent, Partition } from '../../base/extent.js';
import { numelOf } from '../../base/shape.js';
import { addFaulty, addTensor, type Draft, isFlat, locate, startOf } from './draft.js';
import { badFragment, groupCount, mixedDtypes, shareCount, sliceNotFlat } from './problems.js';
import type { GroupShapes, ModelStates, NamedShape, OptimStates } from './states.js';
import { pairSwapFiles, type SwappedGroups } from './swap-files.js';

/** Adds the trainable parameters: those of `groups`, in flat order. `optims` are all ranks, in order. */
export async function addZero3(
  draft: Draft,
  model: ModelStates,
  groups: GroupShapes,
  optims: readonly OptimStates[],
  signal?: AbortSignal,
): Promise<void> {
  const odd = optims.find((optim) => optim.flatGroups.length !== groups.length);
  if (odd) {
    draft.problems.push(groupCount(model, odd, groups.length));
    return;
  }
  await locate(
    draft,
    optims.map((optim) => ({ shard: optim.shard, tensors: optim.flatGroups })),
    signal,
  );
  const swapped = swappedGroups(draft, model, groups, optims);
  if (!swapped) return;
  for (const [g, shapes] of groups.entries()) addSubGroup(draft, model, g, shapes, optims, swapped);
}

/** Where the swapped masters of each rank lie. Undefined where they are not found; then that is a problem. */
function swappedGroups(
  draft: Draft,
  model: ModelStates,
  groups: GroupShapes,
  optims: readonly OptimStates[],
): SwappedGroups[] | undefined {
  const needs = groups.map((shapes) => sharesOf(shapes, optims.length));
  const found = optims.map((optim) => pairSwapFiles(model, groups, needs, optim));
  const problems = found.flatMap((rank) => ('code' in rank ? [rank] : []));
  draft.problems.push(...problems);
  return problems.length > 0 ? undefined : found.flatMap((rank) => ('code' in rank ? [] : [rank]));
}

function addSubGroup(
  draft: Draft,
  model: ModelStates,
  group: number,
  shapes: readonly NamedShape[],
  optims: readonly OptimStates[],
  swapped: readonly SwappedGroups[],
): void {
  const ranks = optims.length;
  const slices = optims.flatMap((optim, rank) => {
    const tensor = optim.flatGroups[group];
    const swap = swapped[rank]?.get(group);
    return tensor ? [{ optim, tensor, ...(swap ? { swap } : {}) }] : [];
  });
  const first = slices[0];
  if (!first) return;
  const shares = sharesOf(shapes, ranks);
  for (const slice of slices) {
    const { optim, tensor, swap } = slice;
    if (swap && tensor.dtype === first.tensor.dtype) continue;
    if (!isFlat(tensor)) draft.problems.push(sliceNotFlat(group, slice));
    else if (tensor.dtype !== first.tensor.dtype) draft.problems.push(mixedDtypes(group, first, slice));
    else if (tensor.numel !== shares) draft.problems.push(shareCount(optim, group, shares, tensor.numel));
    else continue;
    return;
  }
  const { dtype } = first.tensor;
  const size = bytesOf(dtype);
  const over = draft.partitions.length;
  draft.partitions.push(
    shares === 0 ? [] : slices.map(({ tensor, swap }): Partition => swap ?? startOf(draft, tensor)),
  );
  let offset = 0;
  for (const [name, shape] of shapes) {
    const share = shareOf(shape, ranks) * size;
    const length = numelOf(shape) * size;
    const pieces = length === 0 ? [] : [{ over, offset, share, length, at: 0 }];
    addTensor(draft, { name, shape, origin: 'master', stored: { dtype, pieces } }, model.shard.path);
    offset += share;
  }
}

/** Adds the frozen parameters: each rank's model file holds its share. `models` are all ranks, in order. */
export async function addFrozenZero3(
  draft: Draft,
  models: readonly ModelStates[],
  signal?: AbortSignal,
): Promise<void> {
  const first = models[0];
  if (!first || first.frozenShapes.length === 0) return;
  await locate(
    draft,
    models.map((model) => ({ shard: model.shard, tensors: model.frozenFragments.values() })),
    signal,
  );
  for (const [name, shape] of first.frozenShapes) addFrozen(draft, models, name, shape);
}

function addFrozen(draft: Draft, models: readonly ModelStates[], name: string, shape: readonly number[]): void {
  const share = shareOf(shape, models.length);
  const numel = numelOf(shape);
  const file = models[0]?.shard.path ?? '';
  const dtype = models[0]?.frozenFragments.get(name)?.dtype ?? 'BF16';
  const size = bytesOf(dtype);
  const pieces: Extent[] = [];
  for (const [rank, model] of models.entries()) {
    const fragment = model.frozenFragments.get(name);
    const fits = fragment !== undefined && fragment.dtype === dtype && fragment.numel === share && isFlat(fragment);
    if (!fits || dtype === 'I8') {
      const found = fragment ? `${fragment.dtype} of shape [${fragment.shape.join(', ')}]` : 'none';
      const fault = badFragment(model.shard.path, name, `a share of ${share} elements, not quantized`, found);
      addFaulty(draft, { name, shape, origin: 'frozen', dtype }, fault, file);
      return;
    }
    const at = rank * share;
    const count = Math.min(share, numel - at);
    if (count > 0) pieces.push({ ...startOf(draft, fragment), length: count * size, at: at * size });
  }
  addTensor(draft, { name, shape, origin: 'frozen', stored: { dtype, pieces } }, file);
}

function sharesOf(shapes: readonly NamedShape[], ranks: number): number {
  return shapes.reduce((sum, [, shape]) => sum + shareOf(shape, ranks), 0);
}

/** Elements of a parameter that each rank holds, the padding of the last ones included. */
function shareOf(shape: readonly number[], ranks: number): number {
  return Math.ceil(numelOf(shape) / ranks);
}
