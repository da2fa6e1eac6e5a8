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
import type { Parameter } from './shapes.js';
import { type MadeStorage, writeTorchFile } from './torch-file.js';
import { fillValues, roundToBf16 } from './values.js';

/** What a generated checkpoint is to be. */
export interface CheckpointOptions {
  readonly stage: 2 | 3;
  readonly parameters: readonly Parameter[];
  /** Data-parallel ranks. Default `RANKS`. */
  readonly ranks?: number;
  /**
   * Tensor-parallel ranks that the columns of every parameter are shared out over. Default 1. Where there are several, the
   * stage is 2 and there is one data-parallel rank.
   */
  readonly tensorParallel?: number;
  /** What weights and moments are. Zeros take no space on the disk. Default: values of a sequence. */
  readonly weights?: 'values' | 'zeros';
  readonly moments?: 'values' | 'zeros';
}

/** Ranks that a checkpoint is cut over by default. */
export const RANKS = 4;

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
  /** Present where it is a slice of columns: after so many values, so many of others follow in the sequence. */
  readonly rows?: { readonly length: number; readonly skipped: number };
}

/** Writes the checkpoint into an empty folder, with an EXPECTED.json beside it. */
export function writeCheckpoint(folder: string, options: CheckpointOptions): void {
  const { stage, parameters, ranks = RANKS, tensorParallel = 1 } = options;
  if (tensorParallel > 1 && (stage === 3 || ranks > 1)) throw new Error('Columns are shared out at stage 2, one rank.');
  const tagFolder = join(folder, TAG);
  mkdirSync(tagFolder);
  for (let slice = 0; slice < tensorParallel; slice++) {
    const local = parameters.map((parameter) => columnsOf(parameter, slice, tensorParallel));
    const total = local.reduce((sum, { elements }) => sum + elements, 0);
    const mp = `mp_rank_${String(slice).padStart(2, '0')}`;
    const model = modelParts(options, local);
    for (let rank = 0; rank < ranks; rank++) {
      const segments = stage === 3 ? interleaved(local, rank, ranks) : consecutive(local, rank, ranks);
      const optim = join(tagFolder, `bf16_zero_pp_rank_${rank}_${mp}_optim_states.pt`);
      const padding = rank === ranks - 1 ? paddedTotal(total, ranks) - total : 0;
      writeOptimizer(optim, options, segments, padding);
      if (stage === 3) writeTorchFile(join(tagFolder, `zero_pp_rank_${rank}_${mp}_model_states.pt`), ...model);
    }
    if (stage === 2) writeTorchFile(join(tagFolder, `${mp}_model_states.pt`), ...model);
  }
  writeFileSync(join(folder, 'latest'), TAG);
  writeFileSync(join(folder, 'config.json'), '{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}');
  writeExpected(folder, parameters, options.weights === 'zeros' ? undefined : SEEDS.weights);
}

/** A parameter as one rank holds it. */
interface Local extends Segment {
  readonly name: string;
  readonly shape: readonly number[];
  readonly first: number;
}

/** The columns that a tensor-parallel rank holds. */
function columnsOf({ name, shape, elements, first }: Parameter, slice: number, tensorParallel: number): Local {
  if (tensorParallel === 1) return { name, shape, elements, first };
  const columns = shape.at(-1) ?? 1;
  const length = columns / tensorParallel;
  return {
    name,
    shape: [...shape.slice(0, -1), length],
    elements: elements / tensorParallel,
    first: first + slice * length,
    rows: { length, skipped: columns - length },
  };
}

/** Stage 3: every parameter is cut over all ranks, and each cut is padded to the same length. */
function interleaved(parameters: readonly Local[], rank: number, ranks: number): Segment[] {
  return parameters.flatMap(({ elements, first }) => {
    const cut = Math.ceil(elements / ranks);
    const start = Math.min(rank * cut, elements);
    const held = Math.min(cut, elements - start);
    return [
      { elements: held, first: first + start },
      { elements: cut - held, first: undefined },
    ];
  });
}

/** Stage 2: one flat buffer of all parameters is cut; DeepSpeed strips the padding of the last cut when it saves. */
function consecutive(parameters: readonly Local[], rank: number, ranks: number): Segment[] {
  if (ranks === 1) return [...parameters];
  const total = parameters.reduce((sum, { elements }) => sum + elements, 0);
  const cut = paddedTotal(total, ranks) / ranks;
  return [{ elements: Math.min(cut, total - rank * cut), first: rank * cut }];
}

