/**
 * Cuts pieces to a range of the tensor: what the engine reads for one tile.
 *
 * @module
 */

import { type Extent, isRankCut, type Partition, type Piece, pieceLength, type RankCut } from './extent.js';

/** A plain run of source bytes, at byte `at` of the range that was asked for. */
export interface Run {
  readonly source: number;
  readonly offset: number;
  readonly length: number;
  readonly at: number;
}

/** What a range of a tensor is made of: plain runs, and strided extents to be walked with `forEachRun`. */
export interface Slices {
  readonly runs: readonly Run[];
  readonly strided: readonly Extent[];
}

/** The parts of `pieces` that lie in bytes `[start, end)` of the tensor. */
export function slicePieces(
  pieces: readonly Piece[],
  partitions: readonly (readonly Partition[])[],
  start: number,
  end: number,
): Slices {
  const runs: Run[] = [];
  const strided: Extent[] = [];
  for (const piece of pieces) {
    if (isRankCut(piece)) runs.push(...sliceRankCut(piece, partitions[piece.over] ?? [], start, end));
    else if (piece.repeat) {
      if (overlaps(piece, start, end)) strided.push(piece);
    } else {
      const run = sliceRun(piece, start, end);
      if (run) runs.push(run);
    }
  }
  return { runs, strided };
}

/**
 * Walks the runs of a strided extent that touch bytes `[start, end)` of the tensor, cut to that range. `at` counts from `start`.
 * No object is made per run: a transposed matrix has one run per element.
 */
export function forEachRun(
  extent: Extent,
  start: number,
  end: number,
  visit: (offset: number, at: number, length: number) => void,
): void {
  const loops = extent.repeat ?? [];
  const spans = loops.map((_, depth) => spanBelow(extent, depth));
  const walk = (depth: number, offset: number, at: number): void => {
    const loop = loops[depth];
    if (!loop) {
      const from = Math.max(start - at, 0);
      const to = Math.min(end - at, extent.length);
      if (from < to) visit(offset + from, at + from - start, to - from);
      return;
    }
    // Only the turns of this loop whose bytes can touch the range.
    const span = spans[depth] ?? 0;
    const first = loop.to === 0 ? 0 : Math.max(0, Math.ceil((start - at - span + 1) / loop.to));
    const last = loop.to === 0 ? loop.count : Math.min(loop.count, Math.ceil((end - at) / loop.to));
    for (let turn = first; turn < last; turn++) walk(depth + 1, offset + turn * loop.from, at + turn * loop.to);
  };
  walk(0, extent.offset, extent.at);
}

/** Bytes of the tensor from the start of one turn of loop `depth` to the end of its last run. */
function spanBelow(extent: Extent, depth: number): number {
  return (extent.repeat ?? [])
    .slice(depth + 1)
    .reduce((span, loop) => span + (loop.count - 1) * loop.to, extent.length);
}

function overlaps(extent: Extent, start: number, end: number): boolean {
  const span = (extent.repeat ?? []).reduce((sum, loop) => sum + (loop.count - 1) * loop.to, extent.length);
  return pieceLength(extent) > 0 && extent.at < end && extent.at + span > start;
}

function sliceRun(run: Run, start: number, end: number): Run | undefined {
  const from = Math.max(start, run.at);
  const to = Math.min(end, run.at + run.length);
  if (from >= to) return undefined;
  return { source: run.source, offset: run.offset + from - run.at, length: to - from, at: from - start };
}

function sliceRankCut(cut: RankCut, ranks: readonly Partition[], start: number, end: number): Run[] {
  const from = Math.max(start, cut.at) - cut.at;
  const to = Math.min(end, cut.at + cut.length) - cut.at;
  const runs: Run[] = [];
  for (let rank = Math.floor(from / cut.share); rank * cut.share < to; rank++) {
    const partition = ranks[rank];
    if (!partition) break;
    const begin = Math.max(from, rank * cut.share);
    const stop = Math.min(to, (rank + 1) * cut.share);
    const offset = partition.offset + cut.offset + begin - rank * cut.share;
    runs.push({ source: partition.source, offset, length: stop - begin, at: cut.at + begin - start });
  }
  return runs;
}
