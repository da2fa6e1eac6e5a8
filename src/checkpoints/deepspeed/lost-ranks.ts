/**
 * Stand-ins for the files of ranks that are lost: of the sizes that the files had, and without any bytes. They hold the
 * places of the lost slices, so that all others come to lie where they belong.
 *
 * @module
 */

import type { DType } from '../../base/dtype.js';
import { isUnshardError, type UnshardError } from '../../base/errors.js';
import { numelOf } from '../../base/shape.js';
import type { TorchFile } from '../../formats/torch/read.js';
import { TorchStorage, TorchTensor } from '../../formats/torch/tensor.js';
import { memorySource } from '../../io/memory.js';
import type { Draft } from './draft.js';
import { isOfOneRank, joinPath, type ShardName } from './files.js';
import { sizesUnproven } from './lost-problems.js';
import { sharesOf, slicesOf } from './lost-slices.js';
import type { ModelStates, OptimStates, Shard } from './states.js';

/** Reads the states of a shard. In a partial recovery a file of one rank that cannot be read is left out, and that is told. */
export function readUnlessLost<S extends Shard, States>(draft: Draft, shard: S, read: (shard: S) => States): States[] {
  try {
    return [read(shard)];
  } catch (error) {
    if (!draft.partial || !isOfOneRank(shard.name) || !isUnshardError(error)) throw error;
    return leaveOut(draft, error);
  }
}

/** Tells why a file is left out. Gives what is read of it: nothing. */
export function leaveOut(draft: Draft, { detail }: UnshardError): [] {
  draft.warnings.push({ code: 'file-left-out', message: detail.message });
  return [];
}

/** What the optimizer files of a model-parallel rank are cut by. */
export interface RankFacts {
  readonly folder: string;
  readonly mp: number;
  readonly stage: 0 | 1 | 2 | 3;
  /** Number of data-parallel ranks. */
  readonly world: number;
}

/**
 * The optimizer files of all ranks, in order: those that are there, and stand-ins. Where nothing proves how large a lost
 * slice was, that is a problem of the draft.
 */
export function withLostOptims(
  draft: Draft,
  facts: RankFacts,
  model: ModelStates | undefined,
  optims: readonly OptimStates[],
): readonly OptimStates[] {
  const { folder, stage, world } = facts;
  const missing = missingRanks(optims, world);
  const [first] = optims;
  if (missing.length === 0 || stage === 0 || (stage < 3 && !first)) return optims;
  const groups = model?.paramShapes ?? first?.paramShapes;
  const cuts = stage === 3 ? sharesOf(first, groups, world) : slicesOf(optims, groups, world);
  if (!cuts) {
    draft.problems.push(sizesUnproven(folder, missing));
    return optims;
  }
  const standIns = missing.map((rank): OptimStates => {
    const shard = lostShard(draft, folder, optimName(facts, first, rank));
    const slices = cuts.map((ranks) => ranks[rank] ?? { numel: 0, padding: 0 });
    const flatGroups = slices.map(({ numel }, g) =>
      lostTensor(draft, shard, first?.flatGroups[g]?.dtype ?? 'F32', numel),
    );
    const paddings = slices.map(({ padding }) => padding);
    return {
      shard,
      stage,
      flatGroups,
      subPartitions: undefined,
      partitionCounts: first?.partitionCounts ?? [world],
      keptPadding: first?.keptPadding && paddings,
      strippedPadding: first?.strippedPadding && paddings,
      paramShapes: first?.paramShapes,
      listedShapes: first?.listedShapes,
      deepspeedVersion: first?.deepspeedVersion,
      state: undefined,
      config: first?.config,
    };
  });
  return [...optims, ...standIns].toSorted((a, b) => a.shard.name.dp - b.shard.name.dp);
}

/** The model files of all ranks at stage 3, in order, where they hold shares of frozen parameters. */
export function withLostModels(
  draft: Draft,
  folder: string,
  models: readonly ModelStates[],
  world: number,
): readonly ModelStates[] {
  const [first] = models;
  if (!first || first.frozenShapes.length === 0) return models;
  const standIns = missingRanks(models, world).map((rank): ModelStates => {
    const name = first.shard.name.name.replace(/^zero_pp_rank_\d+/, `zero_pp_rank_${rank}`);
    const shard = lostShard(draft, folder, { ...first.shard.name, name, dp: rank });
    const fragments = first.frozenShapes.map(([param, shape]): [string, TorchTensor] => {
      const dtype = first.frozenFragments.get(param)?.dtype ?? 'BF16';
      return [param, lostTensor(draft, shard, dtype, Math.ceil(numelOf(shape) / world))];
    });
    return { ...first, shard, frozenFragments: new Map(fragments) };
  });
  return [...models, ...standIns].toSorted((a, b) => (a.shard.name.dp ?? 0) - (b.shard.name.dp ?? 0));
}

function missingRanks(files: readonly (ModelStates | OptimStates)[], world: number): number[] {
  const present = new Set(files.map(({ shard }) => shard.name.dp));
  return [...Array(world).keys()].filter((rank) => !present.has(rank));
}

function optimName({ mp }: RankFacts, first: OptimStates | undefined, rank: number) {
  const beside = first?.shard.name;
  const prefix = beside?.prefix ?? 'zero_pp_rank_';
  const name = beside
    ? beside.name.replace(/pp_rank_\d+/, `pp_rank_${rank}`)
    : `${prefix}${rank}_mp_rank_${String(mp).padStart(2, '0')}_optim_states.pt`;
  return { kind: 'optim', name, mp, dp: rank, prefix } as const;
}

/** A shard that nothing can be read of. */
function lostShard<Name extends ShardName>(draft: Draft, folder: string, name: Name): Shard<Name> {
  const path = joinPath(folder, name.name);
  const source = -draft.lost.push(path);
  return { name, path, source, file: nothingOf(path), isLost: true };
}

function nothingOf(path: string): TorchFile {
  const source = memorySource(path, new Uint8Array());
  return {
    container: 'legacy',
    source,
    value: null,
    globals: new Map(),
    uninterpreted: 0,
    warnings: [],
    places: new Map(),
  };
}

/** A flat tensor of a lost file. */
function lostTensor(draft: Draft, { source, path }: Shard, dtype: DType, numel: number): TorchTensor {
  const storage = new TorchStorage('lost', 0, dtype, path);
  draft.places.set(storage, { source, record: { offset: 0, length: 0 } });
  return new TorchTensor(dtype, [numel], [1], 0, storage, undefined);
}
