/**
 * Which model-parallel rank is which: DeepSpeed numbers them through, all tensor-parallel ranks of a pipeline stage after
 * another.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';
import type { Draft } from './draft.js';
import { missingMpRanks, oddGrid, staleMpRanks } from './parallel-problems.js';
import { isTied, type LayerShard } from './pipeline.js';
import { disagree } from './problems.js';
import type { Part, RankSet } from './rank-set.js';
import type { ModelStates } from './states.js';

/** More model-parallel ranks than any run has had. A damaged count must not make a list of its size. */
const MAX_RANKS = 2 ** 14;

/** The model-parallel ranks of a checkpoint. */
export interface Grid {
  readonly tensor: number;
  readonly pipeline: number;
  /** One for each tensor-parallel rank, or the one that was asked for: its stages, in order, and its layer files. */
  readonly columns: readonly { readonly sets: readonly RankSet[]; readonly layers: readonly LayerShard[] }[];
}

/**
 * Sorts the ranks. Those that are missing go into the problems of the draft.
 *
 * @throws UnshardError `tp-rank-bad` for a rank that is none of the checkpoint's.
 */
export function gridOf(
  draft: Draft,
  folder: string,
  sets: readonly RankSet[],
  layers: readonly LayerShard[],
  alone: number | undefined,
): Grid {
  const [first, ...others] = sets.flatMap(({ models }) => models);
  for (const other of others) compareDegrees(draft, first, other);
  const ranks = rankCount(sets, first);
  const tensor = tensorDegree(sets, layers, first, ranks);
  const pipeline = ranks / tensor;
  if (!Number.isInteger(pipeline) || ranks > MAX_RANKS) {
    draft.problems.push(oddGrid(folder, ranks, tensor));
    return { tensor, pipeline: 1, columns: [] };
  }
  if (alone !== undefined && (!Number.isInteger(alone) || alone < 0 || alone >= tensor))
    throw noSuchRank(alone, tensor);
  const chosen = alone === undefined ? [...Array(tensor).keys()] : [alone];
  const byRank = new Map(sets.map((set) => [set.mp, set]));
  const wanted = chosen.flatMap((tp) => stagesOf(tp, tensor, pipeline));
  const missing = wanted.filter((mp) => !byRank.has(mp));
  if (missing.length > 0) draft.problems.push(missingMpRanks(folder, missing, ranks, ranks - missing.length));
  const stale = sets.map(({ mp }) => mp).filter((mp) => mp >= ranks);
  if (stale.length > 0) draft.problems.push(staleMpRanks(folder, stale, ranks));
  if (alone !== undefined && tensor > 1) {
    const message = `Only the shards of tensor-parallel rank ${alone} of ${tensor} are taken, as asked. They are a part of the model, not the whole.`;
    draft.warnings.push({ code: 'tp-rank-alone', message });
  }
  const columns = chosen.map((tp) => ({
    sets: stagesOf(tp, tensor, pipeline).flatMap((mp) => byRank.get(mp) ?? []),
    layers: layers.filter(({ name }) => name.tp === undefined || name.tp === tp),
  }));
  return { tensor, pipeline, columns };
}

/** Whether what the model-parallel ranks say of the run is the same. */
export function compareParts(draft: Draft, folder: string, parts: readonly Part[]): void {
  const [first, ...others] = parts;
  if (!first) return;
  const withOptims = parts.filter(({ optims }) => optims.length > 0);
  const without = parts.filter(({ optims }) => optims.length === 0).map(({ mp }) => mp);
  if (withOptims.length > 0 && without.length > 0) {
    draft.problems.push(missingMpRanks(folder, without, parts.length, withOptims.length, 'optimizer files'));
    return;
  }
  for (const other of others) {
    const compare = (what: string, value: (part: Part) => string | number | undefined) => {
      const [expected, found] = [value(first), value(other)];
      if (expected === found || expected === undefined || found === undefined) return;
      draft.problems.push(disagree(what, fileOf(first), expected, fileOf(other), found));
    };
    compare('zero_stage', ({ stage }) => stage);
    compare('ds_version', ({ model }) => model?.deepspeedVersion);
    compare('global_steps', ({ model }) => model?.globalSteps);
    compare('the number of ranks', ({ optims }) => optims.length);
  }
}

function fileOf({ models, optims }: Part): string {
  return (optims[0] ?? models[0])?.shard.path ?? '';
}

function stagesOf(tp: number, tensor: number, pipeline: number): number[] {
  return Array.from({ length: pipeline }, (_, stage) => stage * tensor + tp);
}

/** What the files say; else the highest rank that is there. */
function rankCount(sets: readonly RankSet[], model: ModelStates | undefined): number {
  const { degrees } = model?.parallel ?? {};
  const said = Math.max(model?.mpWorldSize ?? 0, degrees ? degrees.pipeline * degrees.tensor : 0);
  return said > 0 ? said : sets.reduce((most, { mp }) => Math.max(most, mp), 0) + 1;
}

/** Newer files say it. Else layer files bear the rank; else ranks of one stage share parameters, and those of others do not. */
function tensorDegree(
  sets: readonly RankSet[],
  layers: readonly LayerShard[],
  model: ModelStates | undefined,
  ranks: number,
): number {
  if (model?.parallel.degrees) return model.parallel.degrees.tensor;
  if (layers.length > 0) return layers.reduce((most, { name }) => Math.max(most, name.tp ?? 0), 0) + 1;
  const [names = new Set<string>(), ...others] = sets.map(({ models: [first] }) => namesOf(first));
  const other = others.findIndex((of) => ![...of].some((name) => names.has(name)));
  return other >= 0 ? other + 1 : ranks;
}

function namesOf(model: ModelStates | undefined): Set<string> {
  const listed = (model?.paramShapes ?? []).flat().map(([name]) => name);
  return new Set([...listed, ...(model?.module.keys() ?? [])].filter((name) => !isTied(name)));
}

function compareDegrees(draft: Draft, first: ModelStates | undefined, other: ModelStates): void {
  const [expected, found] = [first?.mpWorldSize, other.mpWorldSize];
  if (!first || expected === undefined || found === undefined || expected === found) return;
  draft.problems.push(disagree('mp_world_size', first.shard.path, expected, other.shard.path, found));
}

function noSuchRank(found: number, ranks: number): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'tp-rank-bad',
    message: `The checkpoint has tensor-parallel ranks 0 to ${ranks - 1}; rank ${found} is none of them.`,
    advice: 'Choose one of them, or leave the option out to join all.',
    facts: { expected: ranks, found },
  });
}
