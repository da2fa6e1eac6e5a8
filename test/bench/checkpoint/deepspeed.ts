/**
 * Writes a checkpoint as DeepSpeed 0.19 does: bf16 training with Adam, without a Python at hand.
 *
 * @module
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { call, dict, int, type PicklePart, pickle, tuple, unicode } from '../../helpers/pickle.js';
import { storage, tensor } from '../../helpers/torch.js';
import { writeExpected } from './expected.js';
import { llamaParameters, type Parameter } from './shapes.js';
import { type MadeStorage, writeTorchFile } from './torch-file.js';
import { fillValues, roundToBf16 } from './values.js';

/** What a generated checkpoint is to be. */
export interface CheckpointOptions {
  readonly stage: 2 | 3;
  /** About how many parameters, in elements. */
  readonly elements: number;
}

/** Ranks that a checkpoint is cut over. */
export const WORLD = 4;

/** Seeds of the sequences. All ranks share the sequence of the weights; those of the moments start anew on each. */
export const SEEDS = { weights: 1, firstMoment: 2, secondMoment: 3 };

/** An fp32 NaN: what DeepSpeed leaves in padding is arbitrary, and this one shows if it gets out. */
const PADDING_WORD = 0x7fc00000;

/** Names of the files and the tag. */
const TAG = 'global_step1';

/** A part of a rank's flat buffer: values from `first` on, or padding. */
interface Segment {
  readonly elements: number;
  readonly first: number | undefined;
}

/** Writes the checkpoint into an empty folder, with an EXPECTED.json beside it. */
export function writeCheckpoint(folder: string, { stage, elements }: CheckpointOptions): void {
  const parameters = llamaParameters(elements);
  const total = parameters.reduce((sum, parameter) => sum + parameter.elements, 0);
  const tagFolder = join(folder, TAG);
  mkdirSync(tagFolder);
  for (let rank = 0; rank < WORLD; rank++) {
    const segments = stage === 3 ? interleaved(parameters, rank) : consecutive(total, rank);
    const optim = join(tagFolder, `bf16_zero_pp_rank_${rank}_mp_rank_00_optim_states.pt`);
    writeOptimizer(optim, stage, segments, paddedTotal(total) - total);
    if (stage === 3) writeModel(join(tagFolder, `zero_pp_rank_${rank}_mp_rank_00_model_states.pt`), stage, parameters);
  }
  if (stage === 2) writeModel(join(tagFolder, 'mp_rank_00_model_states.pt'), stage, parameters);
  writeFileSync(join(folder, 'latest'), TAG);
  writeFileSync(join(folder, 'config.json'), '{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}');
  writeExpected(folder, parameters, SEEDS.weights);
}

/** Stage 3: every parameter is cut over all ranks, and each cut is padded to the same length. */
function interleaved(parameters: readonly Parameter[], rank: number): Segment[] {
  return parameters.flatMap(({ elements, first }) => {
    const cut = Math.ceil(elements / WORLD);
    const start = Math.min(rank * cut, elements);
    const held = Math.min(cut, elements - start);
    return [
      { elements: held, first: first + start },
      { elements: cut - held, first: undefined },
    ];
  });
}

/** Stage 2: one flat buffer of all parameters is cut; DeepSpeed strips the padding of the last cut when it saves. */
function consecutive(total: number, rank: number): Segment[] {
  const cut = paddedTotal(total) / WORLD;
  return [{ elements: Math.min(cut, total - rank * cut), first: rank * cut }];
}

/** Stage 2 aligns the flat buffer to twice the number of ranks. */
function paddedTotal(total: number): number {
  return Math.ceil(total / (2 * WORLD)) * 2 * WORLD;
}

