import { type Extent, isRankCut, type Piece, type Repeat } from './extent.js';

/**
 * The pieces of the first `length` bytes of a tensor: its first rows, where that is a multiple of a row. Nothing is read
 * and nothing moves; pieces that lie beyond are left out.
 */
export function headOfPieces(pieces: readonly Piece[], length: number): Piece[] {
  return pieces.flatMap((piece): Piece[] => {
    if (!isRankCut(piece)) return headOfExtent(piece, length);
    const left = Math.min(piece.length, length - piece.at);
    return left > 0 ? [{ ...piece, length: left }] : [];
  });
}

/**
 * The runs of an extent that lie before byte `end` of the tensor. Turns of the outermost loop that end before it stay one
 * extent; a turn that reaches over it is cut by itself.
 */
function headOfExtent(extent: Extent, end: number): Extent[] {
  const { repeat, ...run } = extent;
  // Loops run in any order to the same effect. With the widest step outermost, at most one turn of each reaches over the end.
  const [outer, ...inner] = (repeat ?? []).toSorted((a, b) => b.to - a.to);
  if (!outer) {
    const length = Math.min(run.length, end - run.at);
    return length > 0 ? [{ ...run, length }] : [];
  }
  const turn = withLoops(run, inner);
  const room = end - run.at;
  const whole = turnsBelow(room - spanOf(turn) + 1, outer);
  const touched = turnsBelow(room, outer);
  const heads: Extent[] = whole > 0 ? [withLoops(run, [{ ...outer, count: whole }, ...inner])] : [];
  for (let i = whole; i < touched; i++) {
    heads.push(...headOfExtent({ ...turn, offset: turn.offset + i * outer.from, at: turn.at + i * outer.to }, end));
  }
  return heads;
}

/** The number of turns that start less than `room` bytes after the first. */
function turnsBelow(room: number, { count, to }: Repeat): number {
  if (room <= 0) return 0;
  return to === 0 ? count : Math.min(count, Math.ceil(room / to));
}

/** Bytes of the tensor from the start of the first run to the end of the last. */
function spanOf(extent: Extent): number {
  return (extent.repeat ?? []).reduce((span, loop) => span + (loop.count - 1) * loop.to, extent.length);
}

function withLoops(run: Omit<Extent, 'repeat'>, loops: readonly Repeat[]): Extent {
  const repeat = loops.filter((loop) => loop.count > 1);
  return repeat.length > 0 ? { ...run, repeat } : run;
}
