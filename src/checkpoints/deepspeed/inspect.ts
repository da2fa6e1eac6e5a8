/**
 * Reads one DeepSpeed tag folder: sorts the files, checks that the set is whole, and lets the layouts add the tensors.
 *
 * @module
 */

import { bytesOf, isFloat } from '../../base/dtype.js';
import { isUnshardError } from '../../base/errors.js';
import { counted, firstOf } from '../../base/words.js';
import { classifyGlobal } from '../../formats/pickle/globals.js';
import type { TorchFile } from '../../formats/torch/read.js';
import type { FileTree } from '../../io/types.js';
import type { CheckpointFacts, Inventory, Notice, SkippedTensor, TagChoice, TensorEntry } from '../inventory.js';
import type { FirstFacts, InspectOptions } from '../options.js';
import { checkNames, checkReports } from './checks.js';
import { type Column, readColumn } from './column.js';
import { type Draft, locate, newDraft, recordedCrcs } from './draft.js';
import { areDealt } from './experts.js';
import { parseShardName, type ShardName } from './files.js';
import { firstFacts } from './first-facts.js';
import { compareParts, type Grid, gridOf } from './grid.js';
import { leaveOut, readUnlessLost } from './lost-ranks.js';
import { checkAliases } from './module.js';
import { expertParallelSize } from './moe.js';
import { isKind, openShards } from './open.js';
import { expertsDealt } from './parallel-problems.js';
import type { LayerShard } from './pipeline.js';
import { filesUnused, rankTwice } from './problems.js';
import { completeRankSet, type Part, type RankSet, rankSetsOf } from './rank-set.js';
import { settleLost } from './settle.js';
import {
  distinctModels,
  type ModelStates,
  modelStates,
  type OptimShard,
  type OptimStates,
  optimStates,
} from './states.js';
import { withSwapFiles } from './swap-files.js';
import { joinColumns } from './tensor-parallel.js';
import { findUniversal, ranksAreJoined, readUniversal, takeMasters } from './universal.js';

/** The part of the inventory that one tag folder decides. */
export type DeepspeedInventory = Omit<Inventory, 'folder' | 'tag' | 'tags' | 'companions'>;

/**
 * Inspects one tag folder. Where a partial recovery is asked for, files of single ranks may be missing or damaged: what
 * lies in others is read.
 */
