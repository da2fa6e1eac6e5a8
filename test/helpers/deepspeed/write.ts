/**
 * Writes checkpoints as DeepSpeed does, in memory. It follows the description of the format and shares no code with the
 * reader of the product.
 */

import { bytesOf } from '../../../src/base/dtype.js';
import { decodeFloats, encodeFloats, type NaiveFloat } from '../naive-floats.js';
import { cutFlat } from './flat.js';
import {
  adam,
  dsConfig,
  flatGroups,
  joined,
  named,
  POISON,
  paramShapes,
  shapesOf,
  shareTensor,
  totalOf,
} from './layout.js';
import { optimState, swapFiles } from './optim-states.js';
import { type Py, PyCall, PyFloat, type PyMap, PyOrdered, PySet, TensorView, tensorOf } from './python.js';
import { type CheckpointSpec, type ExpectedTensor, type Param, since, sizeOf, valuesOf } from './spec.js';
import { type Region, saveLegacy, saveZip } from './torch-save.js';

/** A checkpoint and what must come out of it. */
export interface WrittenCheckpoint {
  /** By path. */
  readonly files: Record<string, Uint8Array>;
  /** Every tensor by name, at the most precise dtype that is stored. */
  readonly expected: ReadonlyMap<string, ExpectedTensor>;
  /** Tied names that the files tell of. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Names of the state dict whose values are in no file. */
  readonly lost: readonly string[];
  /** Where the bytes of storages lie, by path. */
  readonly regions: ReadonlyMap<string, readonly Region[]>;
}

/** Writes a checkpoint. */
export function writeCheckpoint(spec: CheckpointSpec): WrittenCheckpoint {
  const { folder = 'global_step7', container = 'zip' } = spec;
  const files: Record<string, Uint8Array> = {};
  const regions = new Map<string, readonly Region[]>();
  const add = (name: string, root: PyMap): void => {
    const path = folder === '' ? name : `${folder}/${name}`;
    const rootName = spec.rootNames === 'file' ? name.replace(/\.pt$/, '') : 'archive';
    const saved = container === 'zip' ? saveZip(root, rootName, spec.crcs) : saveLegacy(root);
    files[path] = saved.bytes;
    regions.set(path, saved.regions);
  };
  const modelFiles = spec.stage === 3 ? spec.ranks : 1;
  for (let rank = 0; rank < modelFiles; rank++) {
    const root = modelRoot(spec, rank);
    spec.editModel?.(root, rank);
    add(modelName(spec, rank), root);
  }
  for (let rank = 0; rank < (spec.stage === 0 ? 0 : spec.ranks); rank++) {
    const state = optimState(spec, rank);
    const root: PyMap = new Map<string, Py>([['optimizer_state_dict', state]]);
    if (since(spec.version, '0.3.14') && !since(spec.version, '0.6.0')) root.set('param_shapes', paramShapes(spec));
    if (since(spec.version, '0.4.0')) {
      root.set('ds_config', dsConfig(spec));
      root.set('ds_version', spec.version);
    }
    spec.editOptim?.(root, state, rank);
    add(optimName(spec, rank), root);
    for (const [name, bytes] of swapFiles(spec, rank)) files[folder === '' ? name : `${folder}/${name}`] = bytes;
  }
  return { files, regions, ...expectations(spec) };
}

/** Name of a model file. */
export function modelName({ stage }: CheckpointSpec, rank: number): string {
  return `${stage === 3 ? `zero_pp_rank_${rank}_` : ''}mp_rank_00_model_states.pt`;
}

/** Name of an optimizer file. */
export function optimName({ version, modelDtype }: CheckpointSpec, rank: number): string {
  const prefix = modelDtype === 'BF16' && since(version, '0.6.2') ? 'bf16_' : '';
  // The first versions left an underscore out.
  return `${prefix}zero_pp_rank_${rank}_mp_rank_00${since(version, '0.3.14') ? '_' : ''}optim_states.pt`;
}

