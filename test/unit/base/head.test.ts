import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Extent, Piece } from '../../../src/base/extent.js';
import { headOfPieces } from '../../../src/base/head.js';

/** The source byte behind every tensor byte that the extents cover, one at a time. */
function bytesOf(extents: readonly Extent[]): [at: number, offset: number][] {
  return extents
    .flatMap(({ offset, at, length, repeat = [] }) => {
      let starts = [{ offset, at }];
      for (const { count, from, to } of repeat) {
        starts = starts.flatMap((start) =>
          Array.from({ length: count }, (_, i) => ({ offset: start.offset + i * from, at: start.at + i * to })),
        );
      }
      return starts.flatMap((start) =>
        Array.from({ length }, (_, i): [number, number] => [start.at + i, start.offset + i]),
      );
    })
    .toSorted(([a], [b]) => a - b);
}

describe('headOfPieces', () => {
  test('cuts a plain run, keeps those before it and leaves those after it out', () => {
    const pieces: Piece[] = [
      { source: 0, offset: 100, length: 8, at: 0 },
      { source: 1, offset: 200, length: 8, at: 8 },
      { source: 2, offset: 300, length: 8, at: 16 },
    ];
    expect(headOfPieces(pieces, 12)).toEqual([
      { source: 0, offset: 100, length: 8, at: 0 },
      { source: 1, offset: 200, length: 4, at: 8 },
    ]);
  });

  test('shortens a regular cut, whose shares stay as they are', () => {
    const cut: Piece = { over: 3, offset: 40, share: 16, length: 60, at: 0 };
    expect(headOfPieces([cut], 24)).toEqual([{ ...cut, length: 24 }]);
    expect(headOfPieces([{ ...cut, at: 24 }], 24)).toEqual([]);
  });

  test('the first rows of a transposed matrix stay one extent', () => {
    // 6 rows of 4 elements of 2 bytes, stored column by column.
    const extent = { source: 0, offset: 0, length: 2, at: 0 };
    const rows = { count: 6, from: 2, to: 8 };
    const columns = { count: 4, from: 12, to: 2 };
    const head = [{ ...extent, repeat: [{ ...rows, count: 3 }, columns] }];
    expect(headOfPieces([{ ...extent, repeat: [rows, columns] }], 24)).toEqual(head);
    expect(headOfPieces([{ ...extent, repeat: [columns, rows] }], 24)).toEqual(head);
  });

  test('the whole length changes nothing but the form, and none gives nothing', () => {
    const extent = { source: 0, offset: 5, length: 2, at: 0, repeat: [{ count: 3, from: 7, to: 2 }] };
    expect(headOfPieces([extent], 6)).toEqual([extent]);
    expect(headOfPieces([extent], 0)).toEqual([]);
  });

  test('gives exactly the bytes before the end, for any strided extent and any end', () => {
    const loop = fc.record({ count: fc.integer({ min: 1, max: 4 }), from: fc.nat(20), to: fc.nat(20) });
    const extents = fc.record({
      source: fc.constant(0),
      offset: fc.nat(100),
      length: fc.integer({ min: 1, max: 5 }),
      at: fc.nat(10),
      repeat: fc.array(loop, { maxLength: 3 }),
    });
    fc.assert(
      fc.property(extents, fc.nat(80), (extent, end) => {
        const before = bytesOf([extent]).filter(([at]) => at < end);
        const sort = (bytes: [number, number][]) => bytes.toSorted((a, b) => a[0] - b[0] || a[1] - b[1]);
        expect(sort(bytesOf(headOfPieces([extent], end) as Extent[]))).toEqual(sort(before));
      }),
    );
  });
});
