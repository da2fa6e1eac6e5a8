/**
 * The two kinds of DeepSpeed files as checked records: what a model file and an optimizer file say, whatever the version
 * that wrote them. No tensor bytes are read.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';
import { PyObject, type PyValue } from '../../formats/pickle/values.js';
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
import type { ShardName } from './files.js';

/** A torch file of the checkpoint that was opened. */
export interface Shard<Name extends ShardName = ShardName> {
  readonly name: Name;
  /** Path in the picked folder. */
  readonly path: string;
  /** Index of the file in the inventory's sources. */
  readonly source: number;
  readonly file: TorchFile;
}

/** The shard of a model file. */
export type ModelShard = Shard<Extract<ShardName, { kind: 'model' }>>;
/** The shard of an optimizer file. */
export type OptimShard = Shard<Extract<ShardName, { kind: 'optim' }>>;

/** Name and shape of a parameter, in the order of the flat buffer. */
export type NamedShape = readonly [name: string, shape: readonly number[]];

/** What a `*_model_states.pt` says. */
export interface ModelStates {
  readonly shard: ModelShard;
  /** The state dict: parameters and persistent buffers. Hollow parameters at stage 3. */
  readonly module: ReadonlyMap<string, TorchTensor>;
  /** Entries of the state dict that are no tensors: extra state that a module saved beside its weights. */
  readonly extraState: readonly string[];
  readonly bufferNames: readonly string[];
  /** Trainable parameters, one list per parameter group (stage 3: per sub-group). Undefined without ZeRO. */
  readonly paramShapes: readonly (readonly NamedShape[])[] | undefined;
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
  readonly globalSteps: number | undefined;
  readonly deepspeedVersion: string | undefined;
  /** Stage that the run's configuration asks for; undefined where it does not say. */
  readonly configuredStage: number | undefined;
}

/** What a `*_optim_states.pt` says. */
export interface OptimStates {
  readonly shard: OptimShard;
  readonly stage: 1 | 2 | 3;
  /** This rank's slice of each flat group of master weights. */
  readonly flatGroups: readonly TorchTensor[];
  /** Number of ranks that each group is cut over; one number stands for all groups at stage 3. */
  readonly partitionCounts: readonly number[];
  /** Padding that is left at the end of each slice, in elements: BF16_Optimizer. Undefined where it was stripped. */
  readonly keptPadding: readonly number[] | undefined;
  readonly deepspeedVersion: string | undefined;
}

/** Reads a model file. */
export function modelStates(shard: ModelShard): ModelStates {
  const root: Field = { file: shard.path, path: '', value: shard.file.value };
  asDict(root);
  const moduleField = fieldOf(root, 'module');
  const shapes = fieldOf(root, 'param_shapes');
  const shared = fieldOf(root, 'shared_params');
  const optimizer = fieldOf(root, 'optimizer');
  return {
    shard,
    module: isPresent(moduleField) ? tensorsOf(moduleField) : new Map(),
    extraState: isPresent(moduleField)
      ? asNamed(moduleField).flatMap(([name, entry]) => (isExtraState(name, entry) ? [name] : []))
      : [],
    bufferNames: optional(fieldOf(root, 'buffer_names'), (field) => asList(field).map(asString)) ?? [],
    paramShapes: isPresent(shapes) ? asList(shapes).map(namedShapes) : undefined,
    frozenShapes: optional(fieldOf(root, 'frozen_param_shapes'), namedShapes) ?? [],
    frozenFragments: optional(fieldOf(root, 'frozen_param_fragments'), tensorsOf) ?? new Map(),
    shared:
      optional(shared, (field) => new Map(asNamed(field).map(([alias, owner]) => [alias, asString(owner)]))) ??
      new Map(),
    recordsShared: shared.value !== undefined,
    optimizer: isPresent(optimizer) ? optimizer : undefined,
    dpWorldSize: optional(fieldOf(root, 'dp_world_size'), asCount),
    globalSteps: optional(fieldOf(root, 'global_steps'), asCount),
    deepspeedVersion: optional(fieldOf(root, 'ds_version'), asString),
    configuredStage: configuredStage(fieldOf(root, 'ds_config')),
  };
}

/** Reads an optimizer file. */
export function optimStates(shard: OptimShard): OptimStates {
  const root: Field = { file: shard.path, path: '', value: shard.file.value };
  const state = fieldOf(root, 'optimizer_state_dict');
  const stage = stageOf(state);
  const groups = fieldOf(state, stage === 3 ? 'fp32_flat_groups' : 'single_partition_of_fp32_groups');
  const count = fieldOf(state, 'partition_count');
  const version = optional(fieldOf(root, 'ds_version'), asString) ?? optional(fieldOf(state, 'ds_version'), asString);
  // BF16_Optimizer writes no zero_stage, and its slices keep the padding that group_paddings counts.
  const keepsPadding = !isPresent(fieldOf(state, 'zero_stage')) && isPresent(fieldOf(state, 'group_paddings'));
  return {
    shard,
    stage,
    flatGroups: asList(groups).map(asTensor),
    partitionCounts: Array.isArray(count.value) ? asList(count).map(asRankCount) : [asRankCount(count)],
    keptPadding: keepsPadding ? asList(fieldOf(state, 'group_paddings')).map(asCount) : undefined,
    deepspeedVersion: version,
  };
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
  if (!isPresent(field) && isPresent(fieldOf(state, 'single_partition_of_fp32_groups'))) return 1;
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

function configuredStage(config: Field): number | undefined {
  if (!(config.value instanceof Map)) return undefined;
  const zero = fieldOf(config, 'zero_optimization');
  if (!(zero.value instanceof Map)) return 0;
  const stage = fieldOf(zero, 'stage').value ?? 0;
  return typeof stage === 'number' ? stage : undefined;
}

/** The tensors of a state dict by name. */
function tensorsOf(field: Field): Map<string, TorchTensor> {
  const entries = asNamed(field).filter(([name, entry]) => !isExtraState(name, entry));
  return new Map(entries.map(([name, entry]) => [name, asTensor(entry)]));
}

/** `nn.Module.get_extra_state` may put anything under this name. */
function isExtraState(name: string, entry: Field): boolean {
  return name.endsWith('_extra_state') && !(entry.value instanceof TorchTensor);
}

function namedShapes(field: Field): NamedShape[] {
  return asNamed(field).map(([name, shape]) => [name, asShape(shape)]);
}

function optional<T>(field: Field, read: (field: Field) => T): T | undefined {
  return isPresent(field) ? read(field) : undefined;
}