function expectations(spec: CheckpointSpec): Pick<WrittenCheckpoint, 'expected' | 'aliases' | 'lost'> {
  const { stage, version, masterDtype = 'F32', modelDtype, frozen = [], tied = [], buffers = [] } = spec;
  const expected = new Map<string, ExpectedTensor>();
  const add = (params: readonly Param[], dtype: NaiveFloat) => {
    for (const param of params) expected.set(param.name, { dtype, shape: param.shape, bytes: valuesOf(param, dtype) });
  };
  add(spec.groups.flat(), stage === 0 && spec.masters === 'none' ? modelDtype : masterDtype);
  const keepsFrozen = spec.excludeFrozen !== true && (stage < 3 || since(version, '0.9.1'));
  if (keepsFrozen) add(frozen, modelDtype);
  for (const { name, dtype, shape, bytes } of buffers) expected.set(name, { dtype, shape, bytes });
  const recorded = stage < 3 || since(version, '0.9.2') ? tied.filter(([, owner]) => expected.has(owner)) : [];
  const lost = [
    ...(keepsFrozen || spec.excludeFrozen ? [] : frozen.map(({ name }) => name)),
    ...tied.filter((pair) => !recorded.includes(pair)).map(([alias]) => alias),
  ];
  return { expected, aliases: Object.fromEntries(recorded), lost };
}

function modelRoot(spec: CheckpointSpec, rank: number): PyMap {
  const { stage, version, frozen = [], buffers = [], tied = [] } = spec;
  const module = moduleOf(spec);
  const withZero = stage > 0;
  const savesFrozen = stage > 1 && spec.excludeFrozen !== true;
  const root: PyMap = new Map<string, Py>([
    ['module', new PyOrdered(module)],
    ['optimizer', withZero ? null : zero0State(spec)],
  ]);
  if (since(version, '0.4.2'))
    root.set(
      'buffer_names',
      buffers.map(({ name }) => name),
    );
  if (since(version, '0.6.0')) root.set('param_shapes', withZero ? paramShapes(spec) : null);
  if (since(version, '0.9.1')) root.set('frozen_param_shapes', savesFrozen ? shapesOf(spec, frozen) : null);
  if (since(version, '0.9.2')) {
    root.set('shared_params', withZero ? new Map(rank === 0 ? [...tied, ...emptyTies(spec)] : []) : null);
  }
  if (since(version, '0.9.1')) {
    const fragments: PyMap = new Map();
    for (const param of frozen) {
      fragments.set(
        param.name,
        stage === 3 ? shareTensor(spec, [param], rank, spec.modelDtype) : (module.get(param.name) ?? null),
      );
    }
    root.set('frozen_param_fragments', savesFrozen ? new PyOrdered(fragments) : null);
  }
  root.set('lr_scheduler', new Map([['last_lr', [new PyFloat(1e-3)]]]));
  root.set('sparse_tensor_module_names', new PySet([]));
  root.set('global_steps', 7);
  root.set('dp_world_size', spec.ranks);
  root.set('mp_world_size', 1);
  if (since(version, '0.4.0')) {
    root.set('ds_config', dsConfig(spec));
    root.set('ds_version', version);
  }
  root.set('args', new PyCall('argparse', 'Namespace', [], new Map([['seed', 1234]])));
  return root;
}

/**
 * At stage 1 and 2 parameters count as tied where they have one address, and the address of all empty ones is 0: each is
 * recorded as tied to the first.
 */
function emptyTies({ stage, groups, frozen = [] }: CheckpointSpec): [string, string][] {
  const [first, ...others] = [...groups.flat(), ...frozen].filter((param) => stage < 3 && sizeOf(param) === 0);
  return first === undefined ? [] : others.map(({ name }) => [name, first.name]);
}

