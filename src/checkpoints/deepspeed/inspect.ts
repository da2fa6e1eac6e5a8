/**
 * Reads one DeepSpeed tag folder: sorts the files, checks that the set is whole, and lets the stage's layout add the
 * tensors.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { isFloat } from '../../base/dtype.js';
import { UnshardError } from '../../base/errors.js';
import { classifyGlobal } from '../../formats/pickle/globals.js';
import { readTorchFile } from '../../formats/torch/read.js';
import type { FileTree } from '../../io/types.js';
import type { CheckpointFacts, Inventory, Layout, SourceFile, TagChoice } from '../inventory.js';
import type { InspectOptions } from '../options.js';
import { type Draft, newDraft, recordedCrcs } from './draft.js';
import { joinPath, parseShardName, type ShardName } from './files.js';
import { addAliases, addBuffers, addFrozenFragments, addRest, checkAliases, locateModule } from './module.js';
import { completeModels, completeOptims } from './ranks.js';
import { type ModelStates, modelStates, type OptimStates, optimStates, type Shard } from './states.js';
import { addZero0 } from './zero0.js';
import { addFrozenZero3, addZero3 } from './zero3.js';
import { addZero12 } from './zero12.js';

/** Shards opened at once: more does not help a disk or a browser. */
const OPEN_LANES = 8;

/** The part of the inventory that one tag folder decides. */
export type DeepspeedInventory = Omit<Inventory, 'folder' | 'tag' | 'tags' | 'companions'>;

/** Inspects one tag folder. */
export async function inspectDeepspeed(
  tree: FileTree,
  tag: TagChoice,
  options: InspectOptions,
): Promise<DeepspeedInventory> {
  const folder = tag.path || tag.tag;
  const names = (await tree.list(tag.path)).flatMap((entry) => {
    const name = entry.kind === 'file' ? parseShardName(entry.name) : undefined;
    return name ? [name] : [];
  });
  refuseOtherLayouts(folder, names);
  const { sources, shards } = await openShards(tree, tag.path, names, options);
  try {
    const models = shards.flatMap((shard) => (isKind(shard, 'model') ? [modelStates(shard)] : []));
    const optims = shards.flatMap((shard) => (isKind(shard, 'optim') ? [optimStates(shard)] : []));
    const draft = newDraft();
    const facts = factsOf(shards, models, optims);
    const stage = await addTensors(draft, folder, models, optims, options.signal);
    return {
      layout: `deepspeed-zero${stage}` satisfies Layout,
      sources,
      partitions: draft.partitions,
      crcs: recordedCrcs(draft),
      tensors: inModuleOrder(draft, models[0]),
      aliases: Object.fromEntries(draft.aliases),
      skipped: draft.skipped,
      warnings: [...draft.warnings, ...shards.flatMap((shard) => shard.file.warnings)],
      problems: draft.problems,
      facts: { ...facts, ...dtypesOf(draft) },
    };
  } finally {
    await Promise.all(shards.map((shard) => shard.file.source.close()));
  }
}

async function addTensors(
  draft: Draft,
  folder: string,
  allModels: readonly ModelStates[],
  allOptims: readonly OptimStates[],
  signal: AbortSignal | undefined,
): Promise<0 | 1 | 2 | 3> {
  const optims = completeOptims(draft, folder, allOptims);
  const stage = optims[0]?.stage ?? stageWithoutOptimizer(allModels);
  const models = completeModels(draft, folder, allModels, stage, optims.length);
  const model = models[0];
  if (!model || draft.problems.length > 0) return stage;
  if (optims.length > 0 && model.paramShapes === undefined) throw shapesMissing(model);
  const owners = new Set([...(model.paramShapes ?? []).flat(), ...model.frozenShapes].map(([name]) => name));
  addAliases(draft, models, stage, owners);
  await locateModule(draft, model, stage, signal);
  addBuffers(draft, model);
  if (stage === 3) {
    await addZero3(draft, model, optims, signal);
    await addFrozenZero3(draft, models, signal);
  } else {
    if (stage === 0) await addZero0(draft, model, signal);
    else if (optims.length > 0) await addZero12(draft, model, optims, signal);
    else draft.warnings.push(noMasters(model, stage));
    addFrozenFragments(draft, model);
    if (draft.problems.length === 0) addRest(draft, model, stage === 0 || optims.length === 0 ? 'module' : 'frozen');
  }
  for (const name of model.extraState) draft.skipped.push({ name, reason: 'extra state of a module: not a tensor' });
  if (draft.problems.length === 0) checkAliases(draft, model.shard.path);
  return stage;
}

/** The stage of a run that left no optimizer files: hollow model files can only be stage 3. */
function stageWithoutOptimizer(models: readonly ModelStates[]): 0 | 1 | 2 | 3 {
  const model = models[0];
  if (model?.shard.name.dp !== undefined) return 3;
  return model?.configuredStage === 1 || model?.configuredStage === 2 ? model.configuredStage : 0;
}

