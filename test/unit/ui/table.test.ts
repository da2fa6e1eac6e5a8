import { describe, expect, it } from 'vitest';
import { ROW_HEIGHT, rowsInSight, search } from '../../../src/ui/table.js';
import type { TensorRow } from '../../../src/worker/protocol.js';

function row(name: string): TensorRow {
  return { name, shape: [2], origin: 'master', from: 'F32' };
}

describe('rowsInSight', () => {
  it('takes all rows of a short table', () => {
    expect(rowsInSight(7, 0)).toEqual({ first: 0, end: 7 });
  });

  it.each([0, 1, 777, 25_000, 49_990, 60_000])('covers the window when 50,000 rows are scrolled to row %d', (row) => {
    const { first, end } = rowsInSight(50_000, row * ROW_HEIGHT);
    const last = Math.min(row, 50_000 - 20);
    expect(first).toBeLessThanOrEqual(last);
    expect(end).toBeGreaterThanOrEqual(last + 20);
    expect(end).toBeLessThanOrEqual(50_000);
    expect(end - first).toBeLessThanOrEqual(41);
    expect(first % 2).toBe(0);
  });
});

describe('search', () => {
  const rows = [row('model.layers.0.mlp.weight'), row('model.layers.0.norm.bias'), row('lm_head.Weight')];

  it('finds all rows with no query', () => {
    expect(search(rows, '  ')).toBe(rows);
  });

  it('finds names that hold every word, whatever the case', () => {
    expect(search(rows, 'WEIGHT').map(({ name }) => name)).toEqual(['model.layers.0.mlp.weight', 'lm_head.Weight']);
    expect(search(rows, 'layers bias').map(({ name }) => name)).toEqual(['model.layers.0.norm.bias']);
    expect(search(rows, 'layers head')).toEqual([]);
  });
});
