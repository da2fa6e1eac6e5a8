import { expect, test } from 'vitest';
import { ReadLayout, type TileCopy, type TileRead } from '../../../src/engine/reads.js';

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