/** Stage 2 aligns the flat buffer to twice the number of ranks. */
function paddedTotal(total: number, ranks: number): number {
  return Math.ceil(total / (2 * ranks)) * 2 * ranks;
}

function writeOptimizer(
  path: string,
  { stage, ranks = RANKS, weights, moments }: CheckpointOptions,
  segments: readonly Segment[],
  padding: number,
): void {
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
          partition_count: int(ranks),
          optimizer_state_dict: dict({ state, param_groups: list() }),
          fp32_flat_groups: list(flat(3)),
        })
      : dict({
          ...common,
          partition_count: list(int(ranks)),
          group_paddings: list(int(padding)),
          base_optimizer_state: dict({ state, param_groups: list(dict({ lr: int(1) })) }),
          single_partition_of_fp32_groups: list(flat(3)),
          ds_version: VERSION,
        });
  writeTorchFile(path, object(dict({ optimizer_state_dict: optimizer, ...commonFields(stage) })), [
    { byteLength: 4, fill: (into) => new DataView(into.buffer).setFloat32(0, 1, true) },
    flatStorage([{ elements, first: 0 }], moments === 'zeros' ? undefined : SEEDS.firstMoment),
    flatStorage([{ elements, first: 0 }], moments === 'zeros' ? undefined : SEEDS.secondMoment),
    flatStorage(segments, weights === 'zeros' ? undefined : SEEDS.weights),
  ]);
}

/** What a model file holds: the bf16 copies at stage 2, hollow tensors at stage 3. All ranks write the same. */
function modelParts(options: CheckpointOptions, parameters: readonly Local[]): readonly [Uint8Array, MadeStorage[]] {
  const { stage, ranks = RANKS, tensorParallel = 1, weights } = options;
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
    dp_world_size: int(ranks),
    mp_world_size: int(tensorParallel),
    ...commonFields(stage),
  });
  const copies = parameters.map((parameter) => (stage === 3 ? EMPTY : copyStorage(parameter, weights === 'zeros')));
  return [object(states), copies];
}

/** fp32: the segments one after the other, or zeros where there is no seed. */
function flatStorage(segments: readonly Segment[], seed: number | undefined): MadeStorage {
  const byteLength = 4 * segments.reduce((sum, segment) => sum + segment.elements, 0);
  if (seed === undefined) return { byteLength };
  return {
    byteLength,
    fill(into, at) {
      fillSegments(new Uint32Array(into.buffer, into.byteOffset, into.length / 4), segments, at / 4, seed);
    },
  };
}

/** bf16: the weights of a parameter, rounded. */
function copyStorage(parameter: Local, zeros: boolean): MadeStorage {
  const byteLength = 2 * parameter.elements;
  if (zeros) return { byteLength };
  return {
    byteLength,
    fill(into, at) {
      const halves = new Uint16Array(into.buffer, into.byteOffset, into.length / 2);
      const words = new Uint32Array(halves.length);
      fillSegments(words, [parameter], at / 2, SEEDS.weights);
      roundToBf16(words, halves);
    },
  };
}

/** Fills `words` with elements `[from, from + words.length)` of segments that lie one after another. */
function fillSegments(words: Uint32Array, segments: readonly Segment[], from: number, seed: number): void {
  const to = from + words.length;
  let start = 0;
  for (const segment of segments) {
    const [begin, end] = [Math.max(start, from), Math.min(start + segment.elements, to)];
    if (begin < end) fillSegment(words.subarray(begin - from, end - from), segment, begin - start, seed);
    start += segment.elements;
  }
}

/** Fills `words` with elements of a segment from `from` on. */
function fillSegment(words: Uint32Array, { first, rows }: Segment, from: number, seed: number): void {
  if (first === undefined) words.fill(PADDING_WORD);
  else if (!rows) fillValues(words, first + from, seed);
  else {
    for (let done = 0; done < words.length; ) {
      const [row, column] = [Math.floor((from + done) / rows.length), (from + done) % rows.length];
      const part = words.subarray(done, done + rows.length - column);
      fillValues(part, first + row * (rows.length + rows.skipped) + column, seed);
      done += part.length;
    }
  }
}

const EMPTY: MadeStorage = { byteLength: 0 };

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
