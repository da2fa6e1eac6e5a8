import { expect, test } from 'vitest';
import { counted, firstOf } from '../../../src/base/words.js';

test('a count and its noun agree', () => {
  expect([0, 1, 2, 1024].map((count) => counted(count, 'rank'))).toEqual([
    '0 ranks',
    '1 rank',
    '2 ranks',
    '1024 ranks',
  ]);
  expect([counted(1, 'rank', 'one'), counted(1024, 'rank', '1,024')]).toEqual(['one rank', '1,024 ranks']);
});

test('the first of several names tells that there are more', () => {
  const [a, b] = [{ name: 'a' }, { name: 'b' }];
  expect([firstOf([]), firstOf([a]), firstOf([a, b])]).toEqual(['', 'a', 'a, …']);
});
