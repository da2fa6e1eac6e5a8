import { describe, expect, test } from 'vitest';
import { readBytes } from '../../src/io/read.js';
import type { OutputTree } from '../../src/io/types.js';
import { rejectionOf } from '../helpers/errors.js';
import { firstDifference, patternBytes } from '../helpers/pattern.js';
import { BAD_PATHS } from './tree.js';

/** Opens an empty folder named `root` to write to. */
export type MakeOutput = () => Promise<OutputTree>;

/** Proves what `OutputTree` and `ByteSink` promise. */
export function sinkContract(name: string, make: MakeOutput): void {
  describe(`${name} as an output`, () => {
    test('makes a file appear complete when it is closed, not before', async () => {
      const output = await make();
      expect(output.name).toBe('root');
      const sink = await output.create('a.bin', 10);
      await sink.write(0, patternBytes(0, 10));
      expect(await contentOf(output, 'a.bin')).toEqual(new Uint8Array());
      await sink.close();
      expect(await output.has('a.bin')).toBe(true);
      expect(await contentOf(output, 'a.bin')).toEqual(patternBytes(0, 10));
    });

    test('takes the parts in any order, several at once, and lets their memory be used again', async () => {
      const output = await make();
      const [part, parts] = [300_001, 9];
      const sink = await output.create('a.bin', part * parts);
      const order = [8, 0, 3, 7, 1, 2, 6, 5, 4];
      await Promise.all(
        order.map(async (i) => {
          const bytes = patternBytes(i * part, part);
          await sink.write(i * part, bytes);
          bytes.fill(0);
        }),
      );
      await sink.close();
      expect(firstDifference(await contentOf(output, 'a.bin'), patternBytes(0, part * parts))).toBeUndefined();
    });

    test('reads back what was written before it is closed, or says that it cannot', async () => {
      const output = await make();
      const sink = await output.create('a.bin', 100_000);
      await sink.write(10, patternBytes(0, 50_000));
      const found = new Uint8Array(50_020).fill(9);
      await sink.read?.(0, found);
      const expected = new Uint8Array(50_020);
      expected.set(patternBytes(0, 50_000), 10);
      if (sink.read) expect(firstDifference(found, expected)).toBeUndefined();
      else expect(new Set(found)).toEqual(new Set([9]));
      await sink.abort();
    });

    test('has the size it was created with, and zeros where nothing was written', async () => {
      const output = await make();
      const sink = await output.create('a.bin', 12);
      await sink.write(4, new Uint8Array([1, 2]));
      await sink.close();
      expect([...(await contentOf(output, 'a.bin'))]).toEqual([0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0]);
    });

    test('writes an empty file', async () => {
      const output = await make();
      await (await output.create('a.bin', 0)).close();
      expect(await output.has('a.bin')).toBe(true);
      expect(await contentOf(output, 'a.bin')).toEqual(new Uint8Array());
    });

    test('leaves nothing of a file that is dropped', async () => {
      const output = await make();
      const sink = await output.create('a.bin', 5);
      await sink.write(0, patternBytes(0, 5));
      await sink.abort();
      expect(await output.has('a.bin')).toBe(false);
      await sink.abort();
    });

    test('leaves nothing of a file that is dropped before anything was written', async () => {
      const output = await make();
      await (await output.create('sub/a.bin', 5)).abort();
      expect(await output.has('sub/a.bin')).toBe(false);
    });

    test('replaces a file only when the new one is closed', async () => {
      const output = await make();
      await writeFile(output, 'a.bin', patternBytes(0, 10));
      const sink = await output.create('a.bin', 4);
      await sink.write(0, patternBytes(50, 4));
      expect(await contentOf(output, 'a.bin')).toEqual(patternBytes(0, 10));
      await sink.close();
      expect(await contentOf(output, 'a.bin')).toEqual(patternBytes(50, 4));
    });

    test('keeps a file whose replacement is dropped, also an empty one', async () => {
      const output = await make();
      for (const length of [10, 0]) {
        await writeFile(output, 'a.bin', patternBytes(0, length));
        const sink = await output.create('a.bin', 4);
        await sink.write(0, patternBytes(50, 4));
        await sink.abort();
        expect(await output.has('a.bin')).toBe(true);
        expect(await contentOf(output, 'a.bin')).toEqual(patternBytes(0, length));
      }
    });

    test('keeps a closed file when its sink is dropped afterwards or meanwhile', async () => {
      const output = await make();
      const sink = await output.create('a.bin', 3);
      await sink.write(0, patternBytes(0, 3));
      const closing = sink.close();
      await sink.abort();
      await closing;
      await sink.abort();
      expect(await contentOf(output, 'a.bin')).toEqual(patternBytes(0, 3));
    });

    test('refuses to write outside the file, and after its end', async () => {
      const output = await make();
      const sink = await output.create('a.bin', 4);
      await sink.write(0, new Uint8Array(4));
      await expect(sink.write(1, new Uint8Array(4))).rejects.toThrow('[1, 5) is outside the 4 bytes of a.bin');
      await expect(sink.write(-1, new Uint8Array(1))).rejects.toThrow('outside');
      await sink.close();
      await expect(sink.write(0, new Uint8Array(1))).rejects.toThrow('closed');
      await expect(sink.close()).rejects.toThrow('closed');
    });

    test('refuses a second writer of one name until the first has ended', async () => {
      const output = await make();
      const first = await output.create('a.bin', 4);
      const detail = await rejectionOf(output.create('a.bin', 4));
      expect(detail).toMatchObject({ kind: 'sink', code: 'sink-locked', facts: { file: 'a.bin' } });
      const other = await output.create('b.bin', 1);
      await first.abort();
      await other.abort();
      await writeFile(output, 'a.bin', patternBytes(0, 4));
      await writeFile(output, 'a.bin', patternBytes(4, 4));
      expect(await contentOf(output, 'a.bin')).toEqual(patternBytes(4, 4));
    });

    test('makes the folders of a path', async () => {
      const output = await make();
      await writeFile(output, 'one/two/a.bin', patternBytes(0, 4));
      await writeFile(output, 'one/two/b.bin', patternBytes(9, 4));
      expect(await contentOf(output, 'one/two/a.bin')).toEqual(patternBytes(0, 4));
      expect(await output.has('one/two')).toBe(false);
      expect(await output.has('one/a.bin')).toBe(false);
    });

    test('removes a file, and nothing where there is none', async () => {
      const output = await make();
      await writeFile(output, 'one/a.bin', patternBytes(0, 4));
      await output.remove('one/a.bin');
      expect(await output.has('one/a.bin')).toBe(false);
      await output.remove('one/a.bin');
      await output.remove('not/there');
      await writeFile(output, 'file', patternBytes(0, 4));
      await output.remove('file/inside');
      expect(await output.has('file/inside')).toBe(false);
      expect(await contentOf(output, 'file')).toEqual(patternBytes(0, 4));
    });

    test('opens no file that is not there', async () => {
      const output = await make();
      const detail = await rejectionOf(output.open('a.bin'));
      expect(detail).toMatchObject({ kind: 'source', code: 'source-missing', facts: { file: 'a.bin' } });
    });

    test.each([...BAD_PATHS, ''])('refuses the path %j', async (path) => {
      const output = await make();
      const expected = { kind: 'sink', code: 'bad-path', facts: { file: path } };
      expect(await rejectionOf(output.create(path, 1))).toMatchObject(expected);
      expect(await rejectionOf(output.has(path))).toMatchObject(expected);
      expect(await rejectionOf(output.remove(path))).toMatchObject(expected);
      expect(await rejectionOf(output.open(path))).toMatchObject({ ...expected, kind: 'source' });
    });
  });
}

/** Writes a whole file in one step. */
export async function writeFile(output: OutputTree, path: string, bytes: Uint8Array): Promise<void> {
  const sink = await output.create(path, bytes.length);
  await sink.write(0, bytes);
  await sink.close();
}

/** The bytes of a file; none where there is no file, which a browser cannot always tell from an empty one. */
export async function contentOf(output: OutputTree, path: string): Promise<Uint8Array> {
  if (!(await output.has(path))) return new Uint8Array();
  const source = await output.open(path);
  try {
    return await readBytes(source, 0, source.size);
  } finally {
    await source.close();
  }
}
