import { expect, test } from 'vitest';
import { failuresOf, type Row, summarize } from '../../bench/measurement.js';
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

test('a row fails for a single sample at its limit, and not below', () => {
  const row = (samples: number[]): Row => ({
    subject: 'page',
    figures: [{ name: 'peak memory', unit: 'bytes', samples, below: 400e6 }],
    failures: [],
  });
  expect(failuresOf(row([1e6, 399e6, 2e6]))).toEqual([]);
  expect(failuresOf(row([1e6, 400e6, 2e6]))).toEqual(['page: peak memory is 400 MB, not below 400 MB']);
});

test('a row fails for wrong output, whatever its figures', () => {
  expect(failuresOf({ subject: 'page', figures: [], failures: ['a is missing'] })).toEqual(['page: a is missing']);
});

test('a table has a column for each figure, and a dash where a row lacks it', () => {
  const table = tableText([
    { subject: 'first', figures: [{ name: 'wall', unit: 'seconds', samples: [3, 1, 2] }], failures: [] },
    { subject: 'second', figures: [{ name: 'ratio', unit: 'ratio', samples: [1.5] }], failures: ['a is missing'] },
  ]);
  expect(table.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
    ['', 'wall', 'ratio'],
    ['first', '2.00 s (1.00 s to 3.00 s)', '-', 'ok'],
    ['second', '-', '1.50x', 'FAILED'],
  ]);
});
