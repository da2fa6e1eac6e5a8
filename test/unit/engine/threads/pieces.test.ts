import { expect, test } from 'vitest';
import type { Repeat } from '../../../../src/base/extent.js';
import { piecesOf } from '../../../../src/engine/threads/pieces.js';
import { tilesOf } from '../../../../src/engine/tiles.js';
import { plan } from '../../../../src/plan/make.js';
import { inventoryOf, masterOf } from '../../../helpers/inventory.js';

const HUGE = { sources: [0, 1].map((i) => ({ path: `rank${i}.pt`, size: 1e12, modified: 1 })) };

/** Sizes of the pieces of the first tile of a matrix of 8 MiB, whose halves come from two sources by these loops. */
function pieces(length: number, repeat: readonly Repeat[], rows = 2048): number[] {
  const half = rows * length;
  const master = masterOf('a', half / 2, 0);
  const parts = [0, 1].map((source) => ({ source, offset: 0, length, at: source * length, repeat }));
  const made = plan(inventoryOf([{ ...master, stored: { dtype: 'F32', pieces: parts } }], HUGE));
  const [tile] = tilesOf(made, 0);
  if (!tile) throw new Error('the plan has no tile');
  return [...piecesOf(made, tile)].map((piece) => piece.length);
}

test('rows that follow each other in their file are read in pieces, others in the windows of the whole tile', () => {
  const whole = pieces(2048, [{ count: 2048, from: 4096, to: 4096 }]);
  expect(whole.length).toBe(1);
  const cut = pieces(2048, [{ count: 2048, from: 2048, to: 4096 }]);
  expect(cut.length).toBeGreaterThan(1);
  expect(cut.reduce((sum, length) => sum + length, 0)).toBe(whole[0]);
});

test('runs that are turned stay whole, though their loops cover a range of the file', () => {
  const columns = [
    { count: 2048, from: 4, to: 4096 },
    { count: 512, from: 8192, to: 4 },
  ];
  expect(pieces(4, columns, 2048 * 512).length).toBe(1);
});