export async function inspectDeepspeed(
  tree: FileTree,
  tag: TagChoice,
  options: InspectOptions,
): Promise<DeepspeedInventory> {
  const { signal } = options;
  const folder = tag.path || tag.tag;
  const entries = await tree.list(tag.path);
  const present = entries.flatMap(({ kind, name }) => (kind === 'file' ? [name] : []));
  const names = present.flatMap((name) => parseShardName(name) ?? []);
  const others = present.filter((name) => parseShardName(name) === undefined);
  const params = await findUniversal(tree, tag.path, entries, names);
  const has = (wanted: ShardName['kind']) => names.some(({ kind }) => kind === wanted);
  const draft = newDraft(options.partial);
  const opened = { models: [] as ModelStates[], optims: [] as OptimStates[] };
  let facts: FirstFacts | undefined;
  const { sources, shards, pool, failures } = await openShards(tree, tag.path, names, {
    signal,
    partial: options.partial ?? false,
    async visit(shard) {
      const { models, optims } = opened;
      if (isKind(shard, 'model')) models.push(...readUnlessLost(draft, shard, modelStates));
      if (isKind(shard, 'optim')) optims.push(...(await optimWithPlaces(draft, shard, signal)));
      const isTold = (models.length > 0 || !has('model')) && (optims.length > 0 || !has('optim'));
      if (isTold) facts ??= firstFacts(models[0], optims[0]);
    },
    onProgress: (step) => options.onProgress?.({ ...step, ...(facts ? { facts } : {}) }),
  });
  try {
    for (const failure of failures) leaveOut(draft, failure);
    const twin = caseTwin(present);
    if (twin) draft.problems.push(rankTwice(folder, ...twin));
    const models = inOrder(opened.models);
    const optims = inOrder(opened.optims);
    const sets = rankSetsOf({
      models,
      optims: await withSwapFiles(tree, tag.path, entries, optims, sources),
      experts: shards.flatMap((shard) => (isKind(shard, 'expert') ? [shard] : [])),
      expertOptims: shards.flatMap((shard) => (isKind(shard, 'expert-optim') ? [shard] : [])),
    });
    const layers = shards.flatMap((shard) => (isKind(shard, 'layer') ? [shard] : []));
    const usesLayers = models.length === 0 || models.some(({ isPipeline }) => isPipeline);
    if (layers.length > 0 && !usesLayers) {
      draft.warnings.push(
        filesUnused(folder, layers, 'layers of a pipeline', 'the model files hold the weights themselves'),
      );
    }
    if (params && options.tpRank !== undefined) throw ranksAreJoined(folder);
    const grid = gridOf(draft, folder, sets, layers, options.tpRank);
    const dealt = stagesOf(grid).find(areDealt);
    if (dealt) draft.problems.push(expertsDealt(folder, dealt.flatMap(({ experts }) => experts).length, grid.tensor));
    const universal = params && (await readUniversal(draft, tree, tag.path, params, sources, options));
    const mastersIn = universal ? 'universal' : 'optimizer-files';
    const shared = new Map(models.flatMap((model) => [...model.shared]));
    const parts = await mapParts(grid, (set, own) =>
      completeRankSet(draft, folder, set, usesLayers ? own : [], mastersIn, signal),
    );
    compareParts(draft, folder, parts.flat());
    const columns: Column[] = [];
    for (const [i, { layers: own }] of grid.columns.entries()) {
      columns.push(await readColumn(draft, folder, { parts: parts[i] ?? [], layers: own, mastersIn, shared }, signal));
    }
    joinColumns(draft, folder, columns, universal?.params, options);
    if (universal && draft.problems.length === 0) takeMasters(draft, folder, universal, models);
    finish(draft, columns, parts.flat());
    const checks = checkReports(draft, parts.flat(), others);
    settleLost(draft);
    const files = [...shards.map((shard) => shard.file), ...(universal?.files ?? [])];
    const tensors = inModuleOrder(draft, columns[0]?.model);
    return {
      layout: universal ? 'deepspeed-universal' : `deepspeed-zero${parts[0]?.[0]?.stage ?? 0}`,
      sources,
      partitions: draft.partitions,
      crcs: recordedCrcs(draft),
      tensors,
      aliases: Object.fromEntries(draft.aliases),
      skipped: distinct(draft.skipped),
      warnings: distinct([
        ...draft.warnings,
        ...precisionNotices(tensors),
        ...checksumNotices(files),
        ...files.flatMap((file) => file.warnings),
      ]),
      problems: [...draft.problems, ...draft.faults],
      checks,
      facts: { ...factsOf(files, parts.flat(), grid), ...dtypesOf(tensors, columns[0]?.model) },
    };
  } finally {
    await pool.close();
  }
}

/** The sets of each pipeline stage: what all tensor-parallel ranks hold of the same layers. */
function stagesOf({ pipeline, columns }: Grid): RankSet[][] {
  return Array.from({ length: pipeline }, (_, stage) => columns.flatMap(({ sets }) => sets[stage] ?? []));
}

/** Two names that differ in case alone, one of them of a shard: a disk may hold only one, so that nothing tells which. */
function caseTwin(names: readonly string[]): readonly [string, string] | undefined {
  const seen = new Map<string, string>();
  for (const name of names) {
    const lower = name.toLowerCase();
    const other = seen.get(lower);
    if (other !== undefined && (parseShardName(name) ?? parseShardName(other))) return [other, name];
    seen.set(lower, name);
  }
  return undefined;
}

/** Reads an optimizer file, and finds its masters while the ends of the file are at hand. */
async function optimWithPlaces(
  draft: Draft,
  shard: OptimShard,
  signal: AbortSignal | undefined,
): Promise<OptimStates[]> {
  const states = readUnlessLost(draft, shard, optimStates);
  try {
    await locate(draft, [{ shard, tensors: states.flatMap(({ flatGroups }) => flatGroups) }], signal);
  } catch (error) {
    // They may not be needed. Where they are, they are looked for again, and what is wrong is told.
    if (!isUnshardError(error, 'bad-file', 'unsupported')) throw error;
    if (draft.partial) return leaveOut(draft, error);
  }
  return states;
}

/** Files are opened in any order. */
function inOrder<States extends ModelStates | OptimStates>(states: readonly States[]): States[] {
  return states.toSorted((a, b) => a.shard.source - b.shard.source);
}

/** The stages of each column. Layer files are of all stages; they are checked with the first. */
async function mapParts(
  grid: Grid,
  complete: (set: RankSet, layers: readonly LayerShard[]) => Promise<Part>,
): Promise<Part[][]> {
  const columns: Part[][] = [];
  for (const { sets, layers } of grid.columns) {
    const parts: Part[] = [];
    for (const [stage, set] of sets.entries()) parts.push(await complete(set, stage === 0 ? layers : []));
    columns.push(parts);
  }
  return columns;
}