async function openShards(
  tree: FileTree,
  folder: string,
  names: readonly ShardName[],
  options: InspectOptions,
): Promise<{ sources: SourceFile[]; shards: Shard[] }> {
  const order = new Intl.Collator('en', { numeric: true });
  const sorted = names.toSorted((a, b) => order.compare(a.name, b.name));
  const sources: SourceFile[] = [];
  let done = 0;
  const shards = await mapBounded(sorted, OPEN_LANES, async (name, index): Promise<Shard> => {
    const path = joinPath(folder, name.name);
    const source = await tree.open(path);
    try {
      sources[index] = { path, size: source.size, modified: source.modified };
      const file = await readTorchFile(source, options.signal);
      options.onProgress?.({ done: ++done, total: sorted.length, file: path });
      return { name, path, source: index, file };
    } catch (error) {
      await source.close();
      throw error;
    }
  });
  return { sources, shards };
}

function isKind<K extends ShardName['kind']>(shard: Shard, kind: K): shard is Shard<Extract<ShardName, { kind: K }>> {
  return shard.name.kind === kind;
}

/** Tensors in the order of the state dict, which is how `save_pretrained` orders them; others after it. */
function inModuleOrder(draft: Draft, model: ModelStates | undefined): DeepspeedInventory['tensors'] {
  const position = new Map([...(model?.module.keys() ?? [])].map((name, i) => [name, i]));
  const at = (name: string) => position.get(name) ?? Number.MAX_SAFE_INTEGER;
  return [...draft.tensors.values()].toSorted((a, b) => at(a.name) - at(b.name));
}

function factsOf(
  shards: readonly Shard[],
  models: readonly ModelStates[],
  optims: readonly OptimStates[],
): Omit<CheckpointFacts, 'elements'> & { elements: number } {
  const globals = new Set(
    shards
      .flatMap((shard) => [...shard.file.globals.values()])
      .flatMap((global) => (classifyGlobal(global) === 'dangerous' ? [global.path] : [])),
  );
  const version = models[0]?.deepspeedVersion ?? optims[0]?.deepspeedVersion;
  const steps = models[0]?.globalSteps;
  return {
    ranks: optims.length || models[0]?.dpWorldSize || 1,
    elements: 0,
    uninterpretedObjects: shards.reduce((sum, shard) => sum + shard.file.uninterpreted, 0),
    dangerousGlobals: [...globals].sort(),
    ...(version === undefined ? {} : { deepspeedVersion: version }),
    ...(steps === undefined ? {} : { globalSteps: steps }),
  };
}

function dtypesOf(draft: Draft): Pick<CheckpointFacts, 'modelDtype' | 'masterDtype'> {
  const entries = [...draft.tensors.values()];
  const master = entries.find((entry) => entry.origin === 'master')?.stored.dtype;
  const model =
    entries.find((entry) => entry.copy !== undefined)?.copy?.dtype ??
    entries.find((entry) => entry.origin !== 'buffer' && entry.origin !== 'master' && isFloat(entry.stored.dtype))
      ?.stored.dtype;
  return { ...(model ? { modelDtype: model } : {}), ...(master ? { masterDtype: master } : {}) };
}

function refuseOtherLayouts(folder: string, names: readonly ShardName[]): void {
  const refuse = (code: string, what: string): never => {
    throw new UnshardError({
      kind: 'unsupported',
      code,
      message: `${folder} is a checkpoint ${what}, which Unshard does not read yet.`,
      advice: 'ZeRO stages 0 to 3 without model parallelism are read.',
      facts: { file: folder },
    });
  };
  if (names.some((name) => name.kind === 'expert' || name.kind === 'expert-optim'))
    refuse('layout-moe', 'with expert parallelism (MoE)');
  if (names.some((name) => name.kind === 'layer')) refuse('layout-pipeline', 'with pipeline parallelism');
  const mp = new Set(names.flatMap((name) => ('mp' in name ? [name.mp] : [])));
  if (mp.size > 1) refuse('layout-tensor-parallel', `of ${mp.size} model-parallel ranks`);
}

function shapesMissing(model: ModelStates): UnshardError {
  return new UnshardError({
    kind: 'unsupported',
    code: 'param-shapes-missing',
    message: `${model.shard.path} (DeepSpeed ${model.deepspeedVersion ?? 'of unknown version'}) lists no param_shapes, so the flat buffers cannot be cut into parameters.`,
    advice: 'DeepSpeed writes them into this file since 0.6.0. Load and save the checkpoint once with a newer version.',
    facts: { file: model.shard.path, found: model.deepspeedVersion ?? '' },
  });
}

function noMasters(model: ModelStates, stage: number): { code: string; message: string } {
  return {
    code: 'no-masters',
    message: `There is no optimizer file, so the weights of ${model.shard.path} are used as they are; the masters of stage ${stage} are not here.`,
  };
}
