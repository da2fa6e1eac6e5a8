import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, expect, test } from 'vitest';
import { inspect, openFolder } from '../../../src/node.js';
import { hugeCheckpoint } from '../../bench/checkpoint/huge.js';
import { type SparseFile, sparseTree, writeSparse } from '../../bench/checkpoint/sparse.js';
import { crcOfZeros } from '../../bench/checkpoint/zeros.js';

const home = mkdtempSync(join(tmpdir(), 'unshard-sparse-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

function emptyFolder(): string {
  return mkdtempSync(join(home, 'folder-'));
}

test('the CRC-32 of zeros is that of a buffer of them', () => {
  for (const length of [0, 1, 2, 3, 255, 256, 1_000_003]) {
    expect(crcOfZeros(length)).toBe(crc32(Buffer.alloc(length)));
  }
});

test('a file has its pieces at their places and zeros between them, which take no space', () => {
  const folder = emptyFolder();
  const length = 10_000_000;
  const pieces = [
    { at: 0, bytes: Uint8Array.of(1, 2) },
    { at: 5_000_000, bytes: Uint8Array.of(3) },
  ];
  writeSparse(folder, new Map([['a/b', () => ({ byteLength: length, pieces })]]));
  const expected = Buffer.alloc(length);
  expected.set([1, 2], 0);
  expected.set([3], 5_000_000);
  const path = join(folder, 'a', 'b');
  expect(readFileSync(path).equals(expected)).toBe(true);
  expect(512 * statSync(path).blocks).toBeLessThan(100_000);
});

test('the same object is one file with several names, an equal one is another', () => {
  const folder = emptyFolder();
  const one: SparseFile = { byteLength: 3, pieces: [] };
  const files = new Map([
    ['a', () => one],
    ['b', () => one],
    ['c', () => ({ ...one })],
  ]);
  writeSparse(folder, files);
  const [a, b, c] = ['a', 'b', 'c'].map((name) => statSync(join(folder, name)).ino);
  expect(b).toBe(a);
  expect(c).not.toBe(a);
});

test.each(['file', 'archive'] as const)(
  'a checkpoint on the disk is the one in memory (root names: %s)',
  async (rootNames) => {
    const folder = emptyFolder();
    const files = hugeCheckpoint({ stage: 3, ranks: 12, tensors: 30, rootNames });
    writeSparse(folder, files);
    const onDisk = await inspect(await openFolder(folder));
    const inMemory = await inspect(sparseTree('made', files));
    expect(onDisk.problems).toEqual([]);
    expect(onDisk.tensors.length).toBeGreaterThanOrEqual(30);
    expect(onDisk.tensors).toEqual(inMemory.tensors);
  },
);
