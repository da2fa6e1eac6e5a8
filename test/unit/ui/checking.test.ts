import { expect, it } from 'vitest';
import { checkingHint } from '../../../src/ui/checking.js';

function files(...sizes: number[]): { path: string; byteLength: number }[] {
  return sizes.map((byteLength, i) => ({ path: `file-${i}`, byteLength }));
}

it('says nothing of small outputs', () => {
  expect(checkingHint(files(499_999_999))).toBeUndefined();
  expect(checkingHint(files(500_000_000))).toBeDefined();
});

it('counts one file in full and advises smaller ones', () => {
  expect(checkingHint(files(10e9))).toBe(
    'The browser checks each file before it appears: about 1 min 40 s in all. Several smaller files are checked side by side and are ready sooner.',
  );
});

it('counts a quarter for files that are checked four at a time', () => {
  expect(checkingHint(files(2.5e9, 2.5e9, 2.5e9, 2.5e9))).toBe(
    'The browser checks each file before it appears: about 25 s in all.',
  );
});
