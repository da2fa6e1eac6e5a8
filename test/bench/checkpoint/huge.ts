/**
 * Checkpoints of many ranks and many tensors, as DeepSpeed 0.19 lays them out: bf16 training with Adam, two parameter
 * groups, all weights zeros. What they cost to inspect and to plan is that of real ones.
 *
 * @module
 */

import { Float, Made, pickleValue, StorageRef, Tuple, type Value } from './pickler.js';
import { type SparseFile, type SparseStorage, sparseTorchFile } from './sparse.js';

/** What a checkpoint is to be. */
export interface HugeOptions {
  readonly stage: 1 | 2 | 3;
  readonly ranks: number;
  /** Parameters, at least 12; rounded up to whole layers of nine. */
  readonly tensors: number;
  /** Width of the model. Default 8192. */
  readonly hidden?: number;
  /** Folder in zip files: the name of the file (default), or `archive`. */
  readonly rootNames?: 'file' | 'archive';
}

interface Shape {
  readonly name: string;
  readonly shape: readonly number[];
}

/** Folder of the tag. */
const TAG = 'global_step1000';

/** GPUs of a node: the device of each tensor says which one it was on. */
const NODE_RANKS = 8;

const VOCABULARY = 128_256;

/** The files of a checkpoint by path. Each is made when it is asked for. */
export function hugeCheckpoint(options: HugeOptions): ReadonlyMap<string, () => SparseFile> {
  const groups = groupsOf(options);
  const optims = Array.from({ length: options.ranks }, (_, rank): [string, () => SparseFile] => {
    const root = `bf16_zero_pp_rank_${rank}_mp_rank_00_optim_states`;
    return [`${TAG}/${root}.pt`, () => optimFile(options, groups, rank, root)];
  });
  const made = new Map<string, SparseFile>();
  const models = Array.from(
    { length: options.stage === 3 ? options.ranks : 1 },
    (_, rank): [string, () => SparseFile] => {
      const root = options.stage === 3 ? `zero_pp_rank_${rank}_mp_rank_00_model_states` : 'mp_rank_00_model_states';
      return [`${TAG}/${root}.pt`, () => modelFile(options, groups, rank, root, made)];
    },
  );
  const text = (content: string): SparseFile => {
    const bytes = new Uint8Array(Buffer.from(content));
    return { byteLength: bytes.length, pieces: [{ at: 0, bytes }] };
  };
  return new Map([
    ...optims,
    ...models,
    ['latest', () => text(TAG)],
    ['config.json', () => text('{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}')],
  ]);
}

/** Matrices, and vectors. */
function groupsOf({ tensors, hidden = 8192 }: HugeOptions): readonly (readonly Shape[])[] {
  const layers = Math.ceil((tensors - 3) / 9);
  const inner = Math.floor(hidden * 3.5);
  const square = ['self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj', 'self_attn.o_proj'];
  const ofLayer: readonly (readonly [string, readonly number[]])[] = [
    ...square.map((name) => [name, [hidden, hidden]] as const),
    ['mlp.gate_proj', [inner, hidden]],
    ['mlp.up_proj', [inner, hidden]],
    ['mlp.down_proj', [hidden, inner]],
    ['input_layernorm', [hidden]],
    ['post_attention_layernorm', [hidden]],
  ];
  const all: Shape[] = [
    { name: 'model.embed_tokens.weight', shape: [VOCABULARY, hidden] },
    ...Array.from({ length: layers }, (_, i) =>
      ofLayer.map(([name, shape]) => ({ name: `model.layers.${i}.${name}.weight`, shape })),
    ).flat(),
    { name: 'model.norm.weight', shape: [hidden] },
    { name: 'lm_head.weight', shape: [VOCABULARY, hidden] },
  ];
  return [all.filter(({ shape }) => shape.length > 1), all.filter(({ shape }) => shape.length === 1)];
}

function optimFile(
  options: HugeOptions,
  groups: readonly (readonly Shape[])[],
  rank: number,
  root: string,
): SparseFile {
  const { stage, ranks } = options;
  const device = `cuda:${rank % NODE_RANKS}`;
  const slices = groups.map((group) => sliceOf(options, group, rank));
  const flat = (elements: number): Value => tensorOf(new StorageRef('FloatStorage', elements, device), [elements]);
  const moments: Value = new Map(
    slices.map(({ elements }, group): [number, Value] => [
      group,
      new Map<string, Value>([
        ['step', tensorOf(new StorageRef('FloatStorage', 1, 'cpu'), [])],
        ['exp_avg', flat(elements)],
        ['exp_avg_sq', flat(elements)],
      ]),
    ]),
  );
  const adam: Value = new Map<string, Value>([
    ['state', moments],
    ['param_groups', slices.map((_, group) => paramGroup(group))],
  ]);
  const masters = slices.map(({ elements }) => flat(elements));
  const common: [string, Value][] = [
    ['loss_scaler', lossScaler()],
    ['dynamic_loss_scale', false],
    ['overflow', false],
    ['zero_stage', new Made('deepspeed.runtime.zero.config.ZeroStageEnum', [stage])],
  ];
  const state = new Map<string, Value>(
    stage === 3
      ? [...common, ['partition_count', ranks], ['optimizer_state_dict', adam], ['fp32_flat_groups', masters]]
      : [
          ...common,
          ['clip_grad', new Float(1)],
          ['base_optimizer_state', adam],
          ['single_partition_of_fp32_groups', masters],
          ['group_paddings', slices.map(({ padding }) => padding)],
          ['partition_count', slices.map(() => ranks)],
          ['ds_version', VERSION],
          [
            'param_slice_mappings',
            slices.map(({ fragments }) => new Made('collections.OrderedDict', [], { items: fragments })),
          ],
        ],
  );
  const { bytes, storages } = pickleValue(
    new Map<string, Value>([
      ['optimizer_state_dict', state],
      ['ds_config', dsConfig(stage)],
      ['ds_version', VERSION],
    ]),
  );
  // The moments of each rank start with its number, so that no two files are alike; every step is 1.
  let next = 0;
  const contents = storages.map(({ elements }): SparseStorage => {
    const isStep = elements === 1 && next % 3 === 0 && next < 3 * slices.length;
    const isMoment = !isStep && next < 3 * slices.length && elements > 0;
    next++;
    const start = isStep ? floats(1) : isMoment ? floats(rank) : new Uint8Array();
    return { byteLength: 4 * elements, start };
  });
  return sparseTorchFile(options.rootNames === 'archive' ? 'archive' : root, bytes, contents);
}

