import { describe, expect, test } from 'vitest';
import { PlanSources } from '../../../src/engine/sources.js';
import { memoryTree } from '../../../src/io/memory.js';
import type { FileTree } from '../../../src/io/types.js';
import { rejectionOf } from '../../helpers/errors.js';

const COUNT = 5000;
const NAMES = Array.from({ length: COUNT }, (_, i) => `file${i}`);
const FILES = NAMES.map((path) => ({ path, size: 4, modified: 0 }));

/** A tree of files that hold their number, and how many of them are open now and were at most. */
function countingTree() {
  const tree = memoryTree(
    Object.fromEntries(NAMES.map((name, i) => [name, new Uint8Array(new Uint32Array([i]).buffer)])),
  );
  const count = { open: 0, most: 0 };
  const counting: FileTree = {
    ...tree,
    async open(path) {
      const source = await tree.open(path);
      count.most = Math.max(count.most, ++count.open);
      return {
        name: source.name,
        size: source.size,
        modified: 0,
        read: (offset, into, signal) => source.read(offset, into, signal),
        async close() {
          count.open--;
          await source.close();
        },
      };
    },
  };
  return { counting, count };
}

async function readNumber(sources: PlanSources, index: number): Promise<number> {
  const bytes = new Uint8Array(4);
  await sources.read(index, 0, bytes, undefined);
  return new Uint32Array(bytes.buffer)[0] ?? -1;
}

describe('the sources of a plan', () => {
  test('are open a few at a time, however many there are, and none when they are closed', async () => {
    const { counting, count } = countingTree();
    const sources = new PlanSources((path) => counting.open(path), FILES);
    const read: number[] = [];
    for (const i of NAMES.keys()) read.push(await readNumber(sources, i));
    expect(read).toEqual([...NAMES.keys()]);
    expect(count.most).toBeLessThan(2100);
    expect(count.open).toBeGreaterThan(0);
    await sources.close();
    expect(count.open).toBe(0);
  });

  test('that were closed are opened again', async () => {
    const { counting } = countingTree();
    const sources = new PlanSources((path) => counting.open(path), FILES);
    for (const i of [...NAMES.keys(), ...NAMES.keys()]) expect(await readNumber(sources, i)).toBe(i);
  });

  test('are not closed while they are read', async () => {
    const { counting, count } = countingTree();
    const sources = new PlanSources((path) => counting.open(path), FILES);
    expect(await Promise.all(NAMES.map((_, i) => readNumber(sources, i)))).toEqual([...NAMES.keys()]);
    expect(count.open).toBeLessThan(2100);
  });

  test('that are gone are no obstacle to others', async () => {
    const { counting } = countingTree();
    const gone = { path: 'gone', size: 4, modified: 0 };
    const sources = new PlanSources((path) => counting.open(path), [...FILES, gone]);
    expect(await rejectionOf(readNumber(sources, COUNT))).toMatchObject({ kind: 'source' });
    for (const i of NAMES.keys()) expect(await readNumber(sources, i)).toBe(i);
    await sources.close();
  });
});
