/**
 * The two kinds of DeepSpeed files as checked records: what a model file and an optimizer file say, whatever the version
 * that wrote them. No tensor bytes are read.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';
import { type PyDict, PyObject, type PyValue } from '../../formats/pickle/values.js';
import type { TorchFile } from '../../formats/torch/read.js';
import { TorchTensor } from '../../formats/torch/tensor.js';
import {
  asCount,
  asDict,
  asList,
  asNamed,
  asShape,
  asString,
  asTensor,
  type Field,
  fieldOf,
  isPresent,
} from './fields.js';
import type { ModelName, OptimName, ShardName } from './files.js';
import { OwnTensors } from './own-tensors.js';
import { type ParallelStates, parallelStates } from './parallel-states.js';
import type { SwapFile } from './swap-files.js';

/** A torch file of the checkpoint that was opened. */
export interface Shard<Name extends ShardName = ShardName> {
  readonly name: Name;
  /** Path in the picked folder. */
  readonly path: string;
  /** Index of the file in the inventory's sources. */
  readonly source: number;
  readonly file: TorchFile;
  /** Present for a stand-in of a file that is lost: nothing can be read of it. */
  readonly isLost?: true;
}

/** The shard of a model file. */
export type ModelShard = Shard<ModelName>;
/** The shard of an optimizer file. */
export type OptimShard = Shard<OptimName>;

/** Name and shape of a parameter, in the order of the flat buffer. */
export type NamedShape = readonly [name: string, shape: readonly number[]];

/** The parameters of each flat buffer. */
export type GroupShapes = readonly (readonly NamedShape[])[];

/** What a `*_model_states.pt` says. */
export interface ModelStates {
  readonly shard: ModelShard;
  /** The state dict: parameters and persistent buffers. Hollow parameters at stage 3. Empty with pipeline parallelism. */
  readonly module: ReadonlyMap<string, TorchTensor>;
  /** True where the state dict is None: a pipeline keeps its weights in a file for each layer. */
  readonly isPipeline: boolean;
  /** Entries of the state dict that are no tensors: extra state that a module saved beside its weights. */
  readonly extraState: readonly string[];
  readonly bufferNames: readonly string[];
  /**
   * Trainable parameters, one list per parameter group (stage 3: per sub-group). Undefined without ZeRO, and before 0.6.0,
   * when the optimizer files had it.
   */
  readonly paramShapes: GroupShapes | undefined;
  /** Largest number of elements of a placeholder in the state dict at stage 3: none, but 1 before 0.6.0. */
  readonly placeholderSize: number;
  readonly frozenShapes: readonly NamedShape[];
  /** Stage 2: full tensors; stage 3: this rank's share of each, one-dimensional. */
  readonly frozenFragments: ReadonlyMap<string, TorchTensor>;
  /** Tied parameters, alias to owner. Only the file of global rank 0 fills it. */
  readonly shared: ReadonlyMap<string, string>;
  /** False where the version that wrote the file did not record tied parameters yet (before 0.9.2). */
  readonly recordsShared: boolean;
  /** State of a stage-0 optimizer; undefined with ZeRO. */
  readonly optimizer: Field | undefined;
  readonly dpWorldSize: number | undefined;
  readonly mpWorldSize: number | undefined;
  readonly globalSteps: number | undefined;
  readonly deepspeedVersion: string | undefined;
  /** Stage that the run's configuration asks for; undefined where it does not say. */
  readonly configuredStage: number | undefined;
  /** True where frozen parameters are listed, so that none was left out when the checkpoint was saved. */
  readonly recordsFrozen: boolean;
  /** DeepSpeed's configuration of the run. */
  readonly config: PyValue | undefined;
  readonly parallel: ParallelStates;
  /** The first file that was read of those that say the same, byte for byte. Absent for that one. */
  readonly like?: ModelStates;
}

