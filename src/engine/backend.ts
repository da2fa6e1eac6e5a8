/**
 * The seam between the engine's loop and what converts: CPU or GPU. A job is pure: the same job gives the same bytes
 * on every backend, and may be given to another backend when one fails.
 *
 * @module
 */

import type { FloatDType, TargetDType } from '../base/dtype.js';
import type { ConvertStats } from '../numeric/stats.js';

export type { ConvertStats };

/** A run of elements of the job's input that lands at consecutive elements of its output. */
export interface JobPiece {
  /** Byte offset of the first element in `input`. Any alignment. */
  readonly input: number;
  /** Index of the first element in the output. Pieces are in output order, without gap or overlap. */
  readonly output: number;
  /** Number of elements. */
  readonly count: number;
  /** Index into the job's results: the tensor that the elements belong to. */
  readonly slot: number;
}

/**
 * Gather `pieces` from `input`, convert each element, write them to `output` one after another. `from` and `to` differ: a
 * copy is no job (its statistics are those of `scanBytes`).
 */
export interface ConvertJob {
  readonly from: FloatDType;
  readonly to: TargetDType;
  /** A finite value beyond the range of `to` becomes infinity, or the largest finite value of its sign. */
  readonly overflow: 'inf' | 'clamp';
  readonly input: Uint8Array;
  readonly pieces: readonly JobPiece[];
  /** Exactly as long as the elements of all pieces. Any alignment. */
  readonly output: Uint8Array;
  /** Number of slots that the pieces name. */
  readonly slots: number;
}

/** Something that runs conversion jobs. */
export interface Backend {
  readonly name: 'cpu' | 'gpu';
  /** What runs the jobs, for people: the adapter's description, or the kind of CPU kernel. */
  readonly description: string;
  /** Seconds in which at least one batch was on its way through the adapter. Absent where there is no adapter to wait for. */
  readonly waitedSeconds?: number;
  /**
   * Runs one job; several may be under way at once. Resolves to one `ConvertStats` per slot.
   *
   * @throws UnshardError of kind `gpu` when the device is lost or its result cannot be trusted. The output may then
   * hold anything; the job can be run again elsewhere.
   */
  convert(job: ConvertJob): Promise<ConvertStats[]>;
  /** Frees what the backend holds. */
  close(): Promise<void>;
}
