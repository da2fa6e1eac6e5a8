/**
 * The order of parameters in the flat buffers of stage 1 and 2 before 0.5.4. The state dict shows it: its parameters are
 * views into the 16-bit flat buffers, one storage for each group. Where they are not, the listed order is tried, and that
 * order dealt round robin. An order is taken only where the bits of every parameter prove it.
 *
 * @module
 */

import { isFloat } from '../../base/dtype.js';
import { numelOf } from '../../base/shape.js';
import type { TorchTensor } from '../../formats/torch/tensor.js';
import { bitsOf, type Draft, locate } from './draft.js';
import { orderUnproven } from './old-problems.js';
import { bitsMatch } from './probe.js';
import type { GroupShapes, ModelStates, NamedShape, OptimStates } from './states.js';
import { dealtRanks, paddingLimit } from './sub-partitions.js';
import { flatParams } from './zero12.js';

/** What the orders are tried on. */
interface Trial {
  readonly draft: Draft;
  readonly model: ModelStates;
  readonly ranks: readonly OptimStates[];
  /** Elements of each flat buffer, with what is left of its padding. */
  readonly counts: readonly number[];
  readonly signal: AbortSignal | undefined;
}

/**
 * The parameters of each group in flat order. `listed` are all parameters as the optimizer files list them; undefined
 * before 0.3.14. Where no order is proven, that is a problem of the draft.
 */
export async function flatOrder(
  draft: Draft,
  model: ModelStates,
  optims: readonly OptimStates[],
  listed: readonly NamedShape[] | undefined,
  signal: AbortSignal | undefined,
): Promise<GroupShapes> {
  const ranks = dealtRanks(optims);
  const slices = ranks.map(({ shard, flatGroups }) => ({ shard, tensors: flatGroups }));
  await locate(draft, [{ shard: model.shard, tensors: model.module.values() }, ...slices], signal);
  const trial: Trial = { draft, model, ranks, counts: countsOf(ranks), signal };
  const params = listed ?? parametersOf(model);
  const found = (await orderOfViews(trial, params)) ?? (await orderOfList(trial, params, optims.length));
  if (!found) {
    draft.problems.push(orderUnproven(model, optims));
    return [];
  }
  const isDealt = found.some((group) => isRoundRobin(group, params, optims.length));
  if (listed && isDealt) draft.warnings.push(reordered(optims));
  // Parameters without elements take no place. The last group may have them.
  const isPlaced = new Set(found.flat().map(([name]) => name));
  const empty = (listed ?? []).filter(([name, shape]) => numelOf(shape) === 0 && !isPlaced.has(name));
  return found.map((group, g) => (g === found.length - 1 ? [...group, ...empty] : group));
}

function countsOf(ranks: readonly OptimStates[]): number[] {
  const groups = ranks[0]?.flatGroups ?? [];
  return groups.map((_, g) => ranks.reduce((sum, { flatGroups }) => sum + (flatGroups[g]?.numel ?? 0), 0));
}

/** What the state dict may hold parameters as: floats that are no buffer, the first name of each. */
function parametersOf({ module, bufferNames, shared }: ModelStates): NamedShape[] {
  const others = new Set([...bufferNames, ...shared.keys()]);
  const seen = new Set<string>();
  return [...module].flatMap(([name, tensor]): NamedShape[] => {
    const place = `${tensor.storage.key} ${tensor.offset} ${tensor.shape.join()}`;
    if (others.has(name) || !isFloat(tensor.dtype) || seen.has(place)) return [];
    seen.add(place);
    return [[name, tensor.shape]];
  });
}

/** Finds for each flat buffer the storage of the state dict that has the same bits. */
async function orderOfViews(trial: Trial, params: readonly NamedShape[]): Promise<GroupShapes | undefined> {
  const open = new Set(viewsOf(trial.model, params));
  const groups: NamedShape[][] = [];
  for (const [g, count] of trial.counts.entries()) {
    const group = count === 0 ? [] : await firstProven(trial, g, open);
    if (!group) return undefined;
    open.delete(group);
    groups.push(group);
  }
  return groups;
}

async function firstProven(trial: Trial, g: number, open: Iterable<NamedShape[]>): Promise<NamedShape[] | undefined> {
  const count = trial.counts[g] ?? 0;
  for (const group of open) {
    const left = count - elementsOf(group);
    if (left >= 0 && left < paddingLimit(trial.ranks, g) && (await isProven(trial, g, group))) return group;
  }
  return undefined;
}

