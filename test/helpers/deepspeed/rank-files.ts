/** The files of one model-parallel rank at stage 1 to 3, from what its ranks hold. */

import { bytesOf } from '../../../src/base/dtype.js';
import { decodeFloats, encodeFloats, type NaiveFloat } from '../naive-floats.js';
import type { Held } from './cuts.js';
import { cutFlat } from './flat.js';
import { type Py, PyCall, PyFloat, type PyMap, PyOrdered, PyTuple, TensorView, tensorOf, torchSize } from './python.js';
import { since, sizeOf } from './spec.js';

/** A parameter group: what a data-parallel rank holds a partition of. */
export interface HeldGroup {
  /** The name that DeepSpeed gives to groups of expert parameters. */
  readonly name?: string;
  /** Ranks that it is cut over. */
  readonly ranks: number;
  /** The parameters that a rank has a partition of, and which partition. */
  readonly heldBy: (rank: number) => { readonly params: readonly Held[]; readonly partition: number };
}

/** One model-parallel rank. */
export interface RankFiles {
  readonly version: string;
  readonly stage: 1 | 2 | 3;
  readonly modelDtype: NaiveFloat;
  readonly mp: number;
  /** Data-parallel ranks. */
  readonly ranks: number;
  readonly groups: readonly HeldGroup[];
  readonly bf16Optimizer?: boolean;
}

/** A group whose ranks all hold the same parameters. */
export function denseGroup(params: readonly Held[], ranks: number): HeldGroup {
  return { ranks, heldBy: (rank) => ({ params, partition: rank }) };
}

/** The optimizer files by their names. */
export function optimRoots(files: RankFiles): Map<string, PyMap> {
  const prefix = files.modelDtype === 'BF16' && since(files.version, '0.6.2') ? 'bf16_' : '';
  const ranks = Array.from({ length: files.ranks }, (_, rank): [string, PyMap] => {
    const state = files.stage === 3 ? stage3State(files, rank) : stage12State(files, rank);
    const root: PyMap = new Map([['optimizer_state_dict', state]]);
    if (!since(files.version, '0.6.0')) root.set('param_shapes', optimShapes(files, rank));
    root.set('ds_version', files.version);
    return [`${prefix}zero_pp_rank_${rank}_${mpName(files.mp)}_optim_states.pt`, root];
  });
  return new Map(ranks);
}

/** `mp_rank_01`. */
export function mpName(mp: number): string {
  return `mp_rank_${String(mp).padStart(2, '0')}`;
}

/** `param_shapes` as the first rank writes them. */
export function shapesOf({ groups }: RankFiles, rank = 0): Py {
  return groups.map(
    ({ heldBy }) => new PyOrdered(new Map(heldBy(rank).params.map(({ name, shape }) => [name, new PyTuple(shape)]))),
  );
}

/** `param_shapes` of an optimizer file: one list before 0.5.4, which does not tell the groups apart. */
function optimShapes(files: RankFiles, rank: number): Py {
  if (since(files.version, '0.5.4')) return shapesOf(files, rank);
  const params = files.groups.flatMap(({ heldBy }) => heldBy(rank).params);
  return new PyOrdered(new Map(params.map(({ name, shape }) => [name, torchSize(shape)])));
}

/** The 16-bit copy of what is held, in a storage of its own. */
export function copyOf({ shape, master }: Held, dtype: NaiveFloat): TensorView {
  return tensorOf(dtype, shape, encodeFloats(dtype, decodeFloats('F32', master)), 'copy');
}

/** `frozen_param_shapes` as torch.Size. */
export function frozenShapes(held: readonly Held[]): Py {
  return new PyOrdered(new Map(held.map(({ name, shape }) => [name, torchSize(shape)])));
}

