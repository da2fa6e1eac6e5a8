/**
 * Tiles in pieces. A thread that reads, converts, writes and reads back by itself does all of it to a piece while that is
 * in the cache of its processor.
 *
 * @module
 */

import { combineCrc32 } from '../../base/crc32.js';
import type { Extent } from '../../base/extent.js';
import { addStats, emptyStats } from '../../numeric/stats.js';
import type { Plan } from '../../plan/plan.js';
import type { Difference, TensorStats } from '../fill.js';
import type { FilledTile } from '../filler.js';
import { cutTile, type Tile } from '../tiles.js';
import { workOf } from '../work.js';
import type { WrittenRange } from '../written.js';

/** Size of a piece (2 MiB): those of all threads fit into the third cache, and there are few enough of them. */
const PIECE_BYTES = 2 ** 21;

/** Tiles whose reads are shorter on average (256 KiB) stay whole: in pieces there would be many more of them. */
const WORTH_CUTTING = 2 ** 18;

/** The pieces of a tile, in order: itself alone where more would cost more. */
export function piecesOf(plan: Plan, tile: Tile): Iterable<Tile> {
  const { reads: whole, scattered, strided, computations } = workOf(plan, tile);
  const reads = [...whole, ...scattered];
  const bytes = reads.reduce((sum, { length }) => sum + length, 0);
  const isDense = strided.every(({ extent }) => followsItself(extent));
  const isWorth = isDense && computations.length === 0 && bytes >= WORTH_CUTTING * reads.length;
  return isWorth ? cutTile(plan, tile, PIECE_BYTES) : [tile];
}

/** True where the runs of a strided extent follow each other in the source, in the order in which they are in the tensor. */
function followsItself({ length, repeat = [] }: Extent): boolean {
  let span = length;
  for (const { count, from, to } of repeat.toReversed()) {
    if (from !== span || to < span) return false;
    span *= count;
  }
  return true;
}

/** A piece, and what filling it has shown. */
export interface FilledPiece {
  readonly piece: Tile;
  readonly filled: FilledTile;
}

/** What the pieces of a tile have shown, as the whole tile shows it. */
export function joinFilled(pieces: readonly FilledPiece[]): FilledTile {
  const filled = pieces.map((piece) => piece.filled);
  return {
    stats: joinStats(filled.flatMap(({ stats }) => stats)),
    differences: joinDifferences(filled.flatMap(({ differences }) => differences)),
    written: joinWritten(pieces),
    audited: [],
  };
}

function joinStats(all: readonly TensorStats[]): TensorStats[] {
  const sums = new Map<number, TensorStats>();
  for (const { tensor, stats } of all) {
    const sum = sums.get(tensor) ?? { tensor, stats: emptyStats() };
    addStats(sum.stats, stats);
    sums.set(tensor, sum);
  }
  return [...sums.values()];
}

/** The first difference of each comparison, with the number of all. */
function joinDifferences(all: readonly Difference[]): Difference[] {
  const joined: Difference[] = [];
  for (const more of all) {
    const index = joined.findIndex(({ tensor, proof }) => tensor === more.tensor && proof === more.proof);
    const found = joined[index];
    if (found) joined[index] = { ...found, count: found.count + more.count };
    else joined.push(more);
  }
  return joined;
}

/** Ranges that were one before they were cut are one again. */
function joinWritten(pieces: readonly FilledPiece[]): WrittenRange[] {
  const joined: WrittenRange[] = [];
  for (const { piece, filled } of pieces) {
    const isCut = (piece.parts[0]?.from ?? 0) > 0;
    for (const range of filled.written) {
      const last = joined.at(-1);
      if (isCut && range.at === piece.at && last && last.at + last.length === range.at) {
        const crc32 = combineCrc32(last.crc32, range.crc32, range.length);
        joined[joined.length - 1] = { at: last.at, length: last.length + range.length, crc32 };
      } else joined.push(range);
    }
  }
  return joined;
}
