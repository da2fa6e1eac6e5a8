/**
 * Whether the shards of all ranks are there and belong together.
 *
 * @module
 */

import { counted } from '../../base/words.js';
import type { Draft } from './draft.js';
import { disagree, missingFrozenShares, missingRanks, rankTwice, severalSets, staleRanks } from './problems.js';
import type { ModelStates, OptimStates } from './states.js';

/**
 * The optimizer files of ranks 0 to W - 1, in order; W is the partition count that they state. In a partial recovery some may
 * be missing. Of two sets with different
 * prefixes the whole one is taken. Problems go into the draft.
 */
export function completeOptims(draft: Draft, folder: string, optims: readonly OptimStates[]): OptimStates[] {
  const prefixes = new Set(optims.map((optim) => optim.shard.name.prefix));
  const sets = [...prefixes].map((prefix) => optims.filter((optim) => optim.shard.name.prefix === prefix));
  const whole = sets.filter((set) => missingOf(set, worldSizeOf(set)).length === 0);
  const [chosen = [], ...others] = whole.length > 0 ? whole : sets;
  if (whole.length > 1) draft.problems.push(severalSets(folder, whole));
  else if (others.length > 0 || whole.length < sets.length) warnOtherSets(draft, folder, chosen, sets);
  const ranks = chosen.toSorted((a, b) => a.shard.name.dp - b.shard.name.dp);
  const first = ranks[0];
  if (!first) return [];
  const world = worldSizeOf(ranks);
  const missing = draft.partial && sets.length === 1 ? [] : missingOf(ranks, world);
  const stale = ranks.filter((optim) => optim.shard.name.dp >= world).map((optim) => optim.shard.name.name);
  if (missing.length > 0)
    draft.problems.push(missingRanks(folder, 'optim', missing, world, ranks.length - stale.length));
  else if (stale.length > 0) draft.problems.push(staleRanks(folder, stale, world, ranks.length));
  refuseTwins(draft, folder, ranks);
  for (const other of ranks.slice(1)) {
    compare(draft, 'zero_stage', first, other, (optim) => optim.stage);
    compare(draft, 'partition_count', first, other, (optim) => optim.partitionCounts.join());
    compare(draft, 'ds_version', first, other, (optim) => optim.deepspeedVersion ?? 'nothing');
  }
  return ranks;
}

/**
 * The model files that are needed, in order of rank: one at stage 0 to 2, all at stage 3 where they hold shares of frozen
 * parameters, the lowest rank's otherwise.
 */
export function completeModels(
  draft: Draft,
  folder: string,
  models: readonly ModelStates[],
  stage: number,
  world: number,
): ModelStates[] {
  const sorted = models.toSorted((a, b) => (a.shard.name.dp ?? 0) - (b.shard.name.dp ?? 0));
  const ranks = sorted.filter(({ shard: { name } }) =>
    stage === 3 ? name.dp !== undefined && (world === 0 || name.dp < world) : name.dp === undefined,
  );
  const first = ranks[0];
  if (!first) {
    draft.problems.push(missingRanks(folder, 'model', [0], 1, 0));
    return [];
  }
  warnOtherModels(draft, folder, first, sorted.length - ranks.length);
  refuseTwins(draft, folder, ranks);
  for (const other of ranks.slice(1)) {
    compare(draft, 'ds_version', first, other, (model) => model.deepspeedVersion ?? 'nothing');
    compare(draft, 'global_steps', first, other, (model) => model.globalSteps ?? 'nothing');
    compare(draft, 'frozen_param_shapes', first, other, (model) => counted(model.frozenShapes.length, 'parameter'));
  }
  if (stage < 3) {
    if (world > 0 && first.dpWorldSize !== undefined && first.dpWorldSize !== world) {
      draft.problems.push(
        disagree('the number of ranks', folder, `partition_count ${world}`, first.shard.path, first.dpWorldSize),
      );
    }
    return [first];
  }
  if (world === 0) {
    const expected = first.dpWorldSize ?? ranks.length;
    draft.problems.push(missingRanks(folder, 'optim', [...Array(expected).keys()], expected, 0));
  }
  const missing = [...Array(world).keys()].filter((rank) => !ranks.some((model) => model.shard.name.dp === rank));
  if (missing.length > 0 && first.frozenShapes.length > 0) {
    draft.faults.push(missingFrozenShares(folder, missing, world, ranks.length));
  }
  if (missing.includes(0)) {
    const message = `The model file of rank 0 is not in ${folder}. Only it lists tied parameters, so tied names may be missing from the output.`;
    draft.warnings.push({ code: 'rank-0-model-missing', message });
  } else if (missing.length > 0 && first.frozenShapes.length === 0) {
    const message = `${missing.length} of ${world} model files are not in ${folder}. They are not needed: no parameter is frozen.`;
    draft.warnings.push({ code: 'model-files-missing', message });
  }
  return ranks;
}

/**
 * The number of ranks that optimizer files say they are cut over, whether all are there or not; 0 without any file. The
 * first versions do not say: then it is the number that the names of the files tell.
 */
export function worldSizeOf(optims: readonly OptimStates[]): number {
  const counts = optims[0]?.partitionCounts ?? [];
  if (counts.length === 0) return optims.reduce((most, { shard }) => Math.max(most, shard.name.dp + 1), 0);
  return counts.reduce((most, count) => Math.max(most, count), 1);
}

function missingOf(optims: readonly OptimStates[], world: number): number[] {
  const present = new Set(optims.map((optim) => optim.shard.name.dp));
  return [...Array(world).keys()].filter((rank) => !present.has(rank));
}

/** Two files of one rank, as `rank_0` and `rank_00`: one of them is not of this run. */
function refuseTwins(draft: Draft, folder: string, ranks: readonly (ModelStates | OptimStates)[]): void {
  for (const [i, { shard }] of ranks.entries()) {
    const before = ranks[i - 1]?.shard.name;
    if (before && before.dp === shard.name.dp) draft.problems.push(rankTwice(folder, before.name, shard.name.name));
  }
}

function compare<States extends ModelStates | OptimStates>(
  draft: Draft,
  what: string,
  first: States,
  other: States,
  value: (states: States) => string | number,
): void {
  if (value(first) !== value(other)) {
    draft.problems.push(disagree(what, first.shard.path, value(first), other.shard.path, value(other)));
  }
}

function warnOtherModels(draft: Draft, folder: string, used: ModelStates, others: number): void {
  if (others === 0) return;
  const message = `${folder} holds ${others} model files that do not belong to ${used.shard.name.name} and its siblings. They are not used.`;
  draft.warnings.push({ code: 'other-model-files', message });
}

function warnOtherSets(
  draft: Draft,
  folder: string,
  chosen: readonly OptimStates[],
  sets: readonly OptimStates[][],
): void {
  const others = sets.filter((set) => set !== chosen).flat();
  if (others.length === 0) return;
  const message = `${folder} holds optimizer files of two runs. ${chosen[0]?.shard.name.name} and its siblings are used; ${others.length} others (${others[0]?.shard.name.name}, …) are not.`;
  draft.warnings.push({ code: 'other-optim-set', message });
}
