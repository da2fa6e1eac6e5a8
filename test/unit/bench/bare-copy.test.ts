import { expect, test } from 'vitest';
import { type BareCopy, bareTiles, lanesOfFile, PIECE_BYTES } from '../../bench/browser/bare-copy.js';

/** Everything that a copy reads, by file and in order. */
function readBy(copy: BareCopy): { path: string; offset: number; length: number }[] {
  return bareTiles(copy).flatMap((tiles) => tiles.flatMap(({ reads }) => [...reads]));
}

test('every byte is read once, in pieces of a bounded size, and every byte of the files is written once', () => {
  const copy: BareCopy = {
    reads: [
      { path: 'a', offset: 100, length: 2.5 * PIECE_BYTES },
      { path: 'b', offset: 0, length: 10 },
      { path: 'b', offset: 4 * PIECE_BYTES, length: 1.5 * PIECE_BYTES },
    ],
    files: [
      { path: 'x', byteLength: 1.25 * PIECE_BYTES },
      { path: 'y', byteLength: 3 },
      { path: 'z', byteLength: 0.75 * PIECE_BYTES },
    ],
  };
  expect(readBy(copy)).toEqual([
    { path: 'a', offset: 100, length: PIECE_BYTES },
    { path: 'a', offset: 100 + PIECE_BYTES, length: PIECE_BYTES },
    { path: 'a', offset: 100 + 2 * PIECE_BYTES, length: PIECE_BYTES / 2 },
    { path: 'b', offset: 0, length: 10 },
    { path: 'b', offset: 4 * PIECE_BYTES, length: PIECE_BYTES },
    { path: 'b', offset: 5 * PIECE_BYTES, length: PIECE_BYTES / 2 },
  ]);
  const written = bareTiles(copy).map((tiles) => tiles.map(({ at, length }) => [at, length]));
  expect(written).toEqual([
    [
      [0, PIECE_BYTES],
      [PIECE_BYTES, PIECE_BYTES / 4],
    ],
    [[0, 3]],
    [[0, 0.75 * PIECE_BYTES]],
  ]);
});

test('where half as much is written, two pieces are read for each', () => {
  const tiles = bareTiles({
    reads: [{ path: 'a', offset: 0, length: 8 * PIECE_BYTES }],
    files: [{ path: 'x', byteLength: 4 * PIECE_BYTES }],
  });
  expect(tiles[0]?.map(({ reads }) => reads.length)).toEqual([2, 2, 2, 2]);
});

test('as many pieces are under way whether one file is written or several', () => {
  expect([1, 2, 3, 4, 9].map(lanesOfFile)).toEqual([8, 4, 2, 2, 2]);
});
