/**
 * What passes between a run and the threads that fill its tiles.
 *
 * @module
 */

import type { Plan } from '../../plan/plan.js';
import type { FilledTile, FillerOptions } from '../filler.js';
import type { TileRange } from '../tiles.js';

/** The run whose tiles are to be filled. */
export interface ThreadJob extends FillerOptions {
  readonly plan: Plan;
  /** The `place` of each source of the plan. */
  readonly places: readonly unknown[];
  /** Take CRC-32s of what is read and recorded. */
  readonly audit: boolean;
}

/** A tile in memory that has moved. */
export interface MovedTile extends FilledTile {
  /** The tile is at its start. */
  readonly memory: ArrayBuffer;
}

/** What a thread does. Failures are `UnshardError`s, a stop is an `AbortError`. */
export interface ThreadApi {
  /** Ends the run before, and takes up another one. */
  open(job: ThreadJob): Promise<void>;
  /** Fills a tile, and writes it to its file where the `place` of its sink is given. */
  fill(tile: TileRange, place?: unknown): Promise<FilledTile>;
  /** Fills a tile in `memory`, which is at least as long. It moves to the thread, and back with the result. */
  fillMemory(tile: TileRange, memory: ArrayBuffer): Promise<MovedTile>;
  /** Stops what is under way and closes the sources. */
  close(): Promise<void>;
}
