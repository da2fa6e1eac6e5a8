/**
 * What fills tiles: the calling thread, or others (`threads/`). The loop of a run hands out tiles and memory to fill.
 *
 * @module
 */

import { reserveBytes } from '../base/kernel-memory.js';
import type { AuditRun } from './audit.js';
import { LaneBuffers } from './buffers.js';
import { type FillContext, type Filled, fillTile } from './fill.js';
import { type TileRange, tileAt } from './tiles.js';
import { workOf } from './work.js';
import { type WrittenRange, writtenRanges } from './written.js';
import { placeDescriptors } from './zip-records.js';

/** A tile that was filled. */
export interface FilledTile extends Filled {
  /** The memory that was handed in; the tile is at its start. */
  readonly memory: ArrayBufferLike;
  /** CRC-32s of the tile's bytes; none where nobody asked. */
  readonly written: readonly WrittenRange[];
  /** What another thread has found of recorded CRCs. */
  readonly audited: readonly AuditRun[];
}

/** Which tiles get CRC-32s of their bytes: all, those of zip files, which record them, or none. */
export type CrcsWanted = 'all' | 'zip' | 'none';

/** Fills tiles of one plan. */
export interface Filler {
  /** Memory that tiles can be filled in. */
  newMemory(length: number): ArrayBufferLike;
  /** Fills a tile in `memory`, which is at least as long and may be handed over to another thread and back. */
  fill(tile: TileRange, memory: ArrayBufferLike): Promise<FilledTile>;
  /** Ends what the filler has under way, and frees what it holds. */
  close(): Promise<void>;
}

/** A filler on the calling thread. With `crcs` it takes CRC-32s of what it fills. The context stays the caller's. */
export function localFiller(context: FillContext, crcs: CrcsWanted): Filler {
  const idle: LaneBuffers[] = [];
  let isClosed = false;
  return {
    newMemory: (length) => new ArrayBuffer(length),
    async fill(range, memory) {
      const { plan } = context;
      const tile = tileAt(plan, range);
      const work = workOf(plan, tile);
      const bytes = new Uint8Array(memory, 0, tile.length);
      const buffers = idle.pop() ?? new LaneBuffers(reserveBytes);
      const filled = await fillTile(context, work, buffers.fit(work, bytes)).finally(() => {
        if (isClosed) buffers.release();
        else idle.push(buffers);
      });
      const zip = plan.files[tile.file]?.zip;
      const isWanted = crcs === 'all' || (crcs === 'zip' && zip !== undefined);
      const parts = isWanted ? writtenRanges(tile, bytes, zip !== undefined) : [];
      const descriptors = zip && isWanted ? placeDescriptors(zip.records, tile, bytes, parts) : [];
      return { ...filled, memory, written: [...parts, ...descriptors], audited: [] };
    },
    async close() {
      isClosed = true;
      for (const buffers of idle.splice(0)) buffers.release();
    },
  };
}