/** A rank's part of a group. */
interface Slice {
  readonly elements: number;
  readonly padding: number;
  readonly fragments: ReadonlyMap<string, Value>;
}

function sliceOf({ stage, ranks }: HugeOptions, group: readonly Shape[], rank: number): Slice {
  if (stage === 3) {
    const elements = group.reduce((sum, { shape }) => sum + Math.ceil(sizeOf(shape) / ranks), 0);
    return { elements, padding: 0, fragments: new Map() };
  }
  const total = group.reduce((sum, { shape }) => sum + sizeOf(shape), 0);
  const cut = (Math.ceil(total / (2 * ranks)) * 2 * ranks) / ranks;
  const [begin, end] = [rank * cut, (rank + 1) * cut];
  const fragments = new Map<string, Value>();
  let at = 0;
  for (const { name, shape } of group) {
    const [first, last] = [Math.max(at, begin), Math.min(at + sizeOf(shape), end)];
    if (first < last) fragments.set(name, fragmentAddress(first - begin, last - first));
    at += sizeOf(shape);
    if (at >= end) break;
  }
  const elements = Math.max(0, Math.min(total, end) - begin);
  return { elements, padding: cut - elements, fragments };
}

function modelFile(
  options: HugeOptions,
  groups: readonly (readonly Shape[])[],
  rank: number,
  root: string,
  made: Map<string, SparseFile>,
): SparseFile {
  const { stage, ranks, rootNames = 'file' } = options;
  const device = `cuda:${stage === 3 ? rank % NODE_RANKS : 0}`;
  // Files of equal content and name are made once.
  const key = rootNames === 'archive' ? device : root;
  const known = made.get(key);
  if (known && rootNames === 'archive') return known;
  const all = groups.flat();
  const module = all.map(({ name, shape }): [string, Value] => {
    const elements = stage === 3 ? 0 : sizeOf(shape);
    const stored = stage === 3 ? [0] : shape;
    return [name, tensorOf(new StorageRef('BFloat16Storage', elements, device), stored)];
  });
  const shapes = groups.map((group) => {
    const sizes = group.map(({ name, shape }): [string, Value] => [name, new Made('torch.Size', [new Tuple(shape)])]);
    return new Made('collections.OrderedDict', [], { items: new Map(sizes) });
  });
  const { bytes, storages } = pickleValue(
    new Map<string, Value>([
      ['module', new Made('collections.OrderedDict', [], { items: new Map(module) })],
      ['buffer_names', []],
      ['optimizer', null],
      ['param_shapes', shapes],
      ['frozen_param_shapes', null],
      ['shared_params', new Map()],
      ['frozen_param_fragments', null],
      ['lr_scheduler', null],
      ['global_steps', 1000],
      ['dp_world_size', ranks],
      ['mp_world_size', 1],
      ['ds_config', dsConfig(stage)],
      ['ds_version', VERSION],
    ]),
  );
  const contents = storages.map(({ elements }) => ({ byteLength: 2 * elements, start: new Uint8Array() }));
  const file = sparseTorchFile(rootNames === 'archive' ? 'archive' : root, bytes, contents);
  if (rootNames === 'archive') made.set(key, file);
  return file;
}

function tensorOf(storage: StorageRef, shape: readonly number[]): Value {
  const stride = shape.map((_, i) => sizeOf(shape.slice(i + 1)));
  const hooks = new Made('collections.OrderedDict');
  return new Made('torch._utils._rebuild_tensor_v2', [storage, 0, new Tuple(shape), new Tuple(stride), false, hooks]);
}

function paramGroup(group: number): Value {
  return new Map<string, Value>([
    ['lr', new Float(1e-4)],
    ['betas', new Tuple([new Float(0.9), new Float(0.95)])],
    ['eps', new Float(1e-8)],
    ['weight_decay', new Float(group === 0 ? 0.1 : 0)],
    ['params', [group]],
  ]);
}

function fragmentAddress(start: number, numel: number): Value {
  const state = new Map<string, Value>([
    ['numel', numel],
    ['start', start],
  ]);
  return new Made('deepspeed.utils.tensor_fragment.fragment_address', [], { state });
}

function lossScaler(): Value {
  const state = new Map<string, Value>([
    ['cur_scale', new Float(1)],
    ['dynamic', false],
  ]);
  return new Made('deepspeed.runtime.fp16.loss_scaler.LossScaler', [], { state });
}

function dsConfig(stage: number): Value {
  return new Map<string, Value>([
    ['zero_optimization', new Map<string, Value>([['stage', stage]])],
    ['bf16', new Map<string, Value>([['enabled', true]])],
  ]);
}

const VERSION = '0.19.6';

function floats(value: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Float32Array.of(value).buffer);
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}
