import { expect, it } from 'vitest';
import { fitOf } from '../../../src/ui/space.js';

const FILES = [
  { path: 'a', byteLength: 4_000_000_000 },
  { path: 'b', byteLength: 5_000_000_000 },
];

it('files fit where all have space, or the browser does not say', () => {
  expect(fitOf(FILES, 9_000_000_000)).toEqual({ kind: 'fits' });
  expect(fitOf(FILES, undefined)).toEqual({ kind: 'fits' });
  expect(fitOf([], 0)).toEqual({ kind: 'fits' });
});

it('files fit one after another where only each of them does', () => {
  const text =
    'The files need 9 GB in all, and the browser’s storage has 8.9 GB free. The run will wait in between, until you say that the first files are saved.';
  expect(fitOf(FILES, 8_900_000_000)).toEqual({ kind: 'in-turns', text });
  expect(fitOf(FILES, 5_000_000_000).kind).toBe('in-turns');
});

it('a file that has not enough space is refused with both numbers', () => {
  const text = 'b needs 5 GB, and the browser’s storage has 4.2 GB free.';
  expect(fitOf(FILES, 4_200_000_000)).toEqual({ kind: 'too-large', text });
});
