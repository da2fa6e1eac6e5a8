import { mapBounded } from '../base/concurrent.js';
import { LaneBuffers } from './buffers.js';
import { type FillContext, type Filled, fillTile } from './fill.js';
import { TILE_BYTES, type Tile } from './tiles.js';
import { workOf } from './work.js';

/** Bytes that tiles hold in memory at once unless the caller says otherwise (128 MiB). */
export const DEFAULT_MEMORY = 2 ** 27;

/** A tile holds what is read and what is written. */
const LANE_BYTES = 2 * TILE_BYTES;

/**
 * Fills tiles with as many lanes as fit in `memory` bytes, at least one: each takes the next tile, fills its buffers,
 * hands the result to `done`, and takes the next when that has settled.
 */
export async function fillTiles(
  context: FillContext,
  tiles: Iterable<Tile>,
  memory: number,
  done: (tile: Tile, filled: Filled, output: Uint8Array) => Promise<void>,
): Promise<void> {
  const iterator = tiles[Symbol.iterator]();
  const lanes = Math.max(1, Math.floor(memory / LANE_BYTES));
  await mapBounded([...Array(lanes).keys()], lanes, async () => {
    const buffers = new LaneBuffers();
    for (let next = iterator.next(); !next.done; next = iterator.next()) {
      const tile = next.value;
      context.signal?.throwIfAborted();
      const work = workOf(context.plan, tile);
      const fitted = buffers.fit(work);
      await done(tile, await fillTile(context, work, fitted), fitted.output);
    }
  });
}