function writeOptimizer(path: string, stage: 2 | 3, segments: readonly Segment[], padding: number): void {
  const elements = segments.reduce((sum, segment) => sum + segment.elements, 0);
  const flat = (key: number): Uint8Array => tensor(storage('FloatStorage', String(key), elements), [elements], [1]);
  const adam = dict({ step: tensor(storage('FloatStorage', '0', 1), [], []), exp_avg: flat(1), exp_avg_sq: flat(2) });
  const state = pickle('}', int(0), adam, 's');
  const common = {
    loss_scaler: 'N',
    dynamic_loss_scale: FALSE,
    overflow: FALSE,
    zero_stage: int(stage),
  };
  const optimizer =
    stage === 3
      ? dict({
          ...common,
          partition_count: int(WORLD),
          optimizer_state_dict: dict({ state, param_groups: list() }),
          fp32_flat_groups: list(flat(3)),
        })
      : dict({
          ...common,
          partition_count: list(int(WORLD)),
          group_paddings: list(int(padding)),
          base_optimizer_state: dict({ state, param_groups: list(dict({ lr: int(1) })) }),
          single_partition_of_fp32_groups: list(flat(3)),
          ds_version: VERSION,
        });
  writeTorchFile(path, object(dict({ optimizer_state_dict: optimizer, ...commonFields(stage) })), [
    { byteLength: 4, fill: (into) => new DataView(into.buffer).setFloat32(0, 1, true) },
    flatStorage([{ elements, first: 0 }], SEEDS.firstMoment),
    flatStorage([{ elements, first: 0 }], SEEDS.secondMoment),
    flatStorage(segments, SEEDS.weights),
  ]);
}

/** A model file: the bf16 copies at stage 2, hollow tensors at stage 3. */
function writeModel(path: string, stage: 2 | 3, parameters: readonly Parameter[]): void {
  const module = parameters.map(({ name, shape, elements }, key) => {
    const stored = stage === 3 ? [0] : shape;
    const ofStorage = storage('BFloat16Storage', String(key), stage === 3 ? 0 : elements);
    return [unicode(name), tensor(ofStorage, stored, contiguous(stored))] as const;
  });
  const shapes = parameters.map(({ name, shape }) => {
    return [unicode(name), call('torch', 'Size', tuple(...shape.map(int)))] as const;
  });
  const states = dict({
    module: orderedDict(module),
    buffer_names: list(),
    optimizer: 'N',
    param_shapes: list(orderedDict(shapes)),
    frozen_param_shapes: 'N',
    shared_params: '}',
    frozen_param_fragments: 'N',
    lr_scheduler: 'N',
    global_steps: int(1),
    dp_world_size: int(WORLD),
    mp_world_size: int(1),
    ...commonFields(stage),
  });
  writeTorchFile(
    path,
    object(states),
    parameters.map((parameter) => (stage === 3 ? EMPTY : copyStorage(parameter))),
  );
}

/** fp32: the segments one after the other. */
function flatStorage(segments: readonly Segment[], seed: number): MadeStorage {
  const byteLength = 4 * segments.reduce((sum, segment) => sum + segment.elements, 0);
  return {
    byteLength,
    fill(into, at) {
      const words = new Uint32Array(into.buffer, into.byteOffset, into.length / 4);
      const [from, to] = [at / 4, at / 4 + words.length];
      let start = 0;
      for (const { elements, first } of segments) {
        const [begin, end] = [Math.max(start, from), Math.min(start + elements, to)];
        if (begin < end) {
          const part = words.subarray(begin - from, end - from);
          if (first === undefined) part.fill(PADDING_WORD);
          else fillValues(part, first + begin - start, seed);
        }
        start += elements;
      }
    },
  };
}

/** bf16: the weights of a parameter, rounded. */
function copyStorage({ elements, first }: Parameter): MadeStorage {
  return {
    byteLength: 2 * elements,
    fill(into, at) {
      const halves = new Uint16Array(into.buffer, into.byteOffset, into.length / 2);
      const words = new Uint32Array(halves.length);
      fillValues(words, first + at / 2, SEEDS.weights);
      roundToBf16(words, halves);
    },
  };
}

const EMPTY: MadeStorage = { byteLength: 0, fill: () => {} };

const FALSE = '\x89';
const TRUE = '\x88';
const VERSION = unicode('0.19.6');

function commonFields(stage: 2 | 3): Record<string, PicklePart> {
  const config = dict({ zero_optimization: dict({ stage: int(stage) }), bf16: dict({ enabled: TRUE }) });
  return { ds_config: config, ds_version: VERSION };
}

function object(value: Uint8Array): Uint8Array {
  return pickle('\x80\x02', value, '.');
}

function list(...items: readonly PicklePart[]): Uint8Array {
  return pickle('](', ...items, 'e');
}

function orderedDict(items: readonly (readonly [key: Uint8Array, value: Uint8Array])[]): Uint8Array {
  return pickle(call('collections', 'OrderedDict'), '(', ...items.flat(), 'u');
}

function contiguous(shape: readonly number[]): number[] {
  return shape.map((_, i) => shape.slice(i + 1).reduce((step, size) => step * size, 1));
}
