/**
 * What `inspect` finds: every tensor of the model and where its bits lie. Plain data; no tensor bytes are read for it.
 *
 * @module
 */

import type { DType } from '../base/dtype.js';
import type { ErrorDetail } from '../base/errors.js';
import type { Partition, Piece } from '../base/extent.js';
import type { Flip } from '../formats/torch/tensor.js';

/** Where the bits of a tensor come from. */
export type Origin =
  /** The master weights of the optimizer. */
  | 'master'
  /** The model file's copy of a trained parameter, whose master is lost. */
  | 'copy'
  /** A tensor of the model file; nothing tells what it is. */
  | 'module'
  /** A parameter that was not trained. */
  | 'frozen'
  /** A persistent buffer. */
  | 'buffer';

/** Bits on disk: a dtype and the pieces that cover the tensor in row-major order, each byte once. */
export interface StoredBits {
  readonly dtype: DType;
  readonly pieces: readonly Piece[];
  readonly flip?: Flip;
}

/** One logical tensor of the model. */
export interface TensorEntry {
  readonly name: string;
  readonly shape: readonly number[];
  readonly origin: Origin;
  /** The most precise bits there are. */
  readonly stored: StoredBits;
  /** The model file's copy of a master, at the training dtype. Only where it is complete (stage 0 to 2). */
  readonly copy?: StoredBits;
  /** Present where the tensor is the mean of these copies, in the order of their ranks. The first is `stored`. */
  readonly meanOf?: readonly StoredBits[];
  /** Further bits on disk that must be the same tensor. They are compared, never written. */
  readonly proofs?: readonly Proof[];
  /** Why the tensor cannot be had, though others can. `stored` then has no pieces, and a plan that takes it is refused. */
  readonly fault?: ErrorDetail;
}

/** Bits that must equal a tensor's once that is rounded to their dtype. */
export interface Proof extends StoredBits {
  /** Stable id of the check that compares them. */
  readonly check: string;
}

/** A file that pieces point into. */
export interface SourceFile {
  /** Path in the picked folder. */
  readonly path: string;
  readonly size: number;
  /** Milliseconds since 1970; 0 where it is not known. */
  readonly modified: number;
}

/** A range of a source whose CRC-32 its file records, so that what is read can be checked. */
export interface RecordedCrc {
  readonly source: number;
  readonly offset: number;
  readonly length: number;
  readonly crc32: number;
}

/** One check that was made, and its outcome. */
export interface CheckReport {
  /** Stable id of the check. */
  readonly id: string;
  readonly status: 'passed' | 'failed' | 'not-checkable';
  /** What was compared, with the numbers; where nothing was, why. */
  readonly detail: string;
}

/** Something the user should know. `code` is a stable id. */
export interface Notice {
  readonly code: string;
  readonly message: string;
  /** The tensors that it is about, where it is about single ones. */
  readonly tensors?: readonly string[];
}

/** What is wrong with a checkpoint. */
export interface Problem extends ErrorDetail {
  /** Present where it stands in the way of some tensors alone: those with a `fault`. Others can be converted. */
  readonly concerns?: 'frozen';
}

/** The problems that stand in the way of every tensor. */
export function blockingProblems({ problems }: Pick<Inventory, 'problems'>): readonly Problem[] {
  return problems.filter(({ concerns }) => concerns === undefined);
}

/** A source tensor that is not written, and why. */
export interface SkippedTensor {
  readonly name: string;
  readonly reason: string;
}

/** A tag folder that holds a checkpoint. */
export interface TagChoice {
  readonly tag: string;
  /** Folder of the tag, relative to the picked folder; empty for the picked folder itself. */
  readonly path: string;
  /** True for the tag that the `latest` file names. */
  readonly latest: boolean;
}

/** The layout of a checkpoint, of the model or of each part of it. */
export type Layout =
  | 'deepspeed-zero0'
  | 'deepspeed-zero1'
  | 'deepspeed-zero2'
  | 'deepspeed-zero3'
  /** Joined over all ranks by DeepSpeed's own conversion. */
  | 'deepspeed-universal';

/** Facts about the run, for people. Absent where the files do not say. */
export interface CheckpointFacts {
  readonly deepspeedVersion?: string;
  readonly globalSteps?: number;
  /** Number of data-parallel ranks whose shards make up the model. */
  readonly ranks: number;
  /** Ranks that each tensor is cut over, beside that. Present where there are several. */
  readonly tensorParallel?: number;
  /** Stages that the layers are shared out over. Present where there are several. */
  readonly pipelineStages?: number;
  /** Ranks that the experts of a layer are shared out over. Present where there are several. */
  readonly expertParallel?: number;
  /** dtype that the model was trained in. */
  readonly modelDtype?: DType;
  /** dtype of the master weights. */
  readonly masterDtype?: DType;
  /** Elements over all tensors, tied ones once. */
  readonly elements: number;
  /** Python objects that were kept as inert records. */
  readonly uninterpretedObjects: number;
  /** Globals of the pickles that a pickle loader would have run and that can run commands. Empty in honest files. */
  readonly dangerousGlobals: readonly string[];
}

/** The result of `inspect`. */
export interface Inventory {
  /** Name of the picked folder. */
  readonly folder: string;
  readonly layout: Layout;
  /** The tag that was inspected. */
  readonly tag: TagChoice;
  /** All tags that were found, in natural order. */
  readonly tags: readonly TagChoice[];
  readonly sources: readonly SourceFile[];
  /** Partition lists that rank cuts name. */
  readonly partitions: readonly (readonly Partition[])[];
  readonly crcs: readonly RecordedCrc[];
  readonly tensors: readonly TensorEntry[];
  /** Tied weights: alias to the name that owns the bits. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly skipped: readonly SkippedTensor[];
  readonly warnings: readonly Notice[];
  /** What makes a conversion impossible, of all tensors or of those that it concerns. Empty for a whole checkpoint. */
  readonly problems: readonly Problem[];
  /** The checks that were made while inspecting. */
  readonly checks: readonly CheckReport[];
  /** Files to copy beside the weights: configuration and tokenizer. */
  readonly companions: readonly Companion[];
  readonly facts: CheckpointFacts;
}

/** A configuration or tokenizer file beside the checkpoint. */
export interface Companion {
  /** Index into `sources`. */
  readonly source: number;
  /** Name in the output folder. */
  readonly name: string;
  /** Text of a configuration that the plan reads or rewrites: config.json, adapter_config.json. */
  readonly text?: string;
  /** The adapter that an adapter_config.json of PEFT describes. */
  readonly adapter?: string;
}
