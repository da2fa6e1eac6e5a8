/**
 * What a run tells while it goes and when it has ended. Plain data: it crosses the worker and is saved as JSON.
 *
 * @module
 */

import type { DType } from '../base/dtype.js';
import type { CheckReport, Notice, Origin, SkippedTensor } from '../checkpoints/inventory.js';
import type { Compute, ResolvedOptions } from '../plan/plan.js';
import type { ConvertStats } from './backend.js';
import type { BackendDecision } from './calibrate.js';

/** One step of a run. Totals come from the plan, so a fraction is always `written / total`. */
export interface RunProgress {
  /** Bytes of output written so far, over all files. */
  readonly written: number;
  /** Bytes of output in all. */
  readonly total: number;
  /** File that was written to last. */
  readonly file: string;
  /** Output files that are complete. */
  readonly filesDone: number;
  readonly files: number;
  /**
   * What is being done: writing bytes, closing a file (a browser checks a finished file before it appears), or reading a
   * finished file back.
   */
  readonly phase: 'write' | 'close' | 'check';
}

/** What was written for one tensor. */
export interface TensorReport {
  readonly name: string;
  readonly shape: readonly number[];
  readonly file: string;
  readonly origin: Origin;
  readonly from: DType;
  readonly to: DType;
  readonly fromCopy: boolean;
  /** Present where the values were computed, always on the CPU: an adapter merged into them, or the mean of copies. */
  readonly computed?: Compute['kind'];
  /** Ids of the checks that compared it with other bits on disk. */
  readonly proven: readonly string[];
  /** Counts over the elements; absent for dtypes that are not floating point. */
  readonly stats?: ConvertStats;
}

/** What converted. */
export interface BackendReport {
  readonly name: 'cpu' | 'gpu';
  /** The adapter, or the kind of CPU kernel. */
  readonly description: string;
  /** Threads that filled tiles: 1 where it was the calling one. */
  readonly threads: number;
  /** Jobs of the GPU that the CPU had to do. */
  readonly jobsOnCpu: number;
  /** Seconds of this run in which something was on its way through the GPU adapter. A faster adapter saves these at most. */
  readonly waitedSeconds?: number;
  /** Why this backend: what was measured before the run. Absent where the caller has taken it without asking. */
  readonly choice?: BackendDecision;
}

/** A file that was written. */
export interface FileReport {
  readonly path: string;
  readonly byteLength: number;
  /** CRC-32 of the file in hex digits. Present where it was verified. */
  readonly crc32?: string;
  /** SHA-256 of the file in hexadecimal digits, where it was asked for. */
  readonly sha256?: string;
}

/** The result of a run. */
export interface Report {
  readonly version: 1;
  readonly options: ResolvedOptions;
  /** Of a run of one part: which, such as `3/8`. The report has its files and tensors alone. */
  readonly part?: string;
  readonly backend: BackendReport;
  readonly files: readonly FileReport[];
  readonly tensors: readonly TensorReport[];
  readonly aliases: Readonly<Record<string, string>>;
  readonly skipped: readonly SkippedTensor[];
  readonly warnings: readonly Notice[];
  readonly checks: readonly CheckReport[];
  /** Bytes read from the checkpoint. */
  readonly bytesRead: number;
  readonly bytesWritten: number;
  /** Wall time of the run. Of `finish`, that of all files added up. */
  readonly seconds: number;
}
