import { describe, expect, test } from 'vitest';
import { readAhead, SpareMemory } from '../../../src/io/ahead.js';
import { readBytes, readView } from '../../../src/io/read.js';
import { sparseSource } from '../../helpers/source.js';

const SIZE = 10_000_000;
const ENDS = { head: 1000, tail: 2000 };
const PIECES = [
  { at: 10, bytes: Uint8Array.of(1, 2, 3) },
  { at: 1500, bytes: Uint8Array.of(4, 5) },
  { at: SIZE - 4, bytes: Uint8Array.of(6, 7) },
];

describe('a file whose ends are read ahead', () => {
  test('costs two reads, whatever is asked of its ends', async () => {
    const file = sparseSource(SIZE, PIECES);
    const ahead = await readAhead(file, ENDS);
    expect([...(await readBytes(ahead, 9, 5))]).toEqual([0, 1, 2, 3, 0]);
    expect([...(await readBytes(ahead, SIZE - 5, 5))]).toEqual([0, 6, 7, 0, 0]);
    expect(file.reads.map(({ offset, length }) => [offset, length])).toEqual([
      [0, 1000],
      [SIZE - 2000, 2000],
    ]);
  });

  test('is read as ever between them, and where a range goes over an end', async () => {
    const file = sparseSource(SIZE, PIECES);
    const ahead = await readAhead(file, ENDS);
    expect([...(await readBytes(ahead, 1499, 3))]).toEqual([0, 4, 5]);
    expect((await readBytes(ahead, 999, 2)).length).toBe(2);
    expect(file.reads.length).toBe(4);
  });

  test('is read whole where its ends nearly meet', async () => {
    const file = sparseSource(200_000, PIECES.slice(0, 2));
    const ahead = await readAhead(file, ENDS);
    expect([...(await readBytes(ahead, 1500, 2))]).toEqual([4, 5]);
    expect(file.reads.map(({ offset, length }) => [offset, length])).toEqual([[0, 200_000]]);
  });

  test('tells how much of each end was asked for', async () => {
    const ahead = await readAhead(sparseSource(SIZE, PIECES), ENDS);
    await readBytes(ahead, SIZE - 100, 50);
    await readBytes(ahead, 0, 512);
    await readBytes(ahead, 512, 700);
    await readBytes(ahead, SIZE - 4000, 20);
    expect(ahead.asked()).toEqual({ head: 1212, tail: 4000 });
  });

  test('keeps what follows the head when it lets go of the rest', async () => {
    const file = sparseSource(SIZE, [{ at: 600, bytes: Uint8Array.of(8) }]);
    const ahead = await readAhead(file, { head: 5000, tail: 2000 });
    await readBytes(ahead, 0, 512);
    ahead.release();
    expect([...(await readBytes(ahead, 600, 1))]).toEqual([8]);
    expect(file.reads.length).toBe(2);
    expect([...(await readBytes(ahead, 0, 1)), ...(await readBytes(ahead, SIZE - 1, 1))]).toEqual([0, 0]);
    expect(file.reads.length).toBe(4);
  });

  test('has its tail read from a whole number of words on', async () => {
    const file = sparseSource(SIZE + 3, PIECES);
    await readAhead(file, ENDS);
    expect(file.reads.map(({ offset }) => offset)).toEqual([0, SIZE - 2000]);
    expect(file.reads.map(({ length }) => length)).toEqual([1000, 2003]);
  });

  test('is seen without a copy where it is held', async () => {
    const file = sparseSource(SIZE, PIECES);
    const ahead = await readAhead(file, ENDS);
    const [once, again] = [await readView(ahead, 10, 3), await readView(ahead, 10, 3)];
    expect([...once]).toEqual([1, 2, 3]);
    expect(again.buffer).toBe(once.buffer);
    expect([...(await readView(ahead, 1500, 2))]).toEqual([4, 5]);
  });

  test('is read into memory that another one has let go of', async () => {
    const memory = new SpareMemory();
    const first = await readAhead(sparseSource(SIZE, PIECES), ENDS, undefined, memory);
    const before = await readView(first, 0, 100);
    first.release();
    const second = await readAhead(sparseSource(SIZE, [{ at: 1, bytes: Uint8Array.of(9) }]), ENDS, undefined, memory);
    const after = await readView(second, 0, 100);
    expect(after.buffer).toBe(before.buffer);
    expect([...after.subarray(0, 14)]).toEqual([0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // What was kept of the first file is its own still.
    expect([...(await readBytes(first, 100, 2))]).toEqual([0, 0]);
  });

  test('refuses to be read when it was cancelled', async () => {
    const ahead = await readAhead(sparseSource(SIZE, PIECES), ENDS);
    const signal = AbortSignal.abort();
    await expect(readBytes(ahead, 0, 1, signal)).rejects.toBe(signal.reason);
    await expect(readView(ahead, 0, 1, signal)).rejects.toBe(signal.reason);
  });
});
