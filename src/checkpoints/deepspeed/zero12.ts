/**
 * ZeRO stages 1 and 2, and BF16_Optimizer: each parameter group is one flat buffer of master weights, cut over the ranks.
 * A parameter may lie across ranks.
 *
 * @module
 */

import { bytesOf } from '../../base/dtype.js';
import type { ErrorDetail } from '../../base/errors.js';
import type { Extent } from '../../base/extent.js';
import { numelOf } from '../../base/shape.js';
import { readBytes } from '../../io/read.js';
import type { StoredBits } from '../inventory.js';
import { addTensor, bitsOf, type Draft, locate, startOf } from './draft.js';
import { elementCount, groupCount, mixedDtypes, type Slice, sliceNotFlat, unevenSlices } from './problems.js';
import type { ModelStates, NamedShape, OptimStates } from './states.js';

/** Adds the trainable parameters. `optims` are all ranks, in order. */
export async function addZero12(
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
  for (const [g, shapes] of groups.entries()) {
    const slices = optims.flatMap((optim) => {
      const tensor = optim.flatGroups[g];
      return tensor ? [{ optim, tensor }] : [];
    });
    const problem = await checkGroup(draft, g, shapes, slices, signal);
    if (problem) draft.problems.push(problem);
    else addGroup(draft, model, shapes, slices);
  }
}

/** Reads the parameters one after another from the joined slices. */
function addGroup(draft: Draft, model: ModelStates, shapes: readonly NamedShape[], slices: readonly Slice[]): void {
  const dtype = slices[0]?.tensor.dtype ?? 'F32';
  const size = bytesOf(dtype);
  const runs = slices
    .filter(({ tensor }) => tensor.numel > 0)
    .map(({ tensor }) => ({ ...startOf(draft, tensor), length: tensor.numel * size }));
  const cursor = joinedReader(runs);
  for (const [name, shape] of shapes) {
    const pieces = cursor(numelOf(shape) * size);
    const copy = copyOf(draft, model, name, shape);
    addTensor(
      draft,
      { name, shape, origin: 'master', stored: { dtype, pieces }, ...(copy ? { copy } : {}) },
      model.shard.path,
    );
  }
}

/** Gives a function that takes the next bytes of runs that are joined end to end. */
function joinedReader(
  runs: readonly { source: number; offset: number; length: number }[],
): (length: number) => Extent[] {
  let run = 0;
  let used = 0;
  return (length) => {
    const extents: Extent[] = [];
    for (let at = 0; at < length; ) {
      const current = runs[run];
      if (!current) break;
      const take = Math.min(length - at, current.length - used);
      if (take > 0) extents.push({ source: current.source, offset: current.offset + used, length: take, at });
      at += take;
      used += take;
      if (used === current.length) {
        run++;
        used = 0;
      }
    }
    return extents;
  };
}

/** The 16-bit copy of a parameter in the model file. */
function copyOf(draft: Draft, model: ModelStates, name: string, shape: readonly number[]): StoredBits | undefined {
  const tensor = model.module.get(name);
  const whole = tensor !== undefined && String(tensor.shape) === String(shape);
  return whole && draft.places.has(tensor.storage) ? bitsOf(draft, tensor) : undefined;
}

/** Checks that the slices of all ranks are one dtype, join without a gap, and hold the parameters and nothing else. */
async function checkGroup(
  draft: Draft,
  group: number,
  shapes: readonly NamedShape[],
  slices: readonly Slice[],
  signal: AbortSignal | undefined,
): Promise<ErrorDetail | undefined> {
  const first = slices[0];
  if (!first) return undefined;
  const otherDtype = slices.find(({ tensor }) => tensor.dtype !== first.tensor.dtype);
  if (otherDtype) return mixedDtypes(group, first, otherDtype);
  const notFlat = slices.find(
    ({ tensor }) => tensor.shape.length !== 1 || (tensor.numel > 1 && tensor.stride[0] !== 1),
  );
  if (notFlat) return sliceNotFlat(group, notFlat);
  const last = slices.findLastIndex(({ tensor }) => tensor.numel > 0);
  const short = slices.find(({ tensor }, rank) =>
    rank < last ? tensor.numel !== first.tensor.numel : tensor.numel > first.tensor.numel,
  );
  if (short) return unevenSlices(group, first, short);
  const needed = shapes.reduce((sum, [, shape]) => sum + numelOf(shape), 0);
  const found = slices.reduce((sum, { tensor }) => sum + tensor.numel, 0);
  return checkLeftOver(draft, group, needed, found, slices, signal);
}

/**
 * What is left after the last parameter must be padding: counted by `group_paddings` (BF16_Optimizer), or zeros of less
 * than one alignment unit (2 elements per rank; DeepSpeed 0.5.2 to 0.6.5 left part of it in the last slice).
 */
async function checkLeftOver(
  draft: Draft,
  group: number,
  needed: number,
  found: number,
  slices: readonly Slice[],
  signal: AbortSignal | undefined,
): Promise<ErrorDetail | undefined> {
  const left = found - needed;
  const counted = slices.some(({ optim }) => optim.keptPadding !== undefined)
    ? slices.reduce((sum, { optim }) => sum + (optim.keptPadding?.[group] ?? 0), 0)
    : undefined;
  const allowed = counted === undefined ? left >= 0 && left < 2 * slices.length : left === counted;
  if (!allowed) return elementCount(group, needed, found, counted ?? 0, slices);
  if (counted !== undefined || left === 0) return undefined;
  return (await tailIsZero(draft, slices, left, signal)) ? undefined : elementCount(group, needed, found, 0, slices);
}

/** True when the last `count` elements of the joined slices are zero bytes. */
async function tailIsZero(
  draft: Draft,
  slices: readonly Slice[],
  count: number,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  let left = count;
  for (const { optim, tensor } of slices.toReversed()) {
    const take = Math.min(left, tensor.numel);
    if (take === 0) continue;
    left -= take;
    const size = bytesOf(tensor.dtype);
    const offset = startOf(draft, tensor).offset + (tensor.numel - take) * size;
    const bytes = await readBytes(optim.shard.file.source, offset, take * size, signal);
    if (bytes.some((byte) => byte !== 0)) return false;
  }
  return true;
}