/** What a `*_optim_states.pt` says. */
export interface OptimStates {
  readonly shard: OptimShard;
  readonly stage: 1 | 2 | 3;
  /** This rank's slice of each flat group of master weights. */
  readonly flatGroups: readonly TorchTensor[];
  /** Stage 1 before 0.4.0: the pieces of each group that were dealt to this rank. The first of each is in `flatGroups`. */
  readonly subPartitions: readonly (readonly TorchTensor[])[] | undefined;
  /** Files of the sub-groups that were swapped to NVMe, whose flat group is empty. */
  readonly swapFiles?: readonly SwapFile[];
  /**
   * Number of ranks that each group is cut over; one number stands for all groups at stage 3 and before 0.5.0. Empty where
   * the file does not say.
   */
  readonly partitionCounts: readonly number[];
  /** Padding that is left at the end of each slice, in elements: BF16_Optimizer. Undefined where it was stripped. */
  readonly keptPadding: readonly number[] | undefined;
  /** Padding that was stripped from each slice, in elements; undefined before 0.7.0, which does not say. */
  readonly strippedPadding: readonly number[] | undefined;
  /** As in the model file; where DeepSpeed 0.5.4 to 0.5.10 wrote it. */
  readonly paramShapes: GroupShapes | undefined;
  /** All parameters in one list, as DeepSpeed 0.3.14 to 0.5.3 wrote it. It does not tell the groups apart. */
  readonly listedShapes: readonly NamedShape[] | undefined;
  readonly deepspeedVersion: string | undefined;
  /** All that the optimizer saved. */
  readonly state: PyValue | undefined;
  /** DeepSpeed's configuration of the run. */
  readonly config: PyValue | undefined;
}

/** What model files say, by their object: those of many ranks may have one. */
const KNOWN = new WeakMap<PyDict, ModelStates>();

/** Reads a model file. */
export function modelStates(shard: ModelShard): ModelStates {
  const root: Field = { file: shard.path, path: '', value: shard.file.value };
  const dict = asDict(root);
  const known = KNOWN.get(dict);
  if (known) return likeAnother(shard, known);
  const states = readModel(shard, root);
  KNOWN.set(dict, states);
  return states;
}

/** A model file that says what another one does: only where its tensors lie is its own. */
function likeAnother(shard: ModelShard, like: ModelStates): ModelStates {
  const own = (tensors: ReadonlyMap<string, TorchTensor>) => new OwnTensors(shard.file, tensors);
  return { ...like, shard, like, module: own(like.module), frozenFragments: own(like.frozenFragments) };
}

/** One of all the files that say the same, in order. */
export function distinctModels(models: readonly ModelStates[]): ModelStates[] {
  const distinct = new Map<ModelStates, ModelStates>();
  for (const model of models) {
    const like = model.like ?? model;
    if (!distinct.has(like)) distinct.set(like, model);
  }
  return [...distinct.values()];
}

function readModel(shard: ModelShard, root: Field): ModelStates {
  const moduleField = fieldOf(root, 'module');
  const isPipeline = moduleField.value === null;
  const shapes = fieldOf(root, 'param_shapes');
  const shared = fieldOf(root, 'shared_params');
  const optimizer = fieldOf(root, 'optimizer');
  return {
    shard,
    module: isPipeline ? new Map() : tensorsOf(moduleField),
    isPipeline,
    extraState: isPipeline ? [] : extraStateOf(moduleField),
    bufferNames: optional(fieldOf(root, 'buffer_names'), (field) => asList(field).map(asString)) ?? [],
    paramShapes: optional(shapes, groupShapes),
    placeholderSize: isPresent(shapes) ? 0 : 1,
    frozenShapes: optional(fieldOf(root, 'frozen_param_shapes'), namedShapes) ?? [],
    frozenFragments: optional(fieldOf(root, 'frozen_param_fragments'), tensorsOf) ?? new Map(),
    shared:
      optional(shared, (field) => new Map(asNamed(field).map(([alias, owner]) => [alias, asString(owner)]))) ??
      new Map(),
    recordsShared: shared.value !== undefined,
    optimizer: isPresent(optimizer) ? optimizer : undefined,
    dpWorldSize: optional(fieldOf(root, 'dp_world_size'), asRankCount),
    mpWorldSize: optional(fieldOf(root, 'mp_world_size'), asRankCount),
    globalSteps: countIn(fieldOf(root, 'global_steps')),
    deepspeedVersion: optional(fieldOf(root, 'ds_version'), asString),
    configuredStage: configuredStage(fieldOf(root, 'ds_config')),
    recordsFrozen: isPresent(fieldOf(root, 'frozen_param_shapes')),
    config: fieldOf(root, 'ds_config').value,
    parallel: parallelStates(root),
  };
}

