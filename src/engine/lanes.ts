import { mapBounded } from '../base/concurrent.js';
import type { FilledTile, Filler } from './filler.js';
import { TILE_BYTES, type Tile } from './tiles.js';

/** Bytes that tiles hold in memory at once unless the caller says otherwise (128 MiB). */
export const DEFAULT_MEMORY = 2 ** 27;

/** A tile holds what is read and what is written. */
const LANE_BYTES = 2 * TILE_BYTES;

/** The memory of a lane grows in steps of this (1 MiB), so that tiles of nearly the same size use the same one. */
const MEMORY_STEP = 2 ** 20;

/** How many tiles are under way at once in `memory` bytes, at least one. */
export function lanesIn(memory: number): number {
  return Math.max(1, Math.floor(memory / LANE_BYTES));
}

/**
 * Fills tiles in so many lanes: each takes the next tile, has it filled in its memory, hands the result to `done`, and
 * takes the next when that has settled.
 */
export async function fillTiles(
  filler: Filler,
  tiles: Iterable<Tile>,
  { lanes, signal }: { readonly lanes: number; readonly signal: AbortSignal | undefined },
  done: (tile: Tile, filled: FilledTile, bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  const iterator = tiles[Symbol.iterator]();
  await mapBounded([...Array(lanes).keys()], lanes, async () => {
    let memory = new ArrayBuffer(0);
    for (let next = iterator.next(); !next.done; next = iterator.next()) {
      signal?.throwIfAborted();
      const tile = next.value;
      const { file, at, length } = tile;
      if (memory.byteLength < length) memory = new ArrayBuffer(Math.ceil(length / MEMORY_STEP) * MEMORY_STEP);
      const filled = await filler.fill({ file, at, length }, memory);
      memory = filled.memory;
      await done(tile, filled, new Uint8Array(memory, 0, length));
    }
  });
}
