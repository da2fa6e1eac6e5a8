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
import { addTensor, bitsOf, type Draft, isFlat, locate, startOf } from './draft.js';
import {
  elementCount,
  groupCount,
  groupPadding,
  mixedDtypes,
  type Slice,
  shapeDiffers,
  sliceNotFlat,
  unevenSlices,
} from './problems.js';
import type { GroupShapes, ModelStates, NamedShape, OptimStates } from './states.js';
import { paddingLimit } from './sub-partitions.js';

/** A flat buffer of master weights, cut over ranks: a parameter group, or the share of it that experts of one rank have. */
export interface FlatGroup {
  /** Index of the parameter group. */
  readonly index: number;
  /** The parameters in flat order. */
  readonly shapes: readonly NamedShape[];
  /** The same as its ranks name them, where that is different: experts are counted anew on each rank. */
  readonly ownShapes?: readonly NamedShape[];
  /** The ranks that hold it, in order. */
  readonly optims: readonly OptimStates[];
}

/** A parameter and its master. */
export interface FlatParam {
  readonly name: string;
  readonly shape: readonly number[];
  readonly stored: StoredBits;
}

/** The parameter groups, each cut over all ranks. */
export function wholeGroups(groups: GroupShapes, optims: readonly OptimStates[]): FlatGroup[] {
  return groups.map((shapes, index) => ({ index, shapes, optims }));
}

/** Finds the slices of all ranks. False where a file has another number of groups than the model file; then that is a problem. */
export async function locateSlices(
  draft: Draft,
  model: ModelStates,
  groups: GroupShapes,
  optims: readonly OptimStates[],
  signal?: AbortSignal,
): Promise<boolean> {
  const odd = optims.find((optim) => optim.flatGroups.length !== groups.length);
  if (odd) {
    draft.problems.push(groupCount(model, odd, groups.length));
    return false;
  }
  const wanted = optims.map((optim) => ({ shard: optim.shard, tensors: optim.flatGroups }));
  await locate(draft, wanted, signal);
  return true;
}

/** Adds the trainable parameters of flat groups whose slices were found. */
export async function addFlatGroups(
  draft: Draft,
  model: ModelStates,
  groups: readonly FlatGroup[],
  signal?: AbortSignal,
): Promise<void> {
  for (const group of groups) {
    const params = await flatParams(draft, group, signal);
    if (!Array.isArray(params)) draft.problems.push(params);
    else for (const param of params) addMaster(draft, model, param);
  }
}

function addMaster(draft: Draft, model: ModelStates, param: FlatParam): void {
  const copy = copyOf(draft, model, param.name, param.shape);
  addTensor(draft, { ...param, origin: 'master', ...(copy ? { copy } : {}) }, model.shard.path);
}

/** The parameters of a flat group, read one after another from the joined slices; or what is wrong with the slices. */
export async function flatParams(
  draft: Draft,
  { index, shapes, optims }: FlatGroup,
  signal?: AbortSignal,
): Promise<FlatParam[] | ErrorDetail> {
  const slices = optims.flatMap((optim) => {
    const tensor = optim.flatGroups[index];
    return tensor ? [{ optim, tensor }] : [];
  });
  const problem = await checkGroup(draft, index, shapes, slices, signal);
  if (problem) return problem;
  const dtype = slices[0]?.tensor.dtype ?? 'F32';
  const size = bytesOf(dtype);
  const runs = slices
    .filter(({ tensor }) => tensor.numel > 0)
    .map(({ tensor }) => ({ ...startOf(draft, tensor), length: tensor.numel * size }));
  const cursor = joinedReader(runs);
  return shapes.map(([name, shape]) => ({ name, shape, stored: { dtype, pieces: cursor(numelOf(shape) * size) } }));
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
  if (!tensor) return undefined;
  if (String(tensor.shape) === String(shape)) return bitsOf(draft, tensor);
  draft.problems.push(shapeDiffers(model.shard.path, name, shape, tensor.shape));
  return undefined;
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
  const notFlat = slices.find(({ tensor }) => !isFlat(tensor));
  if (notFlat) return sliceNotFlat(group, notFlat);
  const last = slices.findLastIndex(({ tensor }) => tensor.numel > 0);
  const short = slices.find(({ tensor }, rank) =>
    rank < last ? tensor.numel !== first.tensor.numel : tensor.numel > first.tensor.numel,
  );
  if (short) return unevenSlices(group, first, short);
  const needed = shapes.reduce((sum, [, shape]) => sum + numelOf(shape), 0);
  const found = slices.reduce((sum, { tensor }) => sum + tensor.numel, 0);
  return (await checkLeftOver(draft, group, needed, found, slices, signal)) ?? oddPadding(group, slices);
}

/** Each rank says how much padding it has stripped: with it, all partitions are of one size. */
function oddPadding(group: number, slices: readonly Slice[]): ErrorDetail | undefined {
  const stripped = ({ optim }: Slice) => optim.strippedPadding?.[group];
  const sizes = slices.map((slice) => slice.tensor.numel + (stripped(slice) ?? 0));
  const [first] = slices;
  const partition = sizes[0] ?? 0;
  const odd = slices.findIndex((slice, rank) => {
    const padding = stripped(slice);
    if (padding === undefined || sizes[rank] === partition) return false;
    // More padding than a partition is a negative end of a slice to Python, which counts from the back.
    return padding <= partition || slice.tensor.numel !== Math.max(0, 2 * partition - padding);
  });
  const slice = slices[odd];
  if (!first || !slice || stripped(first) === undefined) return undefined;
  return groupPadding(group, slice, partition - slice.tensor.numel, stripped(slice) ?? 0);
}

/**
 * What is left after the last parameter must be padding: counted by `group_paddings` (BF16_Optimizer), or zeros of less
 * than one alignment unit (`paddingLimit`; DeepSpeed 0.5.2 to 0.6.5 left part of it in the last slice).
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
  const limit = paddingLimit(
    slices.map(({ optim }) => optim),
    group,
  );
  const allowed = counted === undefined ? left >= 0 && left < limit : left === counted;
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
    if (optim.shard.isLost) continue;
    const size = bytesOf(tensor.dtype);
    const offset = startOf(draft, tensor).offset + (tensor.numel - take) * size;
    const bytes = await readBytes(optim.shard.file.source, offset, take * size, signal);
    if (bytes.some((byte) => byte !== 0)) return false;
  }
  return true;
}
