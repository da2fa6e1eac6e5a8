/** Writes checkpoints of models that are cut over tensor-parallel ranks and pipeline stages, as DeepSpeed does, in memory. */

import { decodeFloats, encodeFloats, type NaiveFloat } from '../naive-floats.js';
import { type Cut, type Held, joinedOf, shardOf } from './cuts.js';
import { type Py, type PyMap, PyOrdered, type TensorView, tensorOf } from './python.js';
import {
  copyOf,
  denseGroup,
  frozenShapes,
  mpName,
  optimRoots,
  type RankFiles,
  shapesOf,
  shareTensor,
} from './rank-files.js';
import { type ExpectedTensor, type NamedBuffer, type Param, since } from './spec.js';
import { saveZip } from './torch-save.js';

/** A parameter and how it is cut. */
export interface GridParam extends Param {
  readonly cut: Cut;
  readonly isFrozen?: boolean;
  /** Rows of the vocabulary; what is behind them is padding. */
  readonly rows?: number;
}

/** A module that several layers use. */
export interface TiedModule {
  readonly key: string;
  /** Layers that write it to their file. Those that use it through a function have none. */
  readonly layers: readonly number[];
  readonly stages: readonly number[];
}

/** How layers are shared out. */
export interface Pipeline {
  readonly stages: number;
  /** The stage of each layer. Layers without parameters have an empty file. */
  readonly layers: readonly number[];
  readonly tied?: readonly TiedModule[];
}

/** A run at the moment when it saves. */
export interface GridSpec {
  readonly version: string;
  readonly stage: 0 | 1 | 2 | 3;
  readonly modelDtype: NaiveFloat;
  /** Data-parallel ranks. */
  readonly ranks: number;
  /** Tensor-parallel ranks. */
  readonly tp: number;
  readonly params: readonly GridParam[];
  readonly buffers?: readonly NamedBuffer[];
  /** Alias first. */
  readonly tied?: readonly (readonly [alias: string, owner: string])[];
  readonly pipeline?: Pipeline;
  readonly bf16Optimizer?: boolean;
  /** `universal_checkpoint_info`. */
  readonly info?: PyMap;
  /** Changes what a rank holds before it is written. */
  readonly alter?: (held: Held, mp: number) => Held;
  /** Changes a file before it is written. */
  readonly edit?: (name: string, root: PyMap) => void;
}

/** A checkpoint and what must come out of it. */
export interface WrittenGrid {
  readonly files: Record<string, Uint8Array>;
  readonly expected: ReadonlyMap<string, ExpectedTensor>;
  readonly aliases: Readonly<Record<string, string>>;
}

/** Folder of the files. */
export const GRID_FOLDER = 'global_step7';

/** Path of the model file of a model-parallel rank. */
export function gridModel(mp: number): string {
  return `${GRID_FOLDER}/${mpName(mp)}_model_states.pt`;
}

/** Writes a checkpoint. */
export function writeGrid(spec: GridSpec): WrittenGrid {
  const files: Record<string, Uint8Array> = {};
  const add = (name: string, root: PyMap) => {
    spec.edit?.(name, root);
    files[`${GRID_FOLDER}/${name}`] = saveZip(root).bytes;
  };
  for (const [name, root] of modelRoots(spec)) add(name, root);
  for (let mp = 0; mp < mpRanks(spec); mp++) {
    if (spec.stage > 0) for (const [name, root] of optimRoots(rankFiles(spec, mp))) add(name, root);
  }
  return { files, expected: gridExpected(spec), aliases: Object.fromEntries(spec.tied ?? []) };
}

/** The model files and layer files by their names. */
export function modelRoots(spec: GridSpec): Map<string, PyMap> {
  const roots = new Map<string, PyMap>();
  for (let mp = 0; mp < mpRanks(spec); mp++) {
    for (let rank = 0; rank < (spec.stage === 3 ? spec.ranks : 1); rank++) {
      const start = spec.stage === 3 ? `zero_pp_rank_${rank}_` : '';
      roots.set(`${start}${mpName(mp)}_model_states.pt`, modelRoot(spec, mp, rank));
    }
  }
  for (const [layer, stage] of (spec.pipeline?.layers ?? []).entries()) {
    for (let tp = 0; tp < spec.tp; tp++) {
      const axis = spec.tp > 1 ? `-model_${String(tp).padStart(2, '0')}` : '';
      const root = layerRoot(spec, layer, stage * spec.tp + tp);
      if (root) roots.set(`layer_${String(layer).padStart(2, '0')}${axis}-model_states.pt`, root);
    }
  }
  return roots;
}

/** Every tensor as it must come out. */
export function gridExpected(spec: GridSpec): Map<string, ExpectedTensor> {
  const tensors = new Map<string, ExpectedTensor>();
  for (const param of spec.params) {
    const { name, shape, master } = joinedOf(param, param.cut, spec.tp, param.rows);
    const isMaster = param.isFrozen !== true;
    const bytes = isMaster ? master : encodeFloats(spec.modelDtype, decodeFloats('F32', master));
    tensors.set(name, { dtype: isMaster ? 'F32' : spec.modelDtype, shape, bytes });
  }
  for (const { name, dtype, shape, bytes } of spec.buffers ?? []) tensors.set(name, { dtype, shape, bytes });
  return tensors;
}

