/**
 * What passes between a run and the threads that fill its tiles.
 *
 * @module
 */

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

/** What a thread does. Failures are `UnshardError`s, a stop is an `AbortError`. */
export interface ThreadApi {
  /** Ends the run before, and takes up another one. */
  open(job: ThreadJob): Promise<void>;
  /** `memory` moves to the thread, and back with the result. */
  fill(tile: TileRange, memory: ArrayBuffer): Promise<FilledTile>;
  /** Stops what is under way and closes the sources. */
  close(): Promise<void>;
}