/** A state dict: its tensors, and the names of what is no tensor. */
export interface StateDict {
  readonly tensors: ReadonlyMap<string, TorchTensor>;
  readonly extraState: readonly string[];
}

/** Reads a file that holds nothing but a state dict: of a layer, or of an expert. */
export function stateDict({ path, file }: Shard): StateDict {
  const root: Field = { file: path, path: '', value: file.value };
  return { tensors: tensorsOf(root), extraState: extraStateOf(root) };
}

/** Reads an optimizer file. */
export function optimStates(shard: OptimShard): OptimStates {
  const root: Field = { file: shard.path, path: '', value: shard.file.value };
  const state = fieldOf(root, 'optimizer_state_dict');
  const stage = stageOf(state);
  const subPartitions = optional(fieldOf(state, SUB_PARTITIONS), (field) =>
    asList(field).map((group) => asList(group).map(asTensor)),
  );
  const groups = fieldOf(state, stage === 3 ? 'fp32_flat_groups' : 'single_partition_of_fp32_groups');
  const count = fieldOf(state, 'partition_count');
  const shapes = fieldOf(root, 'param_shapes');
  const version = optional(fieldOf(root, 'ds_version'), asString) ?? optional(fieldOf(state, 'ds_version'), asString);
  // BF16_Optimizer writes no zero_stage, and its slices keep the padding that group_paddings counts.
  const paddings = optional(fieldOf(state, 'group_paddings'), (field) => asList(field).map(asCount));
  const keepsPadding = !isPresent(fieldOf(state, 'zero_stage'));
  return {
    shard,
    stage,
    flatGroups: subPartitions ? subPartitions.flatMap(([piece]) => piece ?? []) : asList(groups).map(asTensor),
    subPartitions,
    // The first versions do not say, unless the checkpoint is elastic.
    partitionCounts: subPartitions && !isPresent(count) ? [] : partitionCounts(count),
    keptPadding: keepsPadding ? paddings : undefined,
    strippedPadding: keepsPadding ? undefined : paddings,
    paramShapes: Array.isArray(shapes.value) ? groupShapes(shapes) : undefined,
    listedShapes: Array.isArray(shapes.value) ? undefined : optional(shapes, namedShapes),
    deepspeedVersion: version,
    state: state.value,
    config: fieldOf(root, 'ds_config').value,
  };
}

/** Name of the masters of stage 1 before 0.4.0. */
const SUB_PARTITIONS = 'local_sub_partitions_of_fp32_groups';

function partitionCounts(count: Field): number[] {
  return Array.isArray(count.value) ? asList(count).map(asRankCount) : [asRankCount(count)];
}

/** More ranks than any run has had. A damaged count must not make a list of its size. */
const MAX_RANKS = 2 ** 17;

function asRankCount(field: Field): number {
  const count = asCount(field);
  if (count >= 1 && count <= MAX_RANKS) return count;
  throw new UnshardError({
    kind: 'bad-file',
    code: 'rank-count',
    message: `${field.file}: ${field.path} must be between 1 and ${MAX_RANKS} ranks; it is ${count}.`,
    advice: 'The file is damaged. Take it from the original checkpoint.',
    facts: { file: field.file, expected: MAX_RANKS, found: count },
  });
}

