/** What a checkpoint to be written is like, and what must come out of it. */

import type { DType } from '../../../src/base/dtype.js';
import { encodeFloats, type NaiveFloat } from '../naive-floats.js';
import type { PyMap } from './python.js';

/** A parameter. Its values follow from its name. */
export interface Param {
  readonly name: string;
  readonly shape: readonly number[];
}

/** A persistent buffer. */
export interface NamedBuffer extends Param {
  readonly dtype: DType;
  readonly bytes: Uint8Array;
}

/** A run of DeepSpeed at the moment when it saves. */
export interface CheckpointSpec {
  readonly stage: 0 | 1 | 2 | 3;
  readonly ranks: number;
  /** Version of DeepSpeed. It decides about names, fields and padding. */
  readonly version: string;
  readonly modelDtype: NaiveFloat;
  /** Default F32. */
  readonly masterDtype?: NaiveFloat;
  /** Trainable parameters of each parameter group of the optimizer. */
  readonly groups: readonly (readonly Param[])[];
  /** Stage 2: `round_robin_gradients`. */
  readonly roundRobin?: boolean;
  /** Stage 1 by `BF16_Optimizer`. */
  readonly bf16Optimizer?: boolean;
  /** Stage 1: `legacy_stage1`, the layout from before 0.4.0, which was an option until 0.5.8. */
  readonly dealt?: boolean;
  /** Stage 1 before 0.4.0: elements that are exchanged at once. They are cut into a piece for each rank. */
  readonly commElements?: number;
  /** Stage 1 before 0.4.0: without `elastic_checkpoint` the padding is kept, and less is recorded. Default true. */
  readonly elastic?: boolean;
  /** Names in the order of `named_parameters`. Default: the groups in order. */
  readonly namedOrder?: readonly string[];
  /** The state dict holds copies of the parameters instead of views into the flat buffers. */
  readonly clonedModule?: boolean;
  /** Stage 3: sub-groups whose masters are in swap files, by index. */
  readonly swapped?: readonly number[];
  /** Swap files are named by the ids of all parameters or by the first and the last. Default `ends`. */
  readonly swapNames?: 'all' | 'ends';
  /** Stage 3: elements of a rank after which a sub-group ends. Default: one sub-group for each group. */
  readonly subGroupSize?: number;
  /** Stage 0: how the optimizer keeps its masters. Default `flat`. */
  readonly masters?: 'flat' | 'shaped' | 'none';
  readonly frozen?: readonly Param[];
  /** Saved with `exclude_frozen_parameters`. */
  readonly excludeFrozen?: boolean;
  /** Names of one and the same parameter, alias first. */
  readonly tied?: readonly (readonly [alias: string, owner: string])[];
  readonly buffers?: readonly NamedBuffer[];
  /** What shapes are stored as. Default `size`. */
  readonly shapesAs?: 'size' | 'tuple' | 'list';
  readonly container?: 'zip' | 'legacy';
  /** Folder in zip files: the name of the file, as torch saves to a path, or `archive`, as to a stream. Default `archive`. */
  readonly rootNames?: 'archive' | 'file';
  /** False in zip files that were saved without CRC-32s. Default true. */
  readonly crcs?: boolean;
  /** Folder of the files; empty for none. Default `global_step7`. */
  readonly folder?: string;
  /** Changes a model file before it is written. */
  readonly editModel?: (root: PyMap, rank: number) => void;
  /** Changes an optimizer file before it is written: the whole, and its `optimizer_state_dict`. */
  readonly editOptim?: (root: PyMap, state: PyMap, rank: number) => void;
}

/** A tensor as it must come out with the dtype that is stored. */
export interface ExpectedTensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** True where `version` is `first` or later. */
export function since(version: string, first: string): boolean {
  return new Intl.Collator('en', { numeric: true }).compare(version, first) >= 0;
}

/** Elements of a shape. */
export function sizeOf({ shape }: { readonly shape: readonly number[] }): number {
  return shape.reduce((n, size) => n * size, 1);
}

/** The values of a parameter at a dtype. */
export function valuesOf(param: Param, dtype: NaiveFloat): Uint8Array {
  let state =
    [...param.name].reduce((hash, char) => Math.imul(hash ^ char.charCodeAt(0), 0x01000193), 0x811c9dc5) >>> 0;
  const values = Array.from({ length: sizeOf(param) }, (_, i) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const special = i % 5 === 3 ? SPECIAL[(state >>> 16) % SPECIAL.length] : undefined;
    return special ?? (state / 2 ** 32 - 0.5) * 2 ** ((state % 24) - 16);
  });
  return encodeFloats(dtype, values);
}

/** Values that a conversion or a sloppy copy may get wrong: no numbers, zeros, subnormals, ties, what fp16 cannot hold. */
const SPECIAL: readonly number[] = [
  ...[Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, -0],
  ...[2 ** -149, -(2 ** -130), 2 ** -133, 2 ** -24, -(2 ** -25), 3 * 2 ** -25, 2 ** -14 - 2 ** -25],
  ...[1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -11, -(1 + 3 * 2 ** -11), 1 + 2 ** -23],
  ...[65504, 65519, -65520, 2 ** 20, 2 ** 127, (2 - 2 ** -23) * 2 ** 127],
];