/** Checks the names of the whole, once its tensors are put together. */
function finish(draft: Draft, columns: readonly Column[], parts: readonly Part[]): void {
  const file = columns[0]?.model?.shard.path ?? '';
  if (draft.problems.length === 0) checkAliases(draft, file);
  const models = distinctModels(parts.flatMap((part) => part.models));
  if (draft.problems.length === 0) checkNames(draft, models);
}

/** Tensors in the order of the state dict, which is how `save_pretrained` orders them; others after it. */
function inModuleOrder(draft: Draft, model: ModelStates | undefined): TensorEntry[] {
  const position = new Map([...(model?.module.keys() ?? [])].map((name, i) => [name, i]));
  const at = (name: string) => position.get(name) ?? Number.MAX_SAFE_INTEGER;
  return [...draft.tensors.values()].toSorted((a, b) => at(a.name) - at(b.name));
}

/** What several ranks say alike is told once. */
function distinct<T extends Notice | SkippedTensor>(items: readonly T[]): T[] {
  return [...new Map(items.map((item) => [JSON.stringify(item), item])).values()];
}

function factsOf(
  files: readonly TorchFile[],
  parts: readonly Part[],
  { tensor, pipeline }: Grid,
): Omit<CheckpointFacts, 'elements'> & { elements: number } {
  const globals = new Set(
    files
      .flatMap((file) => [...file.globals.values()])
      .flatMap((global) => (classifyGlobal(global) === 'dangerous' ? [global.path] : [])),
  );
  const { models = [], optims = [], expertOptims = [] } = parts[0] ?? {};
  const version = models[0]?.deepspeedVersion ?? optims[0]?.deepspeedVersion;
  const steps = models[0]?.globalSteps;
  const experts = Math.max(expertParallelSize(optims), expertOptims.length);
  return {
    ranks: optims.length || models[0]?.dpWorldSize || 1,
    elements: 0,
    uninterpretedObjects: files.reduce((sum, file) => sum + file.uninterpreted, 0),
    dangerousGlobals: [...globals].sort(),
    ...(tensor > 1 ? { tensorParallel: tensor } : {}),
    ...(pipeline > 1 ? { pipelineStages: pipeline } : {}),
    ...(experts > 1 ? { expertParallel: experts } : {}),
    ...(version === undefined ? {} : { deepspeedVersion: version }),
    ...(steps === undefined ? {} : { globalSteps: steps }),
  };
}

/** A run in 16 bits alone has no masters in fp32, whatever is asked for. */
function precisionNotices(tensors: readonly TensorEntry[]): Notice[] {
  const low = tensors.filter(({ origin, stored }) => origin === 'master' && bytesOf(stored.dtype) < bytesOf('F32'));
  const [first] = low;
  if (!first) return [];
  const message = `The masters of ${counted(low.length, 'parameter')} are ${first.stored.dtype} (${firstOf(low)}): the optimizer kept none in fp32.`;
  return [{ code: 'low-precision-masters', message }];
}

/** Bytes that changed in such a file look like any others. */
function checksumNotices(files: readonly TorchFile[]): Notice[] {
  const bare = files.filter(({ container }) => container === 'legacy');
  const [first] = bare;
  if (!first) return [];
  const message = `In the format that torch had before 1.6, without checksums: ${bare.length} of ${counted(files.length, 'file')} (${firstOf(bare.map(({ source }) => source))}). Damage inside their tensors shows only where masters are compared with copies.`;
  return [{ code: 'legacy-no-crcs', message }];
}

function dtypesOf(
  entries: readonly TensorEntry[],
  states: ModelStates | undefined,
): Pick<CheckpointFacts, 'modelDtype' | 'masterDtype'> {
  const first = entries.find((entry) => entry.origin === 'master');
  const master = first?.stored.dtype;
  // At stage 3 the state dict has no values, but its placeholders have a dtype.
  const placeholder = first && states?.module.get(first.name)?.dtype;
  const model =
    entries.find((entry) => entry.copy !== undefined)?.copy?.dtype ??
    placeholder ??
    entries.find((entry) => entry.origin !== 'buffer' && entry.origin !== 'master' && isFloat(entry.stored.dtype))
      ?.stored.dtype;
  return { ...(model ? { modelDtype: model } : {}), ...(master ? { masterDtype: master } : {}) };
}
