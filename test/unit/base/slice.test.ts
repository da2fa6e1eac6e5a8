import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Extent, Partition, Piece } from '../../../src/base/extent.js';
import { forEachRun, slicePieces } from '../../../src/base/slice.js';

/** The source byte behind every byte of a tensor of `length` bytes, worked out one byte at a time: `source:offset`. */
function naive(pieces: readonly Piece[], partitions: readonly (readonly Partition[])[], length: number): string[] {
  const bytes = new Array<string>(length).fill('none');
  for (const piece of pieces) {
    if ('over' in piece) {
      for (let i = 0; i < piece.length; i++) {
        const rank = partitions[piece.over]?.[Math.floor(i / piece.share)];
        if (rank) bytes[piece.at + i] = `${rank.source}:${rank.offset + piece.offset + (i % piece.share)}`;
      }
      continue;
    }
    let starts = [{ offset: piece.offset, at: piece.at }];
    for (const loop of piece.repeat ?? []) {
      starts = starts.flatMap(({ offset, at }) =>
        Array.from({ length: loop.count }, (_, i) => ({ offset: offset + i * loop.from, at: at + i * loop.to })),
      );
    }
    for (const { offset, at } of starts) {
      for (let i = 0; i < piece.length; i++) bytes[at + i] = `${piece.source}:${offset + i}`;
    }
  }
  return bytes;
}

/** The same from what `slicePieces` and `forEachRun` give for a range. */
function sliced(
  pieces: readonly Piece[],
  partitions: readonly (readonly Partition[])[],
  start: number,
  end: number,
): string[] {
  const bytes = new Array<string>(end - start).fill('none');
  const put = (source: number, offset: number, at: number, length: number) => {
    for (let i = 0; i < length; i++) bytes[at + i] = `${source}:${offset + i}`;
  };
  const { runs, strided } = slicePieces(pieces, partitions, start, end);
  for (const run of runs) put(run.source, run.offset, run.at, run.length);
  for (const extent of strided) {
    forEachRun(extent, start, end, (offset, at, length) => put(extent.source, offset, at, length));
  }
  return bytes;
}

describe('slicePieces', () => {
  test('cuts plain runs at both ends', () => {
    const pieces: Piece[] = [
      { source: 0, offset: 100, length: 8, at: 0 },
      { source: 1, offset: 200, length: 8, at: 8 },
    ];
    expect(slicePieces(pieces, [], 4, 12).runs).toEqual([
      { source: 0, offset: 104, length: 4, at: 0 },
      { source: 1, offset: 200, length: 4, at: 4 },
    ]);
  });

  test('gives nothing for a range beside a piece', () => {
    expect(slicePieces([{ source: 0, offset: 0, length: 4, at: 4 }], [], 0, 4)).toEqual({ runs: [], strided: [] });
  });

  test('expands a cut over ranks: the last share is short, the padding behind it is never read', () => {
    const partitions = [[0, 1, 2, 3].map((source) => ({ source, offset: 1000 * source }))];
    const cut = { over: 0, offset: 40, share: 8, length: 18, at: 0 };
    expect(slicePieces([cut], partitions, 0, 18).runs).toEqual([
      { source: 0, offset: 40, length: 8, at: 0 },
      { source: 1, offset: 1040, length: 8, at: 8 },
      { source: 2, offset: 2040, length: 2, at: 16 },
    ]);
    expect(slicePieces([cut], partitions, 6, 10).runs).toEqual([
      { source: 0, offset: 46, length: 2, at: 0 },
      { source: 1, offset: 1040, length: 2, at: 2 },
    ]);
  });

  test('equals the byte-by-byte reading for any cut over ranks and any range', () => {
    const cases = fc.record({
      ranks: fc.integer({ min: 1, max: 9 }),
      length: fc.integer({ min: 1, max: 60 }),
      at: fc.integer({ min: 0, max: 7 }),
      range: fc.tuple(fc.nat(70), fc.nat(70)),
    });
    fc.assert(
      fc.property(cases, ({ ranks, length, at, range }) => {
        const partitions = [Array.from({ length: ranks }, (_, source) => ({ source, offset: 500 + source }))];
        const cut = { over: 0, offset: 3, share: Math.ceil(length / ranks), length, at };
        const [start, end] = [Math.min(...range), Math.max(...range)];
        const whole = naive([cut], partitions, 80);
        expect(sliced([cut], partitions, start, end)).toEqual(whole.slice(start, end));
      }),
    );
  });

  test('equals the byte-by-byte reading for any row-major strided view and any range', () => {
    const cases = fc.record({
      length: fc.integer({ min: 1, max: 4 }),
      counts: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 3 }),
      steps: fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 3, maxLength: 3 }),
      range: fc.tuple(fc.nat(300), fc.nat(300)),
    });
    fc.assert(
      fc.property(cases, ({ length, counts, steps, range }) => {
        const repeat = counts.map((count, i) => {
          const to = counts.slice(i + 1).reduce((product, inner) => product * inner, length);
          return { count, from: steps[i] ?? 0, to };
        });
        const extent: Extent = { source: 2, offset: 10, length, at: 0, repeat };
        const [start, end] = [Math.min(...range), Math.max(...range)];
        const whole = naive([extent], [], 400);
        expect(sliced([extent], [], start, end)).toEqual(whole.slice(start, end));
      }),
    );
  });

  test('equals the byte-by-byte reading for rows of several sources that lie between each other', () => {
    const rows = (source: number, at: number): Extent => {
      return { source, offset: 7, length: 3, at, repeat: [{ count: 5, from: 3, to: 6 }] };
    };
    const pieces = [rows(0, 0), rows(1, 3)];
    const whole = naive(pieces, [], 30);
    for (let start = 0; start < 30; start++) {
      for (let end = start + 1; end <= 30; end++)
        expect(sliced(pieces, [], start, end)).toEqual(whole.slice(start, end));
    }
  });
});
