/**
 * The files of one model-parallel rank: whether they are all there and belong together. All its data-parallel ranks make up
 * one model, or one part of a model that is cut by tensor or pipeline parallelism.
 *
 * @module
 */

import { checkFiles } from './checks.js';
import type { Draft } from './draft.js';
import { type ExpertShard, type Experts, readExperts, withExperts } from './experts.js';
import type { ExpertOptimName } from './files.js';
import { withLostModels, withLostOptims } from './lost-ranks.js';
import { expertsAtStage3 } from './parallel-problems.js';
import { filesUnused } from './problems.js';
import { completeModels, completeOptims, worldSizeOf } from './ranks.js';
import type { ModelStates, OptimStates, Shard } from './states.js';

/** The files of one model-parallel rank. */
export interface RankSet {
  readonly mp: number;
  readonly models: readonly ModelStates[];
  readonly optims: readonly OptimStates[];
  readonly experts: readonly ExpertShard[];
  readonly expertOptims: readonly Shard<ExpertOptimName>[];
}

/** What the files of one model-parallel rank say. */
export interface Part {
  readonly mp: number;
  readonly stage: 0 | 1 | 2 | 3;
  /** The model files that were used, the lowest rank first. */
  readonly models: readonly ModelStates[];
  /** The first model file, with the experts in its state dict. Undefined where there is none. */
  readonly model: ModelStates | undefined;
  /** The optimizer files of all data-parallel ranks, in order. In a partial recovery some are stand-ins. */
  readonly optims: readonly OptimStates[];
  readonly experts: Experts;
  readonly expertOptims: readonly Shard<ExpertOptimName>[];
}

/** Where masters lie: in the optimizer files, or in a universal checkpoint, which has no optimizer files. */
export type MastersIn = 'optimizer-files' | 'universal';

/** Sorts files by model-parallel rank. */
export function rankSetsOf(files: Omit<RankSet, 'mp'>): RankSet[] {
  const shards = [...files.models, ...files.optims].map(({ shard }) => shard);
  const ranks = new Set([...shards, ...files.experts, ...files.expertOptims].map(({ name }) => name.mp));
  return [...ranks]
    .sort((a, b) => a - b)
    .map((mp) => ({
      mp,
      models: files.models.filter(({ shard }) => shard.name.mp === mp),
      optims: files.optims.filter(({ shard }) => shard.name.mp === mp),
      experts: files.experts.filter(({ name }) => name.mp === mp),
      expertOptims: files.expertOptims.filter(({ name }) => name.mp === mp).toSorted((a, b) => a.name.ep - b.name.ep),
    }));
}

/**
 * Checks the files of one model-parallel rank, and those of `layers` with them. What is wrong with them goes into the
 * problems of the draft.
 */
export async function completeRankSet(
  draft: Draft,
  folder: string,
  set: RankSet,
  layers: readonly Shard[],
  mastersIn: MastersIn,
  signal: AbortSignal | undefined,
): Promise<Part> {
  const { mp, expertOptims } = set;
  const saved = completeOptims(draft, folder, set.optims);
  const stage = saved[0]?.stage ?? stageWithoutOptimizer(set.models);
  const world = worldSize(draft, set, saved, stage, mastersIn);
  const there = completeModels(draft, folder, set.models, stage, world);
  const [first] = there;
  const models = stage === 3 ? withLostModels(draft, folder, there, world) : there;
  const facts = { folder, mp, stage, world };
  const optims = draft.partial && mastersIn === 'optimizer-files' ? withLostOptims(draft, facts, first, saved) : saved;
  // A universal checkpoint has put the experts together and does without their files.
  const others = mastersIn === 'universal' ? layers : [...layers, ...set.experts, ...expertOptims];
  await checkFiles(draft, { stage, models, optims }, others, first?.paramShapes ?? saved[0]?.paramShapes ?? [], signal);
  const none: Experts = { tensors: new Map(), counts: new Map(), fused: [], extraState: [] };
  if (!first || mastersIn === 'universal')
    return { mp, stage, models, model: first, optims, experts: none, expertOptims };
  if (stage === 3 && set.experts[0]) throw expertsAtStage3(set.experts[0].path);
  const experts = await readExperts(draft, folder, first, set.experts, signal);
  const hasExperts = experts.tensors.size > 0;
  if (expertOptims.length > 0 && !hasExperts) {
    draft.warnings.push(filesUnused(folder, expertOptims, 'optimizers of experts', 'there are no experts'));
  }
  const model = withExperts(first, experts);
  return { mp, stage, models, model, optims, experts, expertOptims: hasExperts ? expertOptims : [] };
}

/** The number of data-parallel ranks. Where no optimizer file tells it, the model files do: that is enough for a part. */
function worldSize(
  { partial }: Draft,
  { models: [model], models }: RankSet,
  optims: readonly OptimStates[],
  stage: number,
  mastersIn: MastersIn,
): number {
  if (mastersIn === 'universal') return model?.dpWorldSize ?? models.length;
  return optims.length === 0 && partial && stage === 3 ? (model?.dpWorldSize ?? 0) : worldSizeOf(optims);
}

/** The stage of a run that left no optimizer files: hollow model files can only be stage 3. */
function stageWithoutOptimizer(models: readonly ModelStates[]): 0 | 1 | 2 | 3 {
  const model = models[0];
  if (model?.shard.name.dp !== undefined) return 3;
  return model?.configuredStage === 1 || model?.configuredStage === 2 ? model.configuredStage : 0;
}
