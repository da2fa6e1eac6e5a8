/**
 * The plan: for every byte of every output file, where it comes from. Plain JSON, a pure function of inventory and
 * options. The page shows it, workers receive it, tests compare it.
 *
 * @module
 */

import type { DType, TargetDType } from '../base/dtype.js';
import type { Partition, Piece } from '../base/extent.js';
import type { Notice, Origin, RecordedCrc, SkippedTensor, SourceFile } from '../checkpoints/inventory.js';
import type { Flip } from '../formats/torch/tensor.js';
import type { PlannedZipRecord } from '../formats/zip/layout.js';

export type { PlannedZipRecord };

/** What to do with a finite value that the output dtype cannot hold. */
export type OverflowPolicy = 'error' | 'inf' | 'clamp';

/** Precision of the output: a dtype for every floating-point tensor, or each as it is stored. */
export type Precision = 'fp32' | 'fp16' | 'bf16' | 'keep';

/** Container of the weights. */
export type OutputFormat = 'safetensors' | 'bin';

/** The user's choices. */
export interface PlanOptions {
  /** Default `fp32`. */
  readonly dtype?: Precision;
  /** Default `safetensors`. */
  readonly format?: OutputFormat;
  /** Largest size of the weights in one file, in bytes. Default: one file, whatever its size. */
  readonly maxShardSize?: number;
  /** Leave out parameters that were not trained. Default false. */
  readonly excludeFrozen?: boolean;
  /** Write a full copy under each tied name, instead of the owner once. Default false. */
  readonly duplicateTied?: boolean;
  /** Default `error`. */
  readonly overflow?: OverflowPolicy;
  /** Precision of single tensors: the first pattern that matches the name decides. `*` stands for any characters. */
  readonly dtypeFor?: readonly { readonly pattern: string; readonly dtype: Precision }[];
}

/** The options with every default filled in; `maxShardSize` is absent for one file. */
export type ResolvedOptions = Required<Omit<PlanOptions, 'maxShardSize'>> & Pick<PlanOptions, 'maxShardSize'>;

/** A finished plan. */
export interface Plan {
  readonly version: 1;
  readonly options: ResolvedOptions;
  readonly sources: readonly SourceFile[];
  readonly partitions: readonly (readonly Partition[])[];
  /** Recorded CRC-32s of the ranges that the plan reads from. */
  readonly crcs: readonly RecordedCrc[];
  /** In the order in which they are to appear: the index of a sharded model last. */
  readonly files: readonly OutputFile[];
  readonly tensors: readonly PlannedTensor[];
  readonly aliases: Readonly<Record<string, string>>;
  readonly skipped: readonly SkippedTensor[];
  readonly warnings: readonly Notice[];
  readonly totals: PlanTotals;
}

/** One tensor of the output. */
export interface PlannedTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly origin: Origin;
  /** dtype of the bits that are read. */
  readonly from: DType;
  /** dtype of the bits that are written. */
  readonly to: DType;
  /** True where the 16-bit copy of the model file was taken in place of the master. */
  readonly fromCopy: boolean;
  readonly flip?: Flip;
  readonly pieces: readonly Piece[];
}

/** One output file, covered by its parts without gap or overlap. */
export interface OutputFile {
  readonly path: string;
  readonly byteLength: number;
  readonly parts: readonly OutputPart[];
  /** True for the index of a sharded model: it appears when all other files are there. */
  readonly afterOthers?: true;
  /** Present for a torch zip file: its end is written when the CRC-32 of every record is known. */
  readonly zip?: ZipTail;
}

/** A range of an output file: bytes the plan knows, a tensor, or a copy of a source file. */
export type OutputPart =
  | { readonly kind: 'literal'; readonly at: number; readonly length: number; readonly base64: string }
  /** `tensor` is an index into `Plan.tensors`. */
  | { readonly kind: 'tensor'; readonly at: number; readonly length: number; readonly tensor: number }
  | { readonly kind: 'copy'; readonly at: number; readonly length: number; readonly source: number };

/** What `emitZipTail` needs beside the CRCs. */
export interface ZipTail {
  readonly records: readonly PlannedZipRecord[];
}

/** Sums over the plan. */
export interface PlanTotals {
  readonly tensors: number;
  readonly elements: number;
  /** Bytes of all output files. */
  readonly outputBytes: number;
  /** Bytes that are read from sources. */
  readonly inputBytes: number;
}

/** Target dtype of a precision; undefined for `keep`. */
export const TARGETS: Readonly<Record<Precision, TargetDType | undefined>> = {
  fp32: 'F32',
  fp16: 'F16',
  bf16: 'BF16',
  keep: undefined,
};