/** The state dict: views into the flat 16-bit buffers at stage 1 and 2, placeholders of parameters at stage 3. */
function moduleOf(spec: CheckpointSpec): PyMap {
  const { stage, version, modelDtype, frozen = [], buffers = [], tied = [] } = spec;
  const module: PyMap = new Map();
  const hollow = () => {
    const shape = since(version, '0.6.0') ? [0] : [1];
    return tensorOf(modelDtype, shape, new Uint8Array(sizeOf({ shape }) * bytesOf(modelDtype)), 'other');
  };
  const own = (param: Param) => tensorOf(modelDtype, param.shape, valuesOf(param, modelDtype), 'copy');
  const copies = stage === 1 || stage === 2 ? copiesOf(spec) : new Map<string, TensorView>();
  for (const param of named(spec)) {
    const copy = copies.get(param.name) ?? tensorOf(modelDtype, param.shape, copyBytes(spec, param), 'copy');
    module.set(param.name, stage === 3 ? hollow() : copy);
  }
  if (spec.excludeFrozen !== true) {
    for (const param of frozen) module.set(param.name, stage === 3 ? hollow() : own(param));
  }
  for (const buffer of buffers) module.set(buffer.name, oversized(buffer));
  for (const [alias, owner] of tied) {
    const excluded = frozen.find(({ name }) => name === owner);
    module.set(alias, stage === 3 ? hollow() : (module.get(owner) ?? (excluded ? own(excluded) : hollow())));
  }
  return module;
}

/** The master rounded to the dtype of the model. */
function copyBytes({ masterDtype = 'F32', modelDtype }: CheckpointSpec, param: Param): Uint8Array {
  return encodeFloats(modelDtype, decodeFloats(masterDtype, valuesOf(param, masterDtype)));
}

/** Views of all parameters into one storage for each group, in flat order and with the padding at its end. */
function copiesOf(spec: CheckpointSpec): Map<string, TensorView> {
  const views = new Map<string, TensorView>();
  if (spec.clonedModule) return views;
  const itemBytes = bytesOf(spec.modelDtype);
  for (const group of flatGroups(spec)) {
    const { padded } = cutFlat(totalOf(group), spec.ranks, spec.version);
    const storage = { dtype: spec.modelDtype, bytes: new Uint8Array(padded * itemBytes), role: 'copy' } as const;
    let at = 0;
    for (const param of group) {
      storage.bytes.set(copyBytes(spec, param), at * itemBytes);
      views.set(param.name, new TensorView(storage, param.shape, at));
      at += sizeOf(param);
    }
  }
  return views;
}

/** A tensor that is a view into the middle of a larger storage. */
function oversized({ dtype, shape, bytes }: ExpectedTensor): TensorView {
  const itemBytes = bytesOf(dtype);
  const storage = new Uint8Array(bytes.length + 5 * itemBytes).fill(POISON);
  storage.set(bytes, 3 * itemBytes);
  return new TensorView({ dtype, bytes: storage, role: 'other' }, shape, 3);
}

function zero0State(spec: CheckpointSpec): Py {
  const { masters = 'flat', masterDtype = 'F32' } = spec;
  if (masters === 'none') return null;
  const master = (param: Param) => tensorOf(masterDtype, param.shape, valuesOf(param, masterDtype), 'weights');
  const flat = (group: readonly Param[]) =>
    tensorOf(masterDtype, [totalOf(group)], joined(group, masterDtype), 'weights');
  return new Map<string, Py>([
    ['dynamic_loss_scale', false],
    ['cur_scale', new PyFloat(1)],
    ['cur_iter', 7],
    ['optimizer_state_dict', adam(spec, spec.groups.map(totalOf))],
    masters === 'flat'
      ? ['fp32_groups_flat', spec.groups.map(flat)]
      : ['fp32_groups', spec.groups.map((group) => group.map(master))],
    ['clip_grad', new PyFloat(0)],
  ]);
}
