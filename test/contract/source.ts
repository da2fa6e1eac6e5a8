import { describe, expect, test } from 'vitest';
import { mapBounded } from '../../src/base/concurrent.js';
import { readBytes } from '../../src/io/read.js';
import type { ByteSource } from '../../src/io/types.js';
import { rejectionOf } from '../helpers/errors.js';
import { firstDifference, patternBytes } from '../helpers/pattern.js';

/** Opens a source over `bytes` under the name `dir/data.bin`. */
export type MakeSource = (bytes: Uint8Array<ArrayBuffer>) => Promise<ByteSource>;

const SIZE = 100_000;

/** Longer than adapters read in one piece, so that it takes several, the last one short. */
const LONG = 40 * 2 ** 20 + 7;

const MIB = 2 ** 20;

/** Offset and length of reads, in MiB. */
const LONG_RANGES = [
  [0, 3],
  [3, 2],
  [5, 2],
  [7.5, 0.25],
  [8.5, 4],
  [2, 3],
  [5, 1.5],
  [30, 2],
  [10, 17],
] as const;

/** Proves what `ByteSource` promises. */
export function sourceContract(name: string, make: MakeSource): void {
  describe(`${name} as a source`, () => {
    test('tells its name, size and time of change', async () => {
      const source = await make(patternBytes(0, SIZE));
      expect(source.name).toBe('dir/data.bin');
      expect(source.size).toBe(SIZE);
      expect(source.modified).toBeGreaterThanOrEqual(0);
      await source.close();
    });

    test.each([
      [0, 1],
      [0, SIZE],
      [1, 4096],
      [SIZE - 1, 1],
      [33_333, 65_537],
    ])('fills exactly the target with the bytes from %i, %i long', async (offset, length) => {
      const source = await make(patternBytes(0, SIZE));
      const around = new Uint8Array(length + 20).fill(0xaa);
      await source.read(offset, around.subarray(9, 9 + length));
      expect(firstDifference(around.subarray(9, 9 + length), patternBytes(offset, length))).toBeUndefined();
      expect([...around.subarray(0, 9), ...around.subarray(9 + length)]).toEqual(new Array(20).fill(0xaa));
      await source.close();
    });

    test('reads what is longer than one piece', async () => {
      const source = await make(patternBytes(0, LONG));
      const bytes = await readBytes(source, 5, LONG - 5);
      expect(firstDifference(bytes, patternBytes(5, LONG - 5))).toBeUndefined();
      await source.close();
    });

    test.each([1, 9])(
      'reads long ranges in a row, with gaps, back and across each other, %i at once',
      async (atOnce) => {
        const source = await make(patternBytes(0, LONG));
        const ranges = LONG_RANGES.map(([offset, length]) => ({ offset: offset * MIB, length: length * MIB }));
        await mapBounded(ranges, atOnce, async ({ offset, length }) => {
          const bytes = await readBytes(source, offset, length);
          expect(firstDifference(bytes, patternBytes(offset, length))).toBeUndefined();
        });
        await source.close();
      },
    );

    test('goes on after a read in a row of others that was cancelled', async () => {
      const source = await make(patternBytes(0, LONG));
      const read = (offset: number, signal?: AbortSignal) => readBytes(source, offset * MIB, MIB, signal);
      await read(0);
      await read(1);
      const cancel = new AbortController();
      const [cancelled, after] = [read(2, cancel.signal), read(3)];
      cancel.abort();
      await expect(cancelled).rejects.toBe(cancel.signal.reason);
      expect(firstDifference(await after, patternBytes(3 * MIB, MIB))).toBeUndefined();
      expect(firstDifference(await read(2), patternBytes(2 * MIB, MIB))).toBeUndefined();
      await source.close();
    });

    test('serves several reads at once', async () => {
      const source = await make(patternBytes(0, SIZE));
      const offsets = Array.from({ length: 32 }, (_, i) => i * 3000);
      const parts = await Promise.all(offsets.map((offset) => readBytes(source, offset, 5000)));
      for (const [i, part] of parts.entries()) {
        expect(firstDifference(part, patternBytes(i * 3000, 5000))).toBeUndefined();
      }
      await source.close();
    });

    test('reads nothing from an empty file and at the end of any file', async () => {
      const empty = await make(new Uint8Array());
      expect(empty.size).toBe(0);
      await empty.read(0, new Uint8Array());
      await empty.close();
      const source = await make(patternBytes(0, 10));
      await source.read(10, new Uint8Array());
      await source.close();
    });

    test.each([
      [SIZE - 9, 10, 9],
      [SIZE, 1, 0],
      [SIZE + 1000, 4, 0],
    ])('refuses a read at %i of %i bytes, of which %i are there', async (offset, expected, found) => {
      const source = await make(patternBytes(0, SIZE));
      const detail = await rejectionOf(readBytes(source, offset, expected));
      expect(detail).toMatchObject({
        kind: 'source',
        code: 'short-read',
        facts: { file: 'dir/data.bin', offset, expected, found },
      });
      await source.close();
    });

    test('reads nothing when the signal is aborted already', async () => {
      const source = await make(patternBytes(0, SIZE));
      const reason = new DOMException('stopped', 'AbortError');
      const into = new Uint8Array(10);
      await expect(source.read(3, into, AbortSignal.abort(reason))).rejects.toBe(reason);
      expect(into).toEqual(new Uint8Array(10));
      await source.read(3, into, new AbortController().signal);
      expect(into).toEqual(patternBytes(3, 10));
      await source.close();
    });

    test('ends a read that is aborted meanwhile, and then leaves the target alone', async () => {
      const source = await make(patternBytes(0, LONG));
      const abort = new AbortController();
      const reason = new Error('stopped');
      const into = new Uint8Array(LONG);
      const reading = source.read(0, into, abort.signal);
      abort.abort(reason);
      await expect(reading).rejects.toBe(reason);
      into.fill(0xaa);
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(into.every((byte) => byte === 0xaa)).toBe(true);
      await source.close();
    });

    test('refuses to be read after it was closed, and may be closed again', async () => {
      const source = await make(patternBytes(0, SIZE));
      await readBytes(source, 0, 1);
      await source.close();
      await expect(readBytes(source, 0, 1)).rejects.toThrow('closed');
      await source.close();
    });
  });
}
