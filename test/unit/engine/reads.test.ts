import { expect, test } from 'vitest';
import { inFileOrder, ReadLayout, type TileCopy, type TileRead } from '../../../src/engine/reads.js';

test('plain runs among strided ones are read to their place between them', () => {
  const reads = new ReadLayout([]);
  const placed: [at: number, length: number, place: number][] = [];
  const pieces = [
    { source: 0, offset: 100, length: 4, at: 0 },
    { source: 1, offset: 0, length: 8, at: 4, repeat: [{ count: 2, from: 20, to: 12 }] },
    { source: 0, offset: 300, length: 4, at: 12 },
  ];
  reads.toInput(pieces, 0, 24, (run, place) => placed.push([run.at, run.length, place]));
  reads.finish();
  const place = placed[0]?.[2] ?? -1;
  expect(placed).toEqual([[0, 24, place]]);
  expect(reads.reads).toEqual<TileRead[]>([
    { source: 0, offset: 100, length: 4, into: 'input', at: place },
    { source: 0, offset: 300, length: 4, into: 'input', at: place + 12 },
  ]);
  expect(reads.strided.map(({ at, start, end }) => [at, start, end])).toEqual([[place, 0, 24]]);
  expect(reads.copies).toEqual<TileCopy[]>([]);
});

test('reads go through each file in its order, and through all files by turns', () => {
  const read = (source: number, offset: number): TileRead => ({ source, offset, length: 1, into: 'output', at: 0 });
  const asked = [read(1, 30), read(1, 10), read(0, 7), read(1, 20), read(0, 5), read(2, 9)];
  const order = inFileOrder(asked).map(({ source, offset }) => [source, offset]);
  const rounds = [order.slice(0, 3), order.slice(3, 5), order.slice(5)].map((round) => round.toSorted());
  expect(rounds).toEqual([
    [
      [0, 5],
      [1, 10],
      [2, 9],
    ],
    [
      [0, 7],
      [1, 20],
    ],
    [[1, 30]],
  ]);
});