function stage12State({ groups, version, bf16Optimizer = false }: RankFiles, rank: number): PyMap {
  const parts = groups.map(({ ranks, heldBy }) => {
    const { params, partition } = heldBy(rank);
    const cut = cutFlat(total(params), ranks, version, bf16Optimizer);
    const flat = new Uint8Array(cut.padded * 4);
    flat.set(Buffer.concat(params.map(({ master }) => master)));
    const bytes = flat.slice(partition * cut.partition * 4, (partition + 1) * cut.partition * 4);
    const slice = new TensorView({ dtype: 'F32', bytes, role: 'weights' }, [cut.saved[partition] ?? 0]);
    return { slice, padding: cut.paddings[partition] ?? 0, fragments: fragments(params, partition, cut.partition) };
  });
  const state: PyMap = new Map<string, Py>([
    [
      'base_optimizer_state',
      baseState(
        groups,
        parts.map(({ slice }) => sizeOf(slice)),
      ),
    ],
    ['single_partition_of_fp32_groups', parts.map(({ slice }) => slice)],
    ['group_paddings', parts.map(({ padding }) => padding)],
    ['partition_count', groups.map(({ ranks }) => ranks)],
  ]);
  if (!bf16Optimizer) state.set('zero_stage', 2);
  if (since(version, '0.7.4'))
    state.set(
      'param_slice_mappings',
      parts.map(({ fragments: of }) => of),
    );
  return state;
}

/** The parts of parameters that lie in a partition, as its rank records them. */
function fragments(params: readonly Held[], partition: number, length: number): Py {
  const map: PyMap = new Map();
  let at = 0;
  for (const param of params) {
    const first = Math.max(at, partition * length);
    const last = Math.min(at + sizeOf(param), (partition + 1) * length);
    const address = new Map([
      ['numel', last - first],
      ['start', first - partition * length],
    ]);
    if (first < last) {
      map.set(param.name, new PyCall('deepspeed.utils.tensor_fragment', 'fragment_address', [], address));
    }
    at += sizeOf(param);
  }
  return new PyOrdered(map);
}

function stage3State({ groups, ranks }: RankFiles, rank: number): PyMap {
  const tensors = groups.map(({ heldBy }) => shareTensor(heldBy(rank).params, rank, ranks, 'F32'));
  return new Map<string, Py>([
    ['zero_stage', 3],
    ['partition_count', ranks],
    ['optimizer_state_dict', baseState(groups, tensors.map(sizeOf))],
    ['fp32_flat_groups', tensors],
  ]);
}

/** A rank's shares of parameters at stage 3, one after another. */
export function shareTensor(params: readonly Held[], rank: number, ranks: number, dtype: NaiveFloat): TensorView {
  const size = bytesOf(dtype);
  const shares = params.map((param) => {
    const length = Math.ceil(sizeOf(param) / ranks) * size;
    const share = new Uint8Array(length).fill(0x5c);
    const bytes = encodeFloats(dtype, decodeFloats('F32', param.master));
    share.set(bytes.subarray(rank * length, (rank + 1) * length));
    return share;
  });
  const bytes = Uint8Array.from(Buffer.concat(shares));
  return tensorOf(dtype, [bytes.length / size], bytes, 'weights');
}

function baseState(groups: readonly HeldGroup[], lengths: readonly number[]): PyMap {
  const moment = (length: number) => tensorOf('F32', [length], new Uint8Array(length * 4).fill(0xa5), 'moments');
  const states = lengths.map((length, i): [number, Py] => [i, new Map([['exp_avg', moment(length)]])]);
  const written = groups.map(
    ({ name }, i) =>
      new Map<string, Py>([
        ['name', name ?? 'dense'],
        ...(name === undefined ? [] : ([['moe', true]] as [string, Py][])),
        ['lr', new PyFloat(1e-3)],
        ['params', [i]],
      ]),
  );
  return new Map<string, Py>([
    ['state', new Map(states)],
    ['param_groups', written],
  ]);
}

function total(params: readonly Held[]): number {
  return params.reduce((sum, param) => sum + sizeOf(param), 0);
}
