/** The state of a ZeRO optimizer as a rank saves it, by stage and version. */

import { bytesOf } from '../../../src/base/dtype.js';
import { cutFlat } from './flat.js';
import {
  adam,
  flatGroups,
  joined,
  MOMENT,
  named,
  POISON,
  shareTensor,
  stageEnum,
  totalOf,
  zero3Groups,
} from './layout.js';
import { type Py, PyCall, PyFloat, type PyMap, PyOrdered, TensorView } from './python.js';
import { type CheckpointSpec, type Param, since, sizeOf } from './spec.js';

/** Id of the first parameter. Others had been given out before the model was built. */
const FIRST_ID = 3;

/** `optimizer_state_dict` of a rank. */
export function optimState(spec: CheckpointSpec, rank: number): PyMap {
  if (spec.stage === 3) return zero3State(spec, rank);
  return spec.stage === 1 && (spec.dealt || !since(spec.version, '0.4.0'))
    ? dealtState(spec, rank)
    : zero12State(spec, rank);
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

function isSwapped({ swapped = [] }: CheckpointSpec, group: number): boolean {
  return swapped.includes(group);
}

/** The masters of swapped sub-groups, and an optimizer state of each, as they lie on the disk of a rank. */
export function swapFiles(spec: CheckpointSpec, rank: number): [string, Uint8Array][] {
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