/** The stage of an optimizer's state: 1 and 2 share a layout, and so does BF16_Optimizer, which does not say. */
function stageOf(state: Field): 1 | 2 | 3 {
  const field = fieldOf(state, 'zero_stage');
  const isFlat =
    isPresent(fieldOf(state, 'single_partition_of_fp32_groups')) || isPresent(fieldOf(state, SUB_PARTITIONS));
  if (!isPresent(field) && isFlat) return 1;
  const stage = intOf(field.value);
  if (stage === 1 || stage === 2 || stage === 3) return stage;
  throw new UnshardError({
    kind: 'unsupported',
    code: 'stage-unknown',
    message: `${state.file}: zero_stage must be 1, 2 or 3; it is ${String(stage ?? 'not there')}.`,
    advice: 'The file was not written by a DeepSpeed ZeRO optimizer that Unshard knows.',
    facts: { file: state.file, found: String(stage ?? 'not there') },
  });
}

/** DeepSpeed 0.7 and later pickle the stage as an int enum, which stays an inert record with one argument. */
function intOf(value: PyValue | undefined): number | undefined {
  const int = value instanceof PyObject && value.type.name === 'ZeroStageEnum' ? value.args[0] : value;
  return typeof int === 'number' ? int : undefined;
}

/** A number for people to read. Training code may overwrite it with anything, which then is no reason to stop. */
function countIn({ value }: Field): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

function configuredStage(config: Field): number | undefined {
  if (!(config.value instanceof Map)) return undefined;
  const zero = fieldOf(config, 'zero_optimization');
  if (!(zero.value instanceof Map)) return 0;
  const stage = fieldOf(zero, 'stage').value ?? 0;
  return typeof stage === 'number' ? stage : undefined;
}

/** The tensors of a state dict by name. */
function tensorsOf(field: Field): Map<string, TorchTensor> {
  const tensors = new Map<string, TorchTensor>();
  for (const [name, entry] of entriesOf(field)) {
    if (isExtraState(name, entry)) continue;
    if (tensors.has(name)) throw nameTwice(field, name);
    tensors.set(name, asTensor(entry));
  }
  return tensors;
}

/** Dicts of a state dict that lie in each other. Megatron-LM has 3; what is deeper was not made by a model. */
const MAX_NESTING = 16;

/**
 * The entries of a state dict. Megatron-LM puts dicts into dicts, each for a module: their names are joined as those of
 * modules are. A dict that is met again is left as it is.
 */
function entriesOf(field: Field, seen: Set<PyValue | undefined> = new Set(), depth = 1): [string, Field][] {
  seen.add(field.value);
  return asNamed(field).flatMap(([name, entry]): [string, Field][] => {
    const isModule = entry.value instanceof Map && !isExtraState(name, entry) && !seen.has(entry.value);
    if (!isModule || depth === MAX_NESTING) return [[name, entry]];
    return entriesOf(entry, seen, depth + 1).map(([inner, value]) => [`${name}.${inner}`, value]);
  });
}

function nameTwice({ file, path }: Field, name: string): UnshardError {
  return new UnshardError({
    kind: 'inconsistent',
    code: 'name-twice',
    message: `${file}: ${path} holds ${name} twice, once in a dict of its own.`,
    advice: 'The file is damaged or was edited. Take it from the original checkpoint.',
    facts: { file, tensor: name },
  });
}

function extraStateOf(field: Field): string[] {
  return entriesOf(field).flatMap(([name, entry]) => (isExtraState(name, entry) ? [name] : []));
}

/** `nn.Module.get_extra_state` may put anything under this name. */
function isExtraState(name: string, entry: Field): boolean {
  return name.endsWith('_extra_state') && !(entry.value instanceof TorchTensor);
}

function groupShapes(field: Field): GroupShapes {
  return asList(field).map(namedShapes);
}

function namedShapes(field: Field): NamedShape[] {
  return asNamed(field).map(([name, shape]) => [name, asShape(shape)]);
}

function optional<T>(field: Field, read: (field: Field) => T): T | undefined {
  return isPresent(field) ? read(field) : undefined;
}
