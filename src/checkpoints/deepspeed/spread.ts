/**
 * Where the bytes of a shard land in the tensor that it is a part of: a tensor-parallel rank holds a band of every row,
 * where a row is whatever one step of the dimensions before the cut spans. All offsets and lengths are bytes.
 *
 * @module
 */

import { type Extent, type Partition, type Piece, pieceLength, type Repeat } from '../../base/extent.js';
import { slicePieces } from '../../base/slice.js';

/** Rows of a shard and of the tensor. A cut along the first dimension leaves one row. */
export interface Rows {
  readonly count: number;
  /** Bytes of a row of the shard. */
  readonly shard: number;
  /** Bytes of a row of the tensor. */
  readonly whole: number;
}

/** Bytes `[from, from + length)` of every row of the shard, which are bytes `[to, to + length)` of the tensor's row. */
export interface Band {
  readonly from: number;
  readonly length: number;
  readonly to: number;
}

/**
 * The pieces of a shard at their places in the tensor. Bytes outside the bands are left out. Undefined where a strided
 * shard would be cut inside its runs.
 */
export function spreadPieces(
  pieces: readonly Piece[],
  partitions: readonly (readonly Partition[])[],
  rows: Rows,
  bands: readonly Band[],
): Piece[] | undefined {
  const [only] = bands;
  const isWhole = bands.length === 1 && only?.from === 0 && only.length === rows.shard;
  // Rank cuts stay as they are, so that the shards of many ranks do not become many extents. One row may be all that is kept.
  const length = pieces.reduce((sum, piece) => sum + pieceLength(piece), 0);
  if (isWhole && rows.count === 1 && length === rows.shard)
    return pieces.map((piece) => ({ ...piece, at: piece.at + only.to }));
  const { runs, strided } = slicePieces(pieces, partitions, 0, rows.count * rows.shard);
  const spread: Piece[] = bands.flatMap((band) => runs.flatMap((run) => spreadRun(run, rows, band)));
  for (const extent of strided) {
    const moved = isWhole ? spreadStrided(extent, rows, only.to) : undefined;
    if (!moved) return undefined;
    spread.push(moved);
  }
  return spread;
}

/** The part of a run that lies in a band: the rest of the row it starts in, whole rows, the start of the row it ends in. */
function spreadRun(run: Extent, rows: Rows, band: Band): Extent[] {
  const end = run.at + run.length;
  const firstWhole = Math.ceil(run.at / rows.shard);
  const lastWhole = Math.floor(end / rows.shard);
  if (lastWhole <= firstWhole) {
    // No row is whole; the run may still touch two.
    const split = Math.min(end, firstWhole * rows.shard);
    return [...partOfRow(run, run.at, split, rows, band), ...partOfRow(run, split, end, rows, band)];
  }
  const start = firstWhole * rows.shard;
  const count = lastWhole - firstWhole;
  const whole: Extent = {
    source: run.source,
    offset: run.offset + start + band.from - run.at,
    length: band.length,
    at: firstWhole * rows.whole + band.to,
    ...(count > 1 ? { repeat: [{ count, from: rows.shard, to: rows.whole }] } : {}),
  };
  return [
    ...partOfRow(run, run.at, start, rows, band),
    ...(band.length > 0 ? [whole] : []),
    ...partOfRow(run, lastWhole * rows.shard, end, rows, band),
  ];
}

/** Bytes `[start, end)` of the shard, all in one row, as far as they lie in a band. */
function partOfRow(run: Extent, start: number, end: number, rows: Rows, band: Band): Extent[] {
  const row = Math.floor(start / rows.shard);
  const first = row * rows.shard + band.from;
  const from = Math.max(start, first);
  const length = Math.min(end, first + band.length) - from;
  if (length <= 0) return [];
  const at = row * rows.whole + band.to + from - first;
  return [{ source: run.source, offset: run.offset + from - run.at, length, at }];
}

/** A strided shard: loops that step over whole rows step over the tensor's rows, loops inside a row stay as they are. */
function spreadStrided(extent: Extent, rows: Rows, to: number): Extent | undefined {
  const loops = extent.repeat ?? [];
  const end = loops.reduce((sum, loop) => sum + (loop.count - 1) * loop.to, extent.at + extent.length);
  // Rows that are left out would have to be cut from its loops.
  if (end > rows.count * rows.shard) return undefined;
  const inRow = loops.filter((loop) => loop.to % rows.shard !== 0);
  const column = extent.at % rows.shard;
  const span = inRow.reduce((sum, loop) => sum + (loop.count - 1) * loop.to, extent.length);
  const isRows = inRow.length === 0 && column === 0 && extent.length % rows.shard === 0;
  if (column + span > rows.shard && !isRows) return undefined;
  const widen = (loop: Repeat): Repeat =>
    loop.to % rows.shard === 0 ? { ...loop, to: (loop.to / rows.shard) * rows.whole } : loop;
  const at = Math.floor(extent.at / rows.shard) * rows.whole + column + to;
  const repeat = loops.map(widen);
  if (extent.length <= rows.shard) return { ...extent, at, repeat };
  const count = extent.length / rows.shard;
  return { ...extent, at, length: rows.shard, repeat: [...repeat, { count, from: rows.shard, to: rows.whole }] };
}
