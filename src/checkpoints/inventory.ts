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
  /** The 16-bit copy in the model file; no master of it was saved. */
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

/** Something the user should know. `code` is a stable id. */
export interface Notice {
  readonly code: string;
  readonly message: string;
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

/** The layout of a checkpoint. */
export type Layout = 'deepspeed-zero0' | 'deepspeed-zero1' | 'deepspeed-zero2' | 'deepspeed-zero3';

/** Facts about the run, for people. Absent where the files do not say. */
export interface CheckpointFacts {
  readonly deepspeedVersion?: string;
  readonly globalSteps?: number;
  /** Number of data-parallel ranks whose shards make up the model. */
  readonly ranks: number;
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
  /** What makes a conversion impossible. Empty for a whole checkpoint. */
  readonly problems: readonly ErrorDetail[];
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
  /** Text of config.json, which the plan rewrites when the dtype changes. */
  readonly text?: string;
}
