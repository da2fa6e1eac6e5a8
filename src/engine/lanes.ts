import type { Filler } from './filler.js';
import { type Lanes, Pace } from './pace.js';
import { BUFFERS_OF_TILE, TILE_BYTES, type Tile } from './tiles.js';

/** Bytes that tiles hold in memory at once unless the caller says otherwise (128 MiB). */
export const DEFAULT_MEMORY = 2 ** 27;

/** What a caller may say of the tiles of a run; `RunOptions` has each in full. */
export interface LaneOptions {
  readonly memory?: number;
  readonly tileBytes?: number;
  readonly tilesInFlight?: number;
}

/**
 * How many tiles are under way at once: in `memory` bytes as many as the filler wants, or as many as is measured to be
 * best, but not less than `tilesInFlight`.
 */
export function lanesOf(filler: Filler, options: LaneOptions): Lanes {
  const { memory = DEFAULT_MEMORY, tileBytes = TILE_BYTES, tilesInFlight = 1 } = options;
  const most = Math.max(1, Math.floor(memory / (BUFFERS_OF_TILE * tileBytes)));
  const { lanes } = filler;
  return lanes === undefined ? new Pace(most, tilesInFlight) : { lanes: Math.min(lanes, most), add() {} };
}

/**
 * Does `work` for each tile, for as many at once as `lanes` says. All that was begun has settled before the first failure is
 * thrown.
 */
export async function eachTile(
  tiles: Iterable<Tile>,
  { lanes, signal }: { readonly lanes: Lanes; readonly signal: AbortSignal | undefined },
  work: (tile: Tile) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>();
  const failures: unknown[] = [];
  for (const tile of tiles) {
    if (signal?.aborted) failures.push(signal.reason);
    if (failures.length > 0) break;
    const job: Promise<void> = work(tile)
      .then(() => lanes.add(tile.length))
      .catch((error: unknown) => void failures.push(error))
      .finally(() => running.delete(job));
    running.add(job);
    while (running.size >= lanes.lanes) await Promise.race(running);
  }
  await Promise.all(running);
  if (failures.length > 0) throw failures[0];
}
