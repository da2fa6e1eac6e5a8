import { expect, test } from 'vitest';
import { missesOf, quantity, type Row, ratiosOf, summarize } from '../../bench/measurement.js';
import { tableText } from '../../bench/table.js';

test('the median of an odd number of samples is the middle one, whatever their order', () => {
  expect(summarize([9, 1, 4])).toEqual({ median: 4, min: 1, max: 9 });
  expect(summarize([7])).toEqual({ median: 7, min: 7, max: 7 });
});

test('the median of an even number of samples lies between the middle two', () => {
  expect(summarize([10, 1, 2, 5])).toEqual({ median: 3.5, min: 1, max: 10 });
});

test('a figure without samples cannot be summarized', () => {
  expect(() => summarize([])).toThrow('no samples');
});

test('a row misses a target where the median is beyond it, and not at it', () => {
  const row = (samples: number[]): Row => ({
    subject: 'page',
    figures: [{ name: 'peak memory', unit: 'bytes', samples, target: 400e6 }],
    failures: [],
  });
  expect(missesOf(row([1e6, 400e6, 900e6]))).toEqual([]);
  expect(missesOf(row([1e6, 401e6, 900e6]))).toEqual(['page: peak memory is 401 MB, not 400 MB at most']);
});

test('a figure without a target misses none', () => {
  expect(
    missesOf({ subject: 'page', figures: [{ name: 'wall', unit: 'seconds', samples: [9] }], failures: [] }),
  ).toEqual([]);
});

test('a ratio is of the samples of the same turn', () => {
  expect(ratiosOf([2, 9, 8], [1, 3, 16])).toEqual([2, 3, 0.5]);
  expect(ratiosOf([2, 9], [1])).toEqual([2]);
});

test.each([
  [1.234, 'seconds', '1.23 s'],
  [61.7, 'milliseconds', '62 ms'],
  [144.6e6, 'bytes', '145 MB'],
  [21_520, 'kilobytes', '21.5 KB'],
  [1.205, 'ratio', '1.21x'],
  [0.456, 'share', '46 %'],
  [812.4, 'MB/s', '812 MB/s'],
  [11.04, 'GB/s', '11 GB/s'],
] as const)('%d in the unit %s is %s', (value, unit, text) => {
  expect(quantity(value, unit)).toBe(text);
});

test('a table has a column for each figure, and a dash where a row lacks it', () => {
  const table = tableText([
    { subject: 'first', figures: [{ name: 'wall', unit: 'seconds', samples: [3, 1, 2] }], failures: [] },
    { subject: 'second', figures: [{ name: 'ratio', unit: 'ratio', samples: [1.5] }], failures: ['a is missing'] },
  ]);
  expect(table.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
    ['', 'wall', 'ratio'],
    ['first', '2.00 s (1.00 s to 3.00 s)', '-', 'right'],
    ['second', '-', '1.50x', 'WRONG'],
  ]);
});

test('a table says whether a median is within its target', () => {
  const cell = (samples: readonly number[]): string => {
    const figure = { name: 'ratio', unit: 'ratio', samples, target: 1.25 } as const;
    return tableText([{ subject: 'page', figures: [figure], failures: [] }]);
  };
  expect(cell([1.25, 1, 9])).toContain('1.25x (1.00x to 9.00x), within 1.25x');
  expect(cell([1.5])).toContain('1.50x, OVER 1.25x');
});