/** The parameters of each storage that they fill from its start without a gap, in the order in which they lie there. */
function viewsOf({ module }: ModelStates, params: readonly NamedShape[]): NamedShape[][] {
  const storages = new Map<unknown, [NamedShape, TorchTensor][]>();
  for (const param of params) {
    const tensor = module.get(param[0]);
    if (!tensor || tensor.numel === 0 || !isContiguous(tensor)) continue;
    const views = storages.get(tensor.storage) ?? [];
    storages.set(tensor.storage, views);
    views.push([param, tensor]);
  }
  return [...storages.values()].flatMap((views) => {
    const sorted = views.toSorted(([, a], [, b]) => a.offset - b.offset);
    let end = 0;
    const isFilled = sorted.every(([, { offset, numel }]) => {
      const follows = offset === end;
      end += numel;
      return follows;
    });
    return isFilled ? [sorted.map(([param]) => param)] : [];
  });
}

/**
 * The listed order, cut where a buffer is full; each part as it is, or dealt round robin. Where padding leaves room for
 * more parameters, the bits tell how many there are.
 */
async function orderOfList(
  trial: Trial,
  params: readonly NamedShape[],
  ranks: number,
): Promise<GroupShapes | undefined> {
  let rest = params;
  const groups: (readonly NamedShape[])[] = [];
  for (const g of trial.counts.keys()) {
    let proven: readonly NamedShape[] | undefined;
    for (const part of fittingParts(trial, g, rest)) {
      for (const order of [part, roundRobin(part, ranks)]) {
        if (!proven && (await isProven(trial, g, order))) proven = order;
      }
    }
    if (!proven) return undefined;
    groups.push(proven);
    rest = rest.slice(proven.length);
  }
  return rest.every(([, shape]) => numelOf(shape) === 0) ? groups : undefined;
}

/** The first parameters of a list that fill a flat buffer but for padding: the most first. */
function fittingParts({ ranks, counts }: Trial, g: number, params: readonly NamedShape[]): NamedShape[][] {
  const parts: NamedShape[][] = [];
  const limit = paddingLimit(ranks, g);
  let left = counts[g] ?? 0;
  if (left < limit) parts.push([]);
  for (const [i, [, shape]] of params.entries()) {
    left -= numelOf(shape);
    if (left < 0) break;
    if (left < limit) parts.push(params.slice(0, i + 1));
  }
  return parts.reverse();
}

/** Parameter `i` goes to bucket `i % ranks`; the buckets follow each other. */
function roundRobin(group: readonly NamedShape[], ranks: number): NamedShape[] {
  return Array.from({ length: ranks }, (_, bucket) => group.filter((_param, i) => i % ranks === bucket)).flat();
}

/** True where a group is in the order of the list dealt round robin, and not in that of the list. */
function isRoundRobin(group: readonly NamedShape[], params: readonly NamedShape[], ranks: number): boolean {
  const names = new Set(group.map(([name]) => name));
  const listed = params.filter(([name]) => names.has(name));
  const isSame = (order: readonly NamedShape[]) => order.every(([name], i) => name === group[i]?.[0]);
  return !isSame(listed) && isSame(roundRobin(listed, ranks));
}

/** True where the masters of a group, cut in this order, are rounded to the weights of the state dict. */
async function isProven(
  { draft, model, ranks, signal }: Trial,
  index: number,
  shapes: readonly NamedShape[],
): Promise<boolean> {
  const params = await flatParams(draft, { index, shapes, optims: ranks }, signal);
  if (!Array.isArray(params)) return false;
  for (const { name, shape, stored } of params) {
    const copy = model.module.get(name);
    if (!copy || String(copy.shape) !== String(shape)) return false;
    if (!(await bitsMatch(draft, stored, bitsOf(draft, copy), copy.numel, signal))) return false;
  }
  return true;
}

function isContiguous({ shape, stride }: TorchTensor): boolean {
  return stride.every((step, i) => step === numelOf(shape.slice(i + 1)));
}

function elementsOf(group: readonly NamedShape[]): number {
  return group.reduce((sum, [, shape]) => sum + numelOf(shape), 0);
}

function reordered(optims: readonly OptimStates[]): { code: string; message: string } {
  const version = optims[0]?.deepspeedVersion;
  return {
    code: 'round-robin-reordered',
    message: `DeepSpeed ${version ?? 'of this version'} lists the parameters in another order than its flat buffers have (0.4.0 to 0.4.3 do so). The order of the buffers was taken: it gives the weights of the state dict, bit for bit where they were compared.`,
  };
}
