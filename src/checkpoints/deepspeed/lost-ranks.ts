/**
 * Stand-ins for the files of ranks that are lost: of the sizes that the files had, and without any bytes. They hold the
 * places of the lost slices, so that all others come to lie where they belong.
 *
 * @module
 */

import type { DType } from '../../base/dtype.js';
import { isUnshardError } from '../../base/errors.js';
import { numelOf } from '../../base/shape.js';
import type { TorchFile } from '../../formats/torch/read.js';
import { TorchStorage, TorchTensor } from '../../formats/torch/tensor.js';
import { memorySource } from '../../io/memory.js';
import type { Draft } from './draft.js';
import { joinPath, type ShardName } from './files.js';
import { sizesUnproven } from './lost-problems.js';
import type { ModelStates, NamedShape, OptimStates, Shard } from './states.js';

/** True for a file that others can do without, in part: it holds the share of one rank. */
export function isOfOneRank(name: ShardName): boolean {
  return name.kind === 'optim' || (name.kind === 'model' && name.dp !== undefined);
}

/** Reads the states of a shard. In a partial recovery a file of one rank that cannot be read is left out, and that is told. */
export function readUnlessLost<S extends Shard, States>(draft: Draft, shard: S, read: (shard: S) => States): States[] {
  try {
    return [read(shard)];
  } catch (error) {
    if (!draft.partial || !isOfOneRank(shard.name) || !isUnshardError(error)) throw error;
    draft.warnings.push({ code: 'file-left-out', message: error.detail.message });
    return [];
  }
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
  const lengths = stage === 3 ? sharesOf(first, groups, world) : slicesOf(optims, groups, world);
  if (!lengths) {
    draft.problems.push(sizesUnproven(folder, missing));
    return optims;
  }
  const standIns = missing.map((rank): OptimStates => {
    const shard = lostShard(draft, folder, optimName(facts, first, rank));
    const numels = lengths.map((ranks) => ranks[rank] ?? 0);
    const flatGroups = numels.map((numel, g) => lostTensor(draft, shard, first?.flatGroups[g]?.dtype ?? 'F32', numel));
    return {
      shard,
      stage,
      flatGroups,
      subPartitions: undefined,
      partitionCounts: first?.partitionCounts ?? [world],
      keptPadding: first?.keptPadding && keptPadding(optims, groups ?? [], numels, rank, world),
      strippedPadding: undefined,
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

/** Elements of each flat group on each rank. */
type Lengths = readonly (readonly number[])[];

/** Stage 3: every rank has the same. */
function sharesOf(
  first: OptimStates | undefined,
  groups: readonly (readonly NamedShape[])[] | undefined,
  world: number,
): Lengths | undefined {
  const shares = groups?.map((shapes) => shapes.reduce((sum, [, shape]) => sum + Math.ceil(numelOf(shape) / world), 0));
  return (shares ?? first?.flatGroups.map(({ numel }) => numel))?.map((share) => Array<number>(world).fill(share));
}

/** Stage 1 and 2. Undefined where the lists of parameters and the slices that are there do not tell. */
function slicesOf(
  optims: readonly OptimStates[],
  groups: readonly (readonly NamedShape[])[] | undefined,
  world: number,
): Lengths | undefined {
  const [first] = optims;
  // Groups of experts are cut over fewer ranks, in an order that no lost rank can prove.
  const isPlain = first?.partitionCounts.length && first.partitionCounts.every((count) => count === world);
  if (!first || !groups || !isPlain || first.subPartitions) return undefined;
  const lengths = groups.map((shapes, g) => {
    const needed = shapes.reduce((sum, [, shape]) => sum + numelOf(shape), 0);
    const saved = optims.map(({ shard, flatGroups }) => ({ rank: shard.name.dp, numel: flatGroups[g]?.numel ?? 0 }));
    return sliceLengths(needed, world, saved, first.keptPadding !== undefined);
  });
  const proven = lengths.flatMap((ranks) => (ranks ? [ranks] : []));
  return proven.length === lengths.length ? proven : undefined;
}

/** A slice of a flat group that is there. */
interface SavedSlice {
  readonly rank: number;
  readonly numel: number;
}

/**
 * How many elements each rank has of a flat group of `needed` elements. It is padded to a multiple of the ranks, or of twice
 * that, so a whole slice has one of two lengths; which one it is, the slices that are there tell. Undefined where they do not.
 */
function sliceLengths(
  needed: number,
  world: number,
  saved: readonly SavedSlice[],
  keepsPadding: boolean,
): number[] | undefined {
  const restOf = (rank: number, length: number) => Math.min(Math.max(needed - rank * length, 0), length);
  const fits = ({ rank, numel }: SavedSlice, length: number) => {
    if (keepsPadding || numel === length) return numel === length;
    const rest = restOf(rank, length);
    // Some versions strip the padding from the last rank alone, or not all of it.
    return numel === rest || (rank === world - 1 && numel > rest && numel < length);
  };
  const aligned = [1, 2].map((unit) => unit * Math.ceil(needed / (unit * world)));
  const lengths = [...new Set(aligned)].filter((length) => saved.every((slice) => fits(slice, length)));
  const [length, other] = lengths;
  const filled = saved.filter(({ numel }) => numel > 0);
  // Where no other rank has anything, it does not matter which one it is.
  if (length === undefined || (other !== undefined && filled.length > 0)) return undefined;
  const last = filled.reduce((most, { rank }) => Math.max(most, rank), -1);
  return Array.from({ length: world }, (_, rank) => (keepsPadding || rank < last ? length : restOf(rank, length)));
}

/** Padding that a lost slice keeps: all of it is at the end of the last one. */
function keptPadding(
  optims: readonly OptimStates[],
  groups: readonly (readonly NamedShape[])[],
  numels: readonly number[],
  rank: number,
  world: number,
): number[] {
  return groups.map((shapes, g) => {
    if (rank < world - 1) return 0;
    const needed = shapes.reduce((sum, [, shape]) => sum + numelOf(shape), 0);
    const others = optims.reduce((sum, optim) => sum + (optim.keptPadding?.[g] ?? 0), 0);
    return world * (numels[g] ?? 0) - needed - others;
  });
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
