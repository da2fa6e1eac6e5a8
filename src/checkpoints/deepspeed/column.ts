/**
 * One tensor-parallel rank through all stages of a pipeline: a whole model, or the shard of one. Without pipeline
 * parallelism there is one stage, and without tensor parallelism one such column.
 *
 * @module
 */

import { counted } from '../../base/words.js';
import { addPart, type Draft, partOf } from './draft.js';
import { fuseExperts } from './experts.js';
import { groupShapes } from './group-shapes.js';
import { addAliases, addBuffers, addFrozenFragments, addRest, locateModule } from './module.js';
import { addExpertMasters, expertGroups } from './moe.js';
import { checkLayers, isTied, type LayerShard, nameTied, readLayers } from './pipeline.js';
import type { MastersIn, Part } from './rank-set.js';
import { checkSliceMappings } from './slice-mappings.js';
import type { GroupShapes, ModelStates, StateDict } from './states.js';
import { dealtRanks } from './sub-partitions.js';
import { addZero0 } from './zero0.js';
import { addFrozenZero3, addZero3 } from './zero3.js';
import { addFlatGroups, type FlatGroup, locateSlices } from './zero12.js';

/** What one column is read from. */
export interface ColumnFiles {
  /** The stages, in order. */
  readonly parts: readonly Part[];
  readonly layers: readonly LayerShard[];
  readonly mastersIn: MastersIn;
  /** Tied names that any file lists: only the file of global rank 0 does. */
  readonly shared: ReadonlyMap<string, string>;
}

/** The tensors of one column. */
export interface Column {
  /** What its model files say together. Undefined where they are not all there. */
  readonly model: ModelStates | undefined;
  readonly draft: Draft;
}

/** A stage with what its groups hold. */
interface Stage {
  readonly part: Part;
  /** The model file of the stage, with the state dict of the whole column. */
  readonly model: ModelStates;
  readonly groups: GroupShapes;
  readonly flat: readonly FlatGroup[];
}

/** Reads a column. What is wrong goes into the problems of the draft; the column may then be empty. */
export async function readColumn(
  whole: Draft,
  folder: string,
  files: ColumnFiles,
  signal: AbortSignal | undefined,
): Promise<Column> {
  const draft = partOf(whole);
  const { parts, mastersIn } = files;
  const models = parts.flatMap(({ model }) => model ?? []);
  const [first] = models;
  if (!first || models.length < parts.length || draft.problems.length > 0) return { model: undefined, draft };
  const { stage = 0 } = parts[0] ?? {};
  const groups: GroupShapes[] = [];
  for (const part of parts) groups.push(await groupShapes(draft, part, signal));
  if (draft.problems.length > 0) return { model: undefined, draft };
  const frozen = models.flatMap((model) => model.frozenShapes);
  const listed = new Set([...groups.flat(2), ...frozen].map(([name]) => name));
  for (const model of models) await locateModule(draft, model, stage, listed, signal);
  const layers = models.some(({ isPipeline }) => isPipeline)
    ? await readLayers(draft, files.layers, signal)
    : undefined;
  let model: ModelStates = { ...joinModels(first, models, layers), shared: files.shared };
  const stages: Stage[] = [];
  for (const [i, part] of parts.entries()) {
    const own = { ...model, shard: models[i]?.shard ?? first.shard };
    const flat = await flatGroups(draft, own, part, groups[i] ?? [], signal);
    stages.push({ part, model: own, groups: groups[i] ?? [], flat });
  }
  const owners = new Set([...listed, ...stages.flatMap(({ flat }) => flat.flatMap(namesOf))]);
  addAliases(draft, [model], stage, owners);
  if (!layers) addBuffers(draft, model);
  for (const one of stages) {
    const own: Draft = { ...draft, tensors: new Map() };
    if (mastersIn === 'optimizer-files') await addMasters(own, one, signal);
    if (draft.problems.length === 0) draft.checks.push(checkSliceMappings(draft, one.flat));
    if (stage === 3) await addFrozenZero3(own, one.part.models, signal);
    // Masters without names were named by their bits, so that what two stages call alike is alike.
    addPart(draft, own, stage === 0 ? () => true : isTied, one.model.shard.path);
  }
  if (layers) {
    if (mastersIn === 'universal') model = withoutLostBuffers(draft, model);
    else draft.problems.push(...checkLayers(folder, files.layers, [...owners, ...model.bufferNames]));
    model = await nameTied(draft, model, owners, signal);
    addBuffers(draft, model);
  }
  if (stage < 3) addFrozenFragments(draft, model);
  const elsewhere = mastersIn === 'universal' ? listed : new Set<string>();
  const trained = new Set(mastersIn === 'universal' ? [] : groups.flat(2).map(([name]) => name));
  if (draft.problems.length === 0) addRest(draft, model, restOrigin(parts, mastersIn), stage, trained, elsewhere);
  if (draft.problems.length === 0) {
    for (const { experts } of parts) fuseExperts(draft, model.shard.path, experts);
  }
  if (layers && mastersIn === 'optimizer-files' && draft.problems.length === 0) {
    // Without its master nothing tells which layer's file is the copy of a tied module.
    const unnamed = [...listed].filter((name) => isTied(name) && !draft.tensors.has(name) && !draft.aliases.has(name));
    for (const name of unnamed) draft.skipped.push({ name, reason: 'its copy is written under the name of a layer' });
  }
  for (const name of model.extraState) draft.skipped.push({ name, reason: 'extra state of a module: not a tensor' });
  return { model, draft };
}

