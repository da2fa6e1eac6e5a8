/**
 * Where the bytes of a tensor lie. An extent is a run of bytes of a source file; a rank cut is the regular cut that
 * ZeRO-3 makes, kept as one rule whatever the number of ranks. All offsets and lengths are bytes, all ranges half-open.
 *
 * @module
 */

/** A run of bytes of source file number `source` that lands at byte `at` of the tensor. */
export interface Extent {
  readonly source: number;
  readonly offset: number;
  readonly length: number;
  readonly at: number;
  /**
   * Present for strided data: the run is repeated, outermost loop first. `offset` and `at` belong to the first run.
   * A transposed matrix, a channels-last weight and a row-parallel slice are all one extent.
   */
  readonly repeat?: readonly Repeat[];
}

/** One loop of a strided extent: `count` runs, each `from` bytes further in the source and `to` bytes in the tensor. */
export interface Repeat {
  readonly count: number;
  readonly from: number;
  readonly to: number;
}

/**
 * A range of a tensor that is cut over all ranks in equal shares, the last ones shorter or empty. Rank `r` holds bytes
 * `[r * share, min((r + 1) * share, length))` of the range; they start `offset` bytes after where partition `r` of the
 * partition list number `over` starts.
 */
export interface RankCut {
  readonly over: number;
  readonly offset: number;
  readonly share: number;
  readonly length: number;
  readonly at: number;
}

/** A part of a tensor: one extent, or one regular cut over the ranks. */
export type Piece = Extent | RankCut;

/** Where one rank's partition (a flat group) starts. */
export interface Partition {
  readonly source: number;
  readonly offset: number;
}

/** True for a regular cut. */
export function isRankCut(piece: Piece): piece is RankCut {
  return 'over' in piece;
}

/** The number of tensor bytes that a piece covers. */
export function pieceLength(piece: Piece): number {
  if (isRankCut(piece)) return piece.length;
  return (piece.repeat ?? []).reduce((length, loop) => length * loop.count, piece.length);
}
