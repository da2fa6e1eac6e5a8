/**
 * The plan: for every byte of every output file, where it comes from. Plain JSON, a pure function of inventory and
 * options. The page shows it, workers receive it, tests compare it.
 *
 * @module
 */

import type { DType, TargetDType } from '../base/dtype.js';
import type { Partition, Piece } from '../base/extent.js';
import type {
  CheckReport,
  Notice,
  Origin,
  Proof,
  RecordedCrc,
  SkippedTensor,
  SourceFile,
  StoredBits,
} from '../checkpoints/inventory.js';
import type { Flip } from '../formats/torch/tensor.js';
import type { PlannedZipRecord } from '../formats/zip/layout.js';

export type { PlannedZipRecord };

/** What to do with a finite value that the output dtype cannot hold. */
export type OverflowPolicy = 'error' | 'inf' | 'clamp';

/** Precision of the output: a dtype for every floating-point tensor, or each as it is stored. */
export type Precision = 'fp32' | 'fp16' | 'bf16' | 'keep';

/** Container of the weights. */
export type OutputFormat = 'safetensors' | 'bin';

/** What is written: all tensors as they are, those of a LoRA adapter under the names of PEFT, or the model with the adapter merged into it. */
export type OutputKind = 'model' | 'adapter' | 'merged';

/** The user's choices. */
export interface PlanOptions {
  /** Default `model`. */
  readonly output?: OutputKind;
  /** The adapter to write or to merge. Default: the only one there is. */
  readonly adapterName?: string;
  /** What adapter_config.json would say of the adapter to merge, where there is none beside the checkpoint. */
  readonly lora?: LoraOptions;
  /** Default `fp32`. */
  readonly dtype?: Precision;
  /** Default `safetensors`. */
  readonly format?: OutputFormat;
  /** Largest size of the weights in one file, in bytes. Default: one file, whatever its size. */
  readonly maxShardSize?: number;
  /** Leave out parameters that were not trained. Default false. */
  readonly excludeFrozen?: boolean;
  /** Write trained parameters only: neither frozen ones nor buffers. Default false. */
  readonly trainableOnly?: boolean;
  /** Write only tensors whose name in the output matches one of these. `*` stands for any characters. Default: all. */
  readonly include?: readonly string[];
  /** Leave out tensors whose name in the output matches one of these. Default: none. */
  readonly exclude?: readonly string[];
  /** Take this off the start of every name that begins with it, such as `module.`. Default: names stay as they are. */
  readonly stripPrefix?: string;
  /** Leave out the rows of embedding and head that are beyond `vocab_size` of config.json. Default false. */
  readonly trimVocab?: boolean;
  /** Write a full copy under each tied name, instead of the owner once. Default false. */
  readonly duplicateTied?: boolean;
  /** Default `error`. */
  readonly overflow?: OverflowPolicy;
  /** Precision of single tensors: the first pattern that matches the name in the output, of tied weights any name, decides. */
  readonly dtypeFor?: readonly { readonly pattern: string; readonly dtype: Precision }[];
}

/** How an adapter is scaled when it is merged. */
export interface LoraOptions {
  /** `lora_alpha`. */
  readonly alpha: number;
  /** The rank that every layer of the adapter must have. Default: each layer has the rank that its matrices show. */
  readonly r?: number;
  /** `use_rslora`: alpha is divided by the root of the rank. Default false. */
  readonly rslora?: boolean;
}

/** Options that have no default: they are absent where they were not given. */
type Absent = 'adapterName' | 'lora' | 'stripPrefix' | 'maxShardSize';

/** The options with every default filled in. */
export type ResolvedOptions = Required<Omit<PlanOptions, Absent>> & Pick<PlanOptions, Absent>;

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
  /** The checks that were made while inspecting. */
  readonly checks: readonly CheckReport[];
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
  /** Present where the values are computed, not only converted. `from` and `pieces` are then the first operand. */
  readonly compute?: Compute;
  /** Other bits on disk that must equal this tensor's, rounded to their dtype. Compared while it is converted. */
  readonly proofs?: readonly Proof[];
}

/** How values are made from several stored tensors, in fp32 and rounded to the output dtype once at the end. */
export type Compute =
  /**
   * `W + scale * (B x A)`: a LoRA adapter that is merged into a matrix of `columns` elements a row. `b` has as many rows as
   * the matrix, `a` has `rank` rows of `columns`. With `transpose` the product is turned before it is added: `b` has
   * `columns` rows, `a` has `rank` rows of `rows`.
   */
  | {
      readonly kind: 'lora';
      readonly a: StoredBits;
      readonly b: StoredBits;
      readonly rank: number;
      /** Rows of the stored matrix; the output may have fewer. */
      readonly rows: number;
      readonly columns: number;
      readonly scale: number;
      readonly transpose: boolean;
    }
  /** The mean of several copies: their sum in this order, then divided by their number. The first is the tensor's own bits. */
  | { readonly kind: 'mean'; readonly of: readonly StoredBits[] };

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
  /** Bytes that are read from sources, those of proofs included. */
  readonly inputBytes: number;
}

/** Target dtype of a precision; undefined for `keep`. */
export const TARGETS: Readonly<Record<Precision, TargetDType | undefined>> = {
  fp32: 'F32',
  fp16: 'F16',
  bf16: 'BF16',
  keep: undefined,
};
