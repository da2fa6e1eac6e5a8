/**
 * Writes checkpoints as DeepSpeed does, in memory. It follows the description of the format and shares no code with the
 * reader of the product.
 */

import { bytesOf } from '../../../src/base/dtype.js';
import { decodeFloats, encodeFloats, type NaiveFloat } from '../naive-floats.js';
import { cutFlat, roundRobin, shareOf, subGroups } from './flat.js';
import {
  type Py,
  PyCall,
  PyFloat,
  type PyMap,
  PyOrdered,
  PySet,
  PyTuple,
  TensorView,
  tensorOf,
  torchSize,
} from './python.js';
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

/** Byte of padding whose content the format leaves open. */
const POISON = 0x5c;
/** Byte of every optimizer state. */
const MOMENT = 0xa5;
/** Id of the first parameter. Others had been given out before the model was built. */
const FIRST_ID = 3;

/** Writes a checkpoint. */
export function writeCheckpoint(spec: CheckpointSpec): WrittenCheckpoint {
  const { folder = 'global_step7', container = 'zip' } = spec;
  const files: Record<string, Uint8Array> = {};
  const regions = new Map<string, readonly Region[]>();
  const add = (name: string, root: PyMap): void => {
    const path = folder === '' ? name : `${folder}/${name}`;
    const rootName = spec.rootNames === 'file' ? name.replace(/\.pt$/, '') : 'archive';
    const saved = container === 'zip' ? saveZip(root, rootName) : saveLegacy(root);
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

function optimState(spec: CheckpointSpec, rank: number): PyMap {
  if (spec.stage === 3) return zero3State(spec, rank);
  return spec.stage === 1 && !since(spec.version, '0.4.0') ? dealtState(spec, rank) : zero12State(spec, rank);
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

/**
 * Stage 1 of the first versions: the flat buffer is cut into pieces, of which as many as there are ranks are exchanged at
 * once. They are dealt to the ranks in turn.
 */
function dealtState(spec: CheckpointSpec, rank: number): PyMap {
  const { ranks, commElements = 5e8, elastic = true } = spec;
  const pieces = spec.groups.map((group) => {
    const count = totalOf(group);
    const ofComm = Math.floor(commElements / ranks);
    const ofAll = Math.ceil(count / ranks);
    const length = Math.min(ofAll, ofComm);
    const rounds = Math.ceil(ofAll / length);
    const flat = new Uint8Array(rounds * ranks * length * 4);
    flat.set(joined(group, 'F32'));
    return Array.from({ length: rounds }, (_, round) => {
      const start = (round * ranks + rank) * length;
      const saved = elastic ? Math.min(length, Math.max(0, count - start)) : length;
      const bytes = flat.slice(start * 4, (start + length) * 4);
      return new TensorView({ dtype: 'F32', bytes, role: 'weights' }, [saved]);
    });
  });
  const state: PyMap = new Map<string, Py>([
    ['dynamic_loss_scale', false],
    ['overflow', false],
  ]);
  const lengths = pieces.flat().map(({ shape }) => sizeOf({ shape }));
  if (elastic) {
    state.set('base_optimizer_state', [[adam(spec, lengths)]]);
    state.set('zero_stage', 1);
    state.set('partition_count', ranks);
    state.set(
      'num_comm_intervals_per_group',
      pieces.map(({ length }) => length),
    );
  } else state.set('base_optimizer_state', adam(spec, lengths));
  state.set('local_sub_partitions_of_fp32_groups', pieces);
  return state;
}

/** The trainable parameters in the order of the model. */
function named({ groups, namedOrder }: CheckpointSpec): Param[] {
  const all = groups.flat();
  const at = (name: string) => (namedOrder ? namedOrder.indexOf(name) : 0);
  return all.toSorted((a, b) => at(a.name) - at(b.name));
}

function zero12State(spec: CheckpointSpec, rank: number): PyMap {
  const { ranks, version, masterDtype = 'F32', bf16Optimizer = false } = spec;
  const itemBytes = bytesOf(masterDtype);
  const groups = flatGroups(spec);
  const cuts = groups.map((group) => cutFlat(totalOf(group), ranks, version, bf16Optimizer));
  const slices = groups.map((group, g) => {
    const { padded = 0, partition = 0, saved = [] } = cuts[g] ?? {};
    const flat = new Uint8Array(padded * itemBytes);
    flat.set(joined(group, masterDtype));
    const bytes = flat.slice(rank * partition * itemBytes, (rank + 1) * partition * itemBytes);
    return new TensorView({ dtype: masterDtype, bytes, role: 'weights' }, [saved[rank] ?? 0]);
  });
  const moments = adam(
    spec,
    slices.map(({ shape }) => sizeOf({ shape })),
  );
  const elastic = !since(version, '0.5.10');
  const state: PyMap = new Map<string, Py>(
    bf16Optimizer
      ? []
      : [
          [
            'loss_scaler',
            new PyCall('deepspeed.runtime.fp16.loss_scaler', 'LossScaler', [], new Map([['cur_scale', 1]])),
          ],
          ['dynamic_loss_scale', false],
          ['overflow', false],
        ],
  );
  state.set('clip_grad', new PyFloat(0));
  state.set('base_optimizer_state', elastic ? [moments] : moments);
  state.set('single_partition_of_fp32_groups', slices);
  if (!bf16Optimizer) state.set('zero_stage', since(version, '0.7.0') ? stageEnum(spec.stage) : 2);
  state.set(
    'group_paddings',
    cuts.map(({ paddings }) => paddings[rank] ?? 0),
  );
  state.set('partition_count', since(version, '0.5.0') ? groups.map(() => ranks) : ranks);
  if (since(version, '0.7.4'))
    state.set(
      'param_slice_mappings',
      spec.groups.map((group) => sliceMapping(group, cutFlat(totalOf(group), ranks, version).partition, rank)),
    );
  if (since(version, '0.4.0')) state.set('ds_version', version);
  return state;
}

/**
 * Where the parameters of a group lie in a rank's slice. DeepSpeed takes the order of the group for it, also where
 * `round_robin_gradients` has put the flat buffer in another one.
 */
function sliceMapping(group: readonly Param[], partition: number, rank: number): Py {
  const fragments: PyMap = new Map();
  let at = 0;
  for (const param of group) {
    const first = Math.max(at, rank * partition);
    const last = Math.min(at + sizeOf(param), (rank + 1) * partition);
    if (first < last) fragments.set(param.name, fragmentAddress(first - rank * partition, last - first));
    at += sizeOf(param);
  }
  return new PyOrdered(fragments);
}

/** A part of a parameter, as `param_slice_mappings` records it: elements `[start, start + numel)` of a slice. */
export function fragmentAddress(start: number, numel: number): Py {
  const state = new Map([
    ['numel', numel],
    ['start', start],
  ]);
  return new PyCall('deepspeed.utils.tensor_fragment', 'fragment_address', [], state);
}

function zero3State(spec: CheckpointSpec, rank: number): PyMap {
  const { masterDtype = 'F32', modelDtype } = spec;
  const groups = zero3Groups(spec);
  const tensors = groups.map((group, g) =>
    shareTensor(spec, isSwapped(spec, g) ? [] : group, rank, masterDtype, 'weights'),
  );
  const moments = adam(
    spec,
    tensors.map(({ shape }) => sizeOf({ shape })),
  );
  return new Map<string, Py>([
    ['zero_stage', since(spec.version, '0.7.0') ? stageEnum(3) : 3],
    ['loss_scaler', new PyCall('deepspeed.runtime.fp16.loss_scaler', 'LossScaler', [], new Map([['cur_scale', 1]]))],
    ['dynamic_loss_scale', false],
    ['overflow', false],
    ['partition_count', spec.ranks],
    ['optimizer_state_dict', moments],
    // A run in fp32 keeps its flat groups in one buffer.
    ['fp32_flat_groups', modelDtype === 'F32' ? inOneStorage(tensors) : tensors],
  ]);
}

/** A rank's shares of parameters, one after another, as a flat tensor. What fills a share up is not defined. */
function shareTensor(
  { ranks }: CheckpointSpec,
  params: readonly Param[],
  rank: number,
  dtype: NaiveFloat,
  role: 'weights' | 'other' = 'other',
): TensorView {
  const itemBytes = bytesOf(dtype);
  const parts = params.map((param) => {
    const length = shareOf(param, ranks) * itemBytes;
    const share = new Uint8Array(length).fill(POISON);
    share.set(valuesOf(param, dtype).subarray(rank * length, (rank + 1) * length));
    return share;
  });
  const bytes = Uint8Array.from(Buffer.concat(parts));
  return tensorOf(dtype, [bytes.length / itemBytes], bytes, role);
}

function isSwapped({ swapped = [] }: CheckpointSpec, group: number): boolean {
  return swapped.includes(group);
}

/** The masters of swapped sub-groups, and an optimizer state of each, as they lie on the disk of a rank. */
function swapFiles(spec: CheckpointSpec, rank: number): [string, Uint8Array][] {
  const { masterDtype = 'F32', swapNames = 'ends' } = spec;
  const order = named(spec).map(({ name }) => name);
  return zero3Groups(spec).flatMap((group, g): [string, Uint8Array][] => {
    if (!isSwapped(spec, g)) return [];
    const ids = group.map(({ name }) => FIRST_ID + order.indexOf(name));
    const shown = swapNames === 'all' ? ids : [ids[0], ids.at(-1)];
    const { bytes } = shareTensor(spec, group, rank, masterDtype).storage;
    // Writes are aligned, so that files are longer than what they hold.
    const aligned = new Uint8Array(Math.ceil((bytes.length + 1) / 64) * 64).fill(POISON);
    aligned.set(bytes);
    const folder = `offloaded_tensors/rank${String(rank).padStart(2, '0')}`;
    return [
      [`${folder}/${shown.join('_')}.tensor.swp`, aligned],
      [`${folder}/exp_avg-${shown.join('_')}.tensor.swp`, aligned.slice().fill(MOMENT)],
    ];
  });
}

function inOneStorage(tensors: readonly TensorView[]): TensorView[] {
  const [first] = tensors;
  if (!first) return [];
  const bytes = Uint8Array.from(Buffer.concat(tensors.map(({ storage }) => storage.bytes)));
  const storage = { ...first.storage, bytes };
  let at = 0;
  return tensors.map(({ shape }) => {
    const view = new TensorView(storage, shape, at);
    at += sizeOf({ shape });
    return view;
  });
}

/** State of an Adam optimizer for tensors of these lengths. */
function adam({ masterDtype = 'F32' }: CheckpointSpec, lengths: readonly number[]): PyMap {
  const moment = (length: number) =>
    tensorOf(masterDtype, [length], new Uint8Array(length * bytesOf(masterDtype)).fill(MOMENT), 'moments');
  const states = lengths.map((length, i): [number, Py] => [
    i,
    new Map<string, Py>([
      ['step', tensorOf('F32', [], encodeFloats('F32', [7]), 'moments')],
      ['exp_avg', moment(length)],
      ['exp_avg_sq', moment(length)],
    ]),
  ]);
  const group = new Map<string, Py>([
    ['lr', new PyFloat(1e-3)],
    ['betas', new PyTuple([new PyFloat(0.9), new PyFloat(0.999)])],
    ['params', [0]],
  ]);
  return new Map<string, Py>([
    ['state', new Map(states)],
    ['param_groups', [group]],
  ]);
}

/** The groups as their flat buffers have them at stage 1 and 2. */
function flatGroups(spec: CheckpointSpec): (readonly Param[])[] {
  const isFirst = since(spec.version, '0.4.0') && !since(spec.version, '0.4.4');
  const isDealt = spec.roundRobin || (isFirst && spec.stage < 3);
  return spec.groups.map((group) => (isDealt ? roundRobin(group, spec.ranks) : group));
}

function zero3Groups(spec: CheckpointSpec): Param[][] {
  return spec.groups.flatMap((group) => subGroups(group, spec.ranks, spec.subGroupSize));
}

function paramShapes(spec: CheckpointSpec): Py {
  // The first versions list every parameter in the order of the model, and 0.4.3 those of the groups in theirs.
  if (!since(spec.version, '0.4.3')) return shapesOf(spec, [...named(spec), ...(spec.frozen ?? [])]);
  if (!since(spec.version, '0.4.4')) return shapesOf(spec, spec.groups.flat());
  const groups = spec.stage === 3 ? zero3Groups(spec) : flatGroups(spec);
  return since(spec.version, '0.5.4') ? groups.map((group) => shapesOf(spec, group)) : shapesOf(spec, groups.flat());
}

function shapesOf({ shapesAs = 'size' }: CheckpointSpec, params: readonly Param[]): Py {
  const write = {
    size: torchSize,
    tuple: (s: readonly number[]) => new PyTuple(s),
    list: (s: readonly number[]) => [...s],
  };
  return new PyOrdered(new Map(params.map(({ name, shape }) => [name, write[shapesAs](shape)])));
}

function stageEnum(stage: number): PyCall {
  return new PyCall('deepspeed.runtime.zero.config', 'ZeroStageEnum', [stage]);
}

function dsConfig({ stage, modelDtype, roundRobin = false }: CheckpointSpec): Py {
  const zero = new Map<string, Py>([
    ['stage', stage],
    ['round_robin_gradients', roundRobin],
  ]);
  return new Map<string, Py>([
    ['zero_optimization', zero],
    ['bf16', new Map([['enabled', modelDtype === 'BF16']])],
  ]);
}

function joined(group: readonly Param[], dtype: NaiveFloat): Uint8Array {
  return Uint8Array.from(Buffer.concat(group.map((param) => valuesOf(param, dtype))));
}

function totalOf(group: readonly Param[]): number {
  return group.reduce((sum, param) => sum + sizeOf(param), 0);
}
