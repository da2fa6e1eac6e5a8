import type { FilledTile, Filler } from './filler.js';
import type { Pace } from './pace.js';
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
 * Fills tiles, as many at once as `pace` says: each in memory of its own, which goes to the next tile once `done` has
 * settled. All that was begun has settled before the first failure is thrown.
 */
export async function fillTiles(
  filler: Filler,
  tiles: Iterable<Tile>,
  { pace, signal }: { readonly pace: Pace; readonly signal: AbortSignal | undefined },
  done: (tile: Tile, filled: FilledTile, bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  const idle: ArrayBufferLike[] = [];
  const running = new Set<Promise<void>>();
  const failures: unknown[] = [];

  async function fillOne(tile: Tile): Promise<void> {
    const { file, at, length } = tile;
    const free = idle.pop();
    const memory = free && free.byteLength >= length ? free : filler.newMemory(roundUp(length));
    const filled = await filler.fill({ file, at, length }, memory);
    await done(tile, filled, new Uint8Array(filled.memory, 0, length));
    idle.push(filled.memory);
    pace.add(length);
  }

  for (const tile of tiles) {
    if (signal?.aborted) failures.push(signal.reason);
    if (failures.length > 0) break;
    const job: Promise<void> = fillOne(tile)
      .catch((error: unknown) => void failures.push(error))
      .finally(() => running.delete(job));
    running.add(job);
    while (running.size >= pace.lanes) await Promise.race(running);
  }
  await Promise.all(running);
  if (failures.length > 0) throw failures[0];
}

function roundUp(length: number): number {
  return Math.ceil(length / MEMORY_STEP) * MEMORY_STEP;
}
