/**
 * Mixture of experts with ZeRO 1 and 2: expert parameters have groups of their own, each cut over the ranks that hold the
 * same experts. There are as many flat buffers of such a group as there are expert-parallel ranks.
 *
 * @module
 */

import type { ErrorDetail } from '../../base/errors.js';
import { numelOf } from '../../base/shape.js';
import { addPart, bitsOf, type Draft } from './draft.js';
import { RANK_ORDERS, type RankOrder, ranksOfGroup } from './expert-ranks.js';
import { type Experts, globalShapes, isExpert, isOnRank } from './experts.js';
import { dig, type Field, fieldOf, isPresent } from './fields.js';
import { expertOrder, expertRanks, missingExpertOptim } from './parallel-problems.js';
import { bitsMatch } from './probe.js';
import type { Part } from './rank-set.js';
import { worldSizeOf } from './ranks.js';
import { recordedShapes } from './recorded-shapes.js';
import type { GroupShapes, ModelStates, OptimStates } from './states.js';
import { addZero0 } from './zero0.js';
import { type FlatGroup, type FlatParam, flatParams, wholeGroups } from './zero12.js';

/** Masters that are compared with expert files, to tell in which order the ranks are. */
const PROBED_TENSORS = 32;

/**
 * The flat groups of a model with experts, under the names of the whole model. Which of the two orders of ranks was used is
 * told by the bits of the experts' files.
 */
export async function expertGroups(
  draft: Draft,
  model: ModelStates,
  groups: GroupShapes,
  optims: readonly OptimStates[],
  experts: Experts,
  signal?: AbortSignal,
): Promise<FlatGroup[]> {
  const file = model.shard.path;
  let problem: ErrorDetail | undefined;
  const isListed = (model.paramShapes ?? optims[0]?.paramShapes) !== undefined;
  for (const order of RANK_ORDERS) {
    // What the ranks record is read in their order.
    const ordered = isListed ? groups : (recordedShapes(model, optims, order) ?? groups);
    const flat = groupsInOrder(file, ordered, optims, experts, order);
    if (!Array.isArray(flat)) {
      draft.problems.push(flat);
      return [];
    }
    const ambiguous = flat.filter(({ optims: own }) => own.length > 1 && own.length < optims.length);
    const odd = await firstOdd(draft, model, ambiguous, signal);
    if (!odd) return flat;
    problem ??= odd;
  }
  if (problem) draft.problems.push(problem);
  return [];
}

function groupsInOrder(
  file: string,
  groups: GroupShapes,
  optims: readonly OptimStates[],
  experts: Experts,
  order: RankOrder,
): FlatGroup[] | ErrorDetail {
  const world = worldSizeOf(optims);
  const flat: FlatGroup[] = [];
  for (const { index, shapes } of wholeGroups(groups, optims)) {
    const count = ranksOfGroup(optims, index);
    const ranks = world / count;
    const said = namedSize(optims, index);
    if (!Number.isInteger(ranks) || (said !== undefined && said !== ranks)) {
      return expertRanks(file, index, said, count, world);
    }
    for (let rank = 0; rank < ranks; rank++) {
      const named = globalShapes(file, experts, shapes, rank, ranks);
      if (!Array.isArray(named)) return named;
      const own = optims.filter((_, r) => order(r, count, world) === rank);
      flat.push({ index, shapes: named, ownShapes: shapes, optims: own });
    }
  }
  return flat;
}

/**
 * Without ZeRO every expert-parallel rank has saved an optimizer of its own, with the masters of its experts and of all
 * that is no expert.
 */
export async function addExpertMasters(
  draft: Draft,
  model: ModelStates,
  { expertOptims, experts }: Pick<Part, 'expertOptims' | 'experts'>,
  signal?: AbortSignal,
): Promise<void> {
  const ranks = expertOptims.length;
  for (const [rank, shard] of expertOptims.entries()) {
    const root: Field = { file: shard.path, path: '', value: shard.file.value };
    const state = fieldOf(root, 'optimizer');
    // With ZeRO older versions wrote these files too, without anything in them.
    if (!isPresent(state)) continue;
    if (shard.name.ep !== rank) {
      draft.problems.push(missingExpertOptim(shard.path, rank));
      return;
    }
    const module = new Map([...model.module].filter(([name]) => isOnRank(experts, name, rank, ranks)));
    const own: Draft = { ...draft, tensors: new Map() };
    await addZero0(own, { ...model, module }, { shard, state }, signal);
    addPart(draft, own, (name) => !isExpert(name), shard.path);
  }
}

/** Ranks that experts are shared out over, in the group where they are most; 1 without experts. */
export function expertParallelSize(optims: readonly OptimStates[]): number {
  const world = worldSizeOf(optims);
  const fewest = (optims[0]?.partitionCounts ?? []).reduce((least, count) => Math.min(least, count), world);
  return world === 0 ? 1 : world / fewest;
}

/** The number in the name that DeepSpeed gives to a group of expert parameters. */
function namedSize([first]: readonly OptimStates[], group: number): number | undefined {
  const entry = dig(first?.state, 'base_optimizer_state', 'param_groups', group);
  const name = dig(entry, 'moe') === true ? dig(entry, 'name') : undefined;
  const size = typeof name === 'string' ? /^ep_size_(\d{1,6})$/.exec(name)?.[1] : undefined;
  return size === undefined ? undefined : Number(size);
}

/** What speaks against the order that `groups` were made with: slices that do not fit, or bits that are another expert's. */
async function firstOdd(
  draft: Draft,
  model: ModelStates,
  groups: readonly FlatGroup[],
  signal: AbortSignal | undefined,
): Promise<ErrorDetail | undefined> {
  const params: { param: FlatParam; group: number }[] = [];
  for (const group of groups) {
    const cut = await flatParams(draft, group, signal);
    if (!Array.isArray(cut)) return cut;
    params.push(...cut.filter(({ shape }) => numelOf(shape) > 0).map((param) => ({ param, group: group.index })));
  }
  const step = Math.max(1, params.length / PROBED_TENSORS);
  for (let at = 0; at < params.length; at += step) {
    const { param, group } = params[Math.floor(at)] ?? {};
    const copy = param && model.module.get(param.name);
    if (!param || !copy || copy.numel !== numelOf(param.shape)) continue;
    const matches = await bitsMatch(draft, param.stored, bitsOf(draft, copy), copy.numel, signal);
    if (!matches) return expertOrder(model.shard.path, group ?? 0, param.name);
  }
  return undefined;
}
