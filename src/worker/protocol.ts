/**
 * What crosses between the page and the engine worker: descriptors of folders, views of the inventory and the plan,
 * progress, reports. All of it is structured-cloneable data; sources, sinks and backends never leave the worker.
 *
 * @module
 */

import type {
  BackendChoice,
  BackendDecision,
  DType,
  InspectOptions,
  InspectProgress,
  Inventory,
  Origin,
  Plan,
  PlanOptions,
  PrefixOffer,
  Report,
  RunProgress,
} from '../index.js';
import type { Closing } from './closing.js';
import type { SpaceWait } from './space.js';
import type { Costs } from './stopwatch.js';

/**
 * Files of a folder that are written at once: the browser checks finished ones side by side. More than four gain little.
 */
export const FILES_IN_FLIGHT = 4;

/** A checkpoint folder, as the page got hold of it. */
export type InputRef =
  | { readonly kind: 'directory'; readonly handle: FileSystemDirectoryHandle }
  /** Files of a folder from a file input or a drop, for browsers without the File System Access API. */
  | { readonly kind: 'files'; readonly name: string; readonly files: readonly FolderFile[] }
  /** `url` is absolute and ends with `/`; it holds a `manifest.json`. */
  | { readonly kind: 'sample'; readonly url: string }
  /** Folders that hold shards of one checkpoint. */
  | { readonly kind: 'several'; readonly parts: readonly InputRef[] };

/** A file of a folder. The path is relative to the folder; cloning a `File` may lose it. */
export interface FolderFile {
  readonly path: string;
  readonly file: File;
}

/** Where the files go: a folder on disk, or the browser's own storage and from there to its downloads. */
export type OutputRef =
  | { readonly kind: 'directory'; readonly handle: FileSystemDirectoryHandle }
  | { readonly kind: 'download' };

/** `auto` takes what was measured to be right; a software adapter is used for `gpu` alone. */
export type { BackendChoice };

/** What a choice of backend comes to on this machine. */
export interface Converter {
  readonly name: 'cpu' | 'gpu';
  readonly description: string;
  /** Why: a sentence, and what was measured. */
  readonly choice: BackendDecision;
}

/** How far a run is, which files the browser is checking before they appear, and what the run waits for. */
export type ConvertProgress = RunProgress & Closing & { readonly wait?: SpaceWait };

/** A line of the table of tensors. `to` is absent where no plan could be made. */
export interface TensorRow {
  readonly name: string;
  readonly shape: readonly number[];
  /** Where its bits come from; in a plan `copy` also where the model file's copy is taken as it is. */
  readonly origin: Origin;
  readonly from: DType;
  readonly to?: DType;
}

/** What the page shows of an inventory. */
export interface CheckpointView
  extends Pick<
    Inventory,
    'folder' | 'layout' | 'tag' | 'tags' | 'aliases' | 'skipped' | 'warnings' | 'problems' | 'checks' | 'facts'
  > {
  readonly tensors: readonly TensorRow[];
  /** Names of the LoRA adapters; empty where it is no LoRA run. */
  readonly adapters: readonly string[];
  /** Present where a wrapper has put a prefix before all names. */
  readonly prefix?: PrefixOffer;
  /** Source files that hold tensors or configuration, and their bytes. */
  readonly sourceFiles: number;
  readonly sourceBytes: number;
}

/** What the page shows of a plan. */
export interface PlanView extends Pick<Plan, 'options' | 'aliases' | 'skipped' | 'warnings' | 'totals'> {
  readonly tensors: readonly TensorRow[];
  readonly files: readonly FileView[];
}

/** An output file. */
export interface FileView {
  readonly path: string;
  readonly byteLength: number;
}

/** Names of the plan that are taken in the folder of destination. */
export interface Collisions {
  /** Files that would be replaced. */
  readonly existing: readonly string[];
  /** Those that belong to the checkpoint itself: they must not be replaced. */
  readonly sources: readonly string[];
}

/** What to read of a folder. The tag is the latest where none is named. */
export type InspectChoice = Pick<InspectOptions, 'tag' | 'partial' | 'lost' | 'tpRules' | 'tpRank'>;

/** A run of the plan that the options make of the checkpoint inspected last. */
export interface RunRequest {
  readonly options: PlanOptions;
  readonly output: OutputRef;
  readonly backend: BackendChoice;
  readonly overwrite: boolean;
  /** Compare recorded checksums and copies, and read the output back. */
  readonly verify: boolean;
  /** Take the SHA-256 of every file. */
  readonly sha256: boolean;
}

/** The result of a run. */
export interface Outcome {
  readonly report: Report;
  /** Where the time went; absent where the run has waited for the user. */
  readonly costs?: Costs;
}

/** What the page is told while a run goes. */
export interface RunListener {
  onProgress(progress: ConvertProgress): void;
  /** A file is complete and can be saved. Called for downloads alone. The run ends after all these calls have. */
  onDownload(file: FolderFile): void | Promise<void>;
}

/**
 * What the worker answers. It holds the checkpoint that was inspected last; one `inspect` or `run` goes at a time and
 * `cancel` ends it, so that it rejects with an `AbortError`. Failures are `UnshardError`s.
 */
export interface EngineApi {
  inspect(
    input: InputRef,
    choice: InspectChoice,
    onProgress: (progress: InspectProgress) => void,
  ): Promise<CheckpointView>;
  plan(options: PlanOptions): Promise<PlanView>;
  collisions(options: PlanOptions, output: OutputRef): Promise<Collisions>;
  /** Measures the conversion of the plan that was made last, for some milliseconds. Undefined where the choice cannot be had. */
  converter(choice: BackendChoice): Promise<Converter | undefined>;
  run(request: RunRequest, listener: RunListener): Promise<Outcome>;
  /** How many of `wanted` bytes a run can write for downloads; undefined where that cannot be found out. */
  downloadSpace(wanted: number): Promise<number | undefined>;
  /** Removes copies of downloads that the browser has saved. A run that waits for space goes on. */
  letGoDownloads(paths: readonly string[]): Promise<void>;
  cancel(): Promise<void>;
}
