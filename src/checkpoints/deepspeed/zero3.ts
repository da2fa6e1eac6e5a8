/**
 * ZeRO stage 3: every parameter is cut over all ranks in equal shares, one flat buffer per rank and sub-group.
 *
 * @module
 */

import { bytesOf } from '../../base/dtype.js';
import type { Extent, Partition } from '../../base/extent.js';
import { numelOf } from '../../base/shape.js';
import { addTensor, type Draft, locate, startOf } from './draft.js';
import { badFragment, groupCount, mixedDtypes, shareCount, sliceNotFlat } from './problems.js';
import type { ModelStates, NamedShape, OptimStates } from './states.js';

/** Adds the trainable parameters. `optims` are all ranks, in order. */
export async function addZero3(
  draft: Draft,
  model: ModelStates,
  optims: readonly OptimStates[],
  signal?: AbortSignal,
): Promise<void> {
  const groups = model.paramShapes ?? [];
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
  for (const [g, shapes] of groups.entries()) addSubGroup(draft, model, g, shapes, optims);
}

function addSubGroup(
  draft: Draft,
  model: ModelStates,
  group: number,
  shapes: readonly NamedShape[],
  optims: readonly OptimStates[],
): void {
  const ranks = optims.length;
  const slices = optims.flatMap((optim) => {
    const tensor = optim.flatGroups[group];
    return tensor ? [{ optim, tensor }] : [];
  });
  const first = slices[0];
  if (!first) return;
  const shares = shapes.reduce((sum, [, shape]) => sum + shareOf(shape, ranks), 0);
  for (const slice of slices) {
    const { optim, tensor } = slice;
    const flat = tensor.shape.length === 1 && (tensor.numel < 2 || tensor.stride[0] === 1);
    if (!flat) draft.problems.push(sliceNotFlat(group, slice));
    else if (tensor.dtype !== first.tensor.dtype) draft.problems.push(mixedDtypes(group, first, slice));
    else if (tensor.numel !== shares) draft.problems.push(shareCount(optim, group, shares, tensor.numel));
    else continue;
    return;
  }
  const { dtype } = first.tensor;
  const size = bytesOf(dtype);
  const over = draft.partitions.length;
  draft.partitions.push(shares === 0 ? [] : slices.map(({ tensor }): Partition => startOf(draft, tensor)));
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
  const dtype = models[0]?.frozenFragments.get(name)?.dtype ?? 'BF16';
  const size = bytesOf(dtype);
  const pieces: Extent[] = [];
  for (const [rank, model] of models.entries()) {
    const fragment = model.frozenFragments.get(name);
    const fits =
      fragment !== undefined && fragment.dtype === dtype && fragment.numel === share && fragment.dtype !== 'I8';
    if (!fits) {
      const found = fragment ? `${fragment.numel} elements of ${fragment.dtype}` : 'none';
      draft.problems.push(badFragment(model.shard.path, name, `${share} elements of a floating dtype`, found));
      return;
    }
    const at = rank * share;
    const count = Math.min(share, numel - at);
    if (count > 0) pieces.push({ ...startOf(draft, fragment), length: count * size, at: at * size });
  }
  addTensor(draft, { name, shape, origin: 'frozen', stored: { dtype, pieces } }, models[0]?.shard.path ?? '');
}

/** Elements of a parameter that each rank holds, the padding of the last ones included. */
function shareOf(shape: readonly number[], ranks: number): number {
  return Math.ceil(numelOf(shape) / ranks);
}
