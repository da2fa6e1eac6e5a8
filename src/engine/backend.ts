/**
 * The seam between the engine's loop and what converts: CPU or GPU. A job is pure: the same job gives the same bytes
 * on every backend, and may be given to another backend when one fails.
 *
 * @module
 */

import type { FloatDType, TargetDType } from '../base/dtype.js';

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

/** Gather `pieces` from `input`, convert each element, write them to `output` one after another. */
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

/** What happened to the elements of one tensor. */
export interface ConvertStats {
  /** Finite values beyond the range of the output dtype. */
  overflow: number;
  /** Values other than zero that became zero. */
  underflow: number;
  /** NaNs in the input. */
  nan: number;
  /** Infinities in the input. */
  inf: number;
  /** Largest magnitude of the finite input values, exact; 0 for none. Of fp64 it is rounded to fp32 first, to at most the largest fp32. */
  largest: number;
}

/** Something that runs conversion jobs. */
export interface Backend {
  readonly name: 'cpu' | 'gpu';
  /** What runs the jobs, for people: the adapter's description, or the kind of CPU kernel. */
  readonly description: string;
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