function mpRanks({ tp, pipeline }: GridSpec): number {
  return tp * (pipeline?.stages ?? 1);
}

/** What a model-parallel rank holds, of one kind. */
function heldBy(spec: GridSpec, mp: number, isFrozen: boolean): Held[] {
  return spec.params
    .filter((param) => (param.isFrozen ?? false) === isFrozen && isOnStage(spec, param.name, Math.floor(mp / spec.tp)))
    .map((param) => {
      const held = shardOf(param, param.cut, mp % spec.tp);
      return spec.alter?.(held, mp) ?? held;
    });
}

function isOnStage({ pipeline }: GridSpec, name: string, stage: number): boolean {
  if (!pipeline) return true;
  const tied = (pipeline.tied ?? []).find(({ key }) => name.startsWith(`tied_modules.${key}.`));
  return tied ? tied.stages.includes(stage) : pipeline.layers[Number(name.split('.')[0])] === stage;
}

/** The parameters in two groups, so that both are cut. */
function rankFiles(spec: GridSpec, mp: number): RankFiles {
  const { version, stage, modelDtype, ranks, bf16Optimizer = false } = spec;
  const held = heldBy(spec, mp, false);
  const groups = [0, 1].map((odd) => held.filter((_, i) => i % 2 === odd)).filter((group) => group.length > 0);
  return {
    version,
    stage: stage === 0 ? 1 : stage,
    modelDtype,
    mp,
    ranks,
    groups: groups.map((group) => denseGroup(group, ranks)),
    bf16Optimizer,
  };
}

function modelRoot(spec: GridSpec, mp: number, rank: number): PyMap {
  const { version, stage, modelDtype, ranks, tp, pipeline, buffers = [], tied = [] } = spec;
  const frozen = heldBy(spec, mp, true);
  const own = buffers.filter(({ name }) => isOnStage(spec, name, Math.floor(mp / tp)));
  const hollow = () => tensorOf(modelDtype, [0], new Uint8Array(), 'other');
  const module: PyMap = new Map();
  for (const held of [...heldBy(spec, mp, false), ...frozen]) {
    module.set(held.name, stage === 3 ? hollow() : copyOf(held, modelDtype));
  }
  for (const buffer of own) module.set(buffer.name, bufferTensor(buffer));
  for (const [alias, owner] of tied) module.set(alias, stage === 3 ? hollow() : (module.get(owner) ?? null));
  const fragments: PyMap = new Map(
    frozen.map((held) => [
      held.name,
      stage === 3 ? shareTensor([held], rank, ranks, modelDtype) : copyOf(held, modelDtype),
    ]),
  );
  const root: PyMap = new Map<string, Py>([
    ['module', pipeline ? null : new PyOrdered(module)],
    ['buffer_names', own.map(({ name }) => name)],
    ['optimizer', stage === 0 ? wholeState(spec, mp) : null],
    ['param_shapes', stage === 0 ? null : shapesOf(rankFiles(spec, mp))],
    ['frozen_param_shapes', stage > 1 ? frozenShapes(frozen) : null],
    ['frozen_param_fragments', stage > 1 ? new PyOrdered(fragments) : null],
    ['shared_params', stage === 0 ? null : new Map(mp === 0 && rank === 0 ? tied : [])],
    ['global_steps', 7],
    ['dp_world_size', ranks],
    ['mp_world_size', mpRanks(spec)],
    ['ds_config', new Map([['zero_optimization', new Map([['stage', stage]])]])],
    ['ds_version', version],
  ]);
  if (since(version, '0.19.0')) {
    const degrees = { pp_degree: pipeline?.stages ?? 1, tp_degree: tp };
    root.set('checkpoint_parallel_dimensions', new Map(Object.entries(degrees)));
  }
  if (spec.info) root.set('universal_checkpoint_info', spec.info);
  return root;
}

/** The file of a layer as a model-parallel rank of its stage writes it; none for what is no module. */
function layerRoot(spec: GridSpec, layer: number, mp: number): PyMap | undefined {
  const tied = (spec.pipeline?.tied ?? []).find(({ layers }) => layers.includes(layer));
  const start = tied ? `tied_modules.${tied.key}.` : `${layer}.`;
  const root: PyMap = new Map();
  for (const held of [...heldBy(spec, mp, false), ...heldBy(spec, mp, true)]) {
    if (held.name.startsWith(start)) root.set(held.name.slice(start.length), copyOf(held, spec.modelDtype));
  }
  for (const buffer of spec.buffers ?? []) {
    if (buffer.name.startsWith(start)) root.set(buffer.name.slice(start.length), bufferTensor(buffer));
  }
  return root;
}

/** The optimizer of a stage-0 run. */
function wholeState(spec: GridSpec, mp: number): PyMap {
  const flat = rankFiles(spec, mp).groups.map(({ heldBy: of }) => {
    const bytes = Uint8Array.from(Buffer.concat(of(0).params.map(({ master }) => master)));
    return tensorOf('F32', [bytes.length / 4], bytes, 'weights');
  });
  return new Map<string, Py>([['fp32_groups_flat', flat]]);
}

function bufferTensor({ dtype, shape, bytes }: NamedBuffer): TensorView {
  return tensorOf(dtype, shape, bytes, 'other');
}