/** What the model files of all stages say together. `layers` are the state dict where they have none. */
function joinModels(first: ModelStates, models: readonly ModelStates[], layers: StateDict | undefined): ModelStates {
  if (models.length === 1 && !layers) return first;
  const all = <T>(of: (model: ModelStates) => Iterable<T>) => models.flatMap((model) => [...of(model)]);
  return {
    ...first,
    module: layers?.tensors ?? new Map(all(({ module }) => module)),
    bufferNames: [...new Set(all(({ bufferNames }) => bufferNames))],
    frozenShapes: all(({ frozenShapes }) => frozenShapes),
    frozenFragments: new Map(all(({ frozenFragments }) => frozenFragments)),
    extraState: layers?.extraState ?? all(({ extraState }) => extraState),
  };
}

/** The conversion to a universal checkpoint leaves the layer files behind, which alone hold the buffers of a pipeline. */
function withoutLostBuffers(draft: Draft, model: ModelStates): ModelStates {
  const lost = model.bufferNames.filter((name) => !model.module.has(name));
  const [first] = lost;
  if (first === undefined) return model;
  for (const name of lost) draft.skipped.push({ name, reason: 'a buffer in a layer file, which was not converted' });
  const message = `Not written, being in the layer files of the original checkpoint alone: ${counted(lost.length, 'buffer')} (${first}${lost.length > 1 ? ', …' : ''}).`;
  draft.warnings.push({ code: 'universal-buffers-lost', message });
  return { ...model, bufferNames: model.bufferNames.filter((name) => model.module.has(name)) };
}

function namesOf({ shapes }: FlatGroup): string[] {
  return shapes.map(([name]) => name);
}

/** The flat buffers of stage 1 and 2, under the names of the whole model. */
async function flatGroups(
  draft: Draft,
  model: ModelStates,
  { stage, optims: saved, experts }: Part,
  groups: GroupShapes,
  signal: AbortSignal | undefined,
): Promise<FlatGroup[]> {
  if (stage === 3 || saved.length === 0) return [];
  const optims = dealtRanks(saved);
  if (!(await locateSlices(draft, model, groups, optims, signal))) return [];
  return expertGroups(draft, model, groups, optims, experts, signal);
}

/** Adds the masters of a stage. */
async function addMasters(draft: Draft, { part, model, groups, flat }: Stage, signal: AbortSignal | undefined) {
  const { stage, optims } = part;
  if (stage === 3) await addZero3(draft, model, groups, optims, signal);
  else if (optims.length > 0) await addFlatGroups(draft, model, flat, signal);
  else if (stage !== 0) draft.warnings.push(noMasters(model, stage));
  else if (part.expertOptims.length > 0) await addExpertMasters(draft, model, part, signal);
  else if (part.model?.optimizer) {
    const { shard, optimizer } = part.model;
    await addZero0(draft, model, { shard, state: optimizer }, signal);
  }
}

/** What a tensor of the state dict is that nothing else has claimed. */
function restOrigin(parts: readonly Part[], mastersIn: MastersIn): 'frozen' | 'module' {
  if (mastersIn === 'universal') return 'frozen';
  return parts.every(({ stage, optims }) => stage > 0 && stage < 3 && optims.length > 0) ? 'frozen' : 'module';
}

function noMasters(model: ModelStates, stage: number): { code: string; message: string } {
  return {
    code: 'no-masters',
    message: `There is no optimizer file, so the weights of ${model.shard.path} are used as they are; the masters of stage ${stage} are not here.`,
  };
}
