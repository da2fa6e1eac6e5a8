import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Extent, Piece } from '../../../../src/base/extent.js';
import { forEachRun, slicePieces } from '../../../../src/base/slice.js';
import { type Band, type Rows, spreadPieces } from '../../../../src/checkpoints/deepspeed/spread.js';

/** Where every byte of a tensor comes from: `source:offset` by its place. A byte that comes from two places is told. */
function placesOf(pieces: readonly Piece[], length: number, partitions: Parameters<typeof slicePieces>[1] = []) {
  const places = new Map<number, string>();
  const add = (at: number, source: number, offset: number) => {
    places.set(at, places.has(at) ? 'twice' : `${source}:${offset}`);
  };
  const { runs, strided } = slicePieces(pieces, partitions, 0, length);
  for (const run of runs) for (let i = 0; i < run.length; i++) add(run.at + i, run.source, run.offset + i);
  for (const extent of strided) {
    forEachRun(extent, 0, length, (offset, at, size) => {
      for (let i = 0; i < size; i++) add(at + i, extent.source, offset + i);
    });
  }
  return places;
}

/** Byte by byte: what is in a band goes to its place in the tensor. */
function naive(
  pieces: readonly Piece[],
  rows: Rows,
  bands: readonly Band[],
  partitions: Parameters<typeof slicePieces>[1] = [],
) {
  const moved = new Map<number, string>();
  for (const [at, place] of placesOf(pieces, rows.count * rows.shard, partitions)) {
    const column = at % rows.shard;
    const band = bands.find(({ from, length }) => column >= from && column < from + length);
    if (band) moved.set(Math.floor(at / rows.shard) * rows.whole + band.to + column - band.from, place);
  }
  return moved;
}

/** Consecutive runs that cover `length` bytes, cut at `cuts`, each in a source of its own. */
function runsOf(length: number, cuts: readonly number[]): Extent[] {
  const ends = [...new Set([...cuts.map((cut) => cut % (length + 1)), length])].sort((a, b) => a - b);
  return ends.flatMap((end, i) => {
    const at = ends[i - 1] ?? 0;
    return end > at ? [{ source: i, offset: 1000 * i, length: end - at, at }] : [];
  });
}

const sizes = fc.integer({ min: 1, max: 6 });

/** Rows of bands that lie beside those of other ranks. */
const cases = fc
  .record({
    count: sizes,
    widths: fc.array(fc.tuple(fc.nat(4), fc.nat(4)), { minLength: 1, maxLength: 3 }),
    cuts: fc.array(fc.nat(200), { maxLength: 6 }),
  })
  .filter(({ widths }) => widths.some(([own]) => own > 0))
  .map(({ count, widths, cuts }) => {
    let [from, to] = [0, 0];
    const bands = widths.map(([own, others]): Band => {
      const band = { from, length: own, to };
      from += own;
      to += own + others;
      return band;
    });
    const rows: Rows = { count, shard: from, whole: to };
    return { rows, bands, pieces: runsOf(count * from, cuts) };
  });

describe('the pieces of a shard', () => {
  test('go to their place in the tensor, wherever they are cut', () => {
    fc.assert(
      fc.property(cases, ({ rows, bands, pieces }) => {
        const spread = spreadPieces(pieces, [], rows, bands) ?? [];
        expect(placesOf(spread, rows.count * rows.whole)).toEqual(naive(pieces, rows, bands));
      }),
      { numRuns: 1000 },
    );
  });

  test('make one strided extent of any number of rows', () => {
    const pieces = [{ source: 0, offset: 500, length: 3000, at: 0 }];
    expect(spreadPieces(pieces, [], { count: 1000, shard: 3, whole: 10 }, [{ from: 0, length: 3, to: 4 }])).toEqual([
      { source: 0, offset: 500, length: 3, at: 4, repeat: [{ count: 1000, from: 3, to: 10 }] },
    ]);
  });

  test('stay a rank cut where rows are not cut, and become extents where they are', () => {
    const partitions = [[0, 1, 2].map((source) => ({ source, offset: 100 }))];
    const pieces = [{ over: 0, offset: 8, share: 5, length: 12, at: 0 }];
    const band = { from: 0, length: 12, to: 20 };
    const whole = spreadPieces(pieces, partitions, { count: 1, shard: 12, whole: 40 }, [band]) ?? [];
    expect(whole).toEqual([{ ...pieces[0], at: 20 }]);
    const rows = { count: 4, shard: 3, whole: 10 };
    const bands = [{ from: 0, length: 3, to: 7 }];
    const spread = spreadPieces(pieces, partitions, rows, bands) ?? [];
    expect(placesOf(spread, 40, partitions)).toEqual(naive(pieces, rows, bands, partitions));
  });

  test('may be strided themselves: a transposed matrix, every second row, rows of a larger one', () => {
    const rows = { count: 4, shard: 6, whole: 20 };
    const strided: Extent[] = [
      // 4 x 3 elements of 2 bytes, stored column by column.
      {
        source: 0,
        offset: 0,
        length: 2,
        at: 0,
        repeat: [
          { count: 4, from: 2, to: 6 },
          { count: 3, from: 8, to: 2 },
        ],
      },
      { source: 0, offset: 0, length: 6, at: 0, repeat: [{ count: 4, from: 12, to: 6 }] },
      { source: 0, offset: 0, length: 12, at: 0, repeat: [{ count: 2, from: 40, to: 12 }] },
    ];
    for (const extent of strided) {
      const bands = [{ from: 0, length: 6, to: 9 }];
      const spread = spreadPieces([extent], [], rows, bands) ?? [];
      expect(placesOf(spread, 80)).toEqual(naive([extent], rows, bands));
      expect(placesOf(spread, 80).size).toBe(24);
    }
  });

  test('are given up where their runs would be cut', () => {
    const rows = { count: 4, shard: 6, whole: 20 };
    // 8 runs of 3 bytes: two to a row, in one loop.
    const extent: Extent = { source: 0, offset: 0, length: 3, at: 0, repeat: [{ count: 8, from: 9, to: 3 }] };
    expect(spreadPieces([extent], [], rows, [{ from: 0, length: 6, to: 0 }])).toBeUndefined();
    const fits: Extent = { source: 0, offset: 0, length: 6, at: 0, repeat: [{ count: 4, from: 9, to: 6 }] };
    expect(spreadPieces([fits], [], rows, [{ from: 0, length: 6, to: 0 }])).toHaveLength(1);
    expect(spreadPieces([fits], [], rows, [{ from: 0, length: 5, to: 0 }])).toBeUndefined();
    expect(spreadPieces([fits], [], { ...rows, count: 3 }, [{ from: 0, length: 6, to: 0 }])).toBeUndefined();
  });
});
