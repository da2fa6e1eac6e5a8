/**
 * What fills tiles and writes them: the calling thread, or others (`threads/`). The loop of a run hands out tiles.
 *
 * @module
 */

import { reserveBytes } from '../base/kernel-memory.js';
import type { ByteSink, SharedSink } from '../io/types.js';
import type { AuditRun } from './audit.js';
import { LaneBuffers } from './buffers.js';
import { type FillContext, type Filled, fillTile } from './fill.js';
import { readBackOpen } from './read-back.js';
import { outputFile, type Tile, type TileRange, tileAt } from './tiles.js';
import { workOf } from './work.js';
import { type WrittenRange, writtenRanges } from './written.js';
import { placeDescriptors } from './zip-records.js';

/** A tile that was filled. */
export interface FilledTile extends Filled {
  /** CRC-32s of the tile's bytes; none where nobody asked. */
  readonly written: readonly WrittenRange[];
  /** What another thread has found of recorded CRCs. */
  readonly audited: readonly AuditRun[];
}

/** Which tiles get CRC-32s of their bytes: all, those of zip files, which record them, or none. */
export type CrcsWanted = 'all' | 'zip' | 'none';

/** What is done with tiles beside filling them. */
export interface FillerOptions {
  readonly crcs: CrcsWanted;
  /** Read what was written back, where that can be done before the file is closed. */
  readonly readBack: boolean;
}

/** Fills tiles of one plan. */
export interface Filler {
  /** How many tiles under way keep it busy; absent where that depends on the disk, and is to be measured. */
  readonly lanes?: number;
  /** Fills a tile, and writes it to its place in `sink` where one is given. */
  fill(tile: TileRange, sink?: ByteSink): Promise<FilledTile>;
  /** Ends what the filler has under way, and frees what it holds. */
  close(): Promise<void>;
}

/** A filler on the calling thread. The context stays the caller's. */
export function localFiller(context: FillContext, { crcs, readBack }: FillerOptions): LocalFiller {
  const idle: LaneBuffers[] = [];
  let isClosed = false;
  return {
    async fill(range, sink, memory) {
      const { plan } = context;
      const tile = tileAt(plan, range);
      const work = workOf(plan, tile);
      const buffers = idle.pop() ?? new LaneBuffers(reserveBytes);
      try {
        const fitted = buffers.fit(work, memory?.subarray(0, tile.length));
        const { copied, ...filled } = await fillTile(context, work, fitted);
        const written = crcsOf(context, tile, fitted.output, crcs, copied);
        if (sink) await writeTo(sink, outputFile(plan, tile.file).path, tile.at, fitted.output, readBack);
        return { ...filled, written, audited: [] };
      } finally {
        if (isClosed) buffers.release();
        else idle.push(buffers);
      }
    },
    async close() {
      isClosed = true;
      for (const buffers of idle.splice(0)) buffers.release();
    },
  };
}

/** A filler whose tiles can be had in memory. */
export interface LocalFiller extends Filler {
  /** As `Filler` says. The tile is made at the start of `memory` where that is given; it is at least as long. */
  fill(tile: TileRange, sink?: SharedSink, memory?: Uint8Array): Promise<FilledTile>;
}

/**
 * Writes bytes to their place in a file. With `readBack` they are read back where that can be done before the file is closed.
 *
 * @throws UnshardError of kind `sink`, `read-back-differs` among them.
 */
export async function writeTo(
  sink: SharedSink,
  path: string,
  at: number,
  bytes: Uint8Array,
  readBack: boolean,
): Promise<void> {
  await sink.write(at, bytes);
  const read = sink.read?.bind(sink);
  if (readBack && read) await readBackOpen(path, read, at, bytes);
}

function crcsOf(
  { plan }: FillContext,
  tile: Tile,
  bytes: Uint8Array,
  crcs: CrcsWanted,
  copied: readonly WrittenRange[],
): WrittenRange[] {
  const { zip } = outputFile(plan, tile.file);
  if (crcs === 'none' || (crcs === 'zip' && !zip)) return [];
  const parts = writtenRanges(tile, bytes, zip !== undefined, copied);
  return zip ? [...parts, ...placeDescriptors(zip.records, tile, bytes, parts)] : parts;
}
