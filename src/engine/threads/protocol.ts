/**
 * What passes between a run and the threads that fill its tiles.
 *
 * @module
 */

import { transfer } from 'comlink';
import type { Plan } from '../../plan/plan.js';
import type { CrcsWanted, FilledTile } from '../filler.js';
import type { TileRange } from '../tiles.js';

/** The run whose tiles are to be filled. */
export interface ThreadJob {
  readonly plan: Plan;
  /** The `place` of each source of the plan. */
  readonly places: readonly unknown[];
  /** Take CRC-32s of what is read and recorded. */
  readonly audit: boolean;
  readonly crcs: CrcsWanted;
}

/** A value to be sent with memory in it, which moves with it unless it is shared. */
export function moved<T extends object>(value: T, memory: ArrayBufferLike): T {
  return memory instanceof ArrayBuffer ? transfer(value, [memory]) : value;
}

/** What a thread does. Failures are `UnshardError`s, a stop is an `AbortError`. */
export interface ThreadApi {
  /** Ends the run before, and takes up another one. */
  open(job: ThreadJob): Promise<void>;
  /** `memory` moves to the thread, and back with the result; shared memory stays where it is. */
  fill(tile: TileRange, memory: ArrayBufferLike): Promise<FilledTile>;
  /** Stops what is under way and closes the sources. */
  close(): Promise<void>;
}
