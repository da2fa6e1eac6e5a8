import { expect, test } from 'vitest';
import { blobSource } from '../../src/io/blob.js';
import { readBytes } from '../../src/io/read.js';
import { rejectionOf } from '../helpers/errors.js';
import { firstDifference, patternBytes } from '../helpers/pattern.js';
import { sourceContract } from './source.js';

/** A blob as in browsers whose blobs have no byte streams. */
class BlobWithoutByteStreams extends Blob {
  override slice(start?: number, end?: number): Blob {
    return new BlobWithoutByteStreams([super.slice(start, end)]);
  }

  override stream(): ReadableStream<Uint8Array<ArrayBuffer>> {
    return new ReadableStream();
  }
}

/** A blob that says it is longer than it is, as a file that was cut does. */
class CutBlob extends Blob {
  override get size(): number {
    return 3_000_000;
  }
}

/** A blob that notes the length of every stream, and of every buffer, that it or a slice of it gives. */
class CountingBlob extends Blob {
  readonly lengths: number[];

  constructor(parts: BlobPart[], lengths: number[]) {
    super(parts);
    this.lengths = lengths;
  }

  override slice(start?: number, end?: number): Blob {
    return new CountingBlob([super.slice(start, end)], this.lengths);
  }

  override stream(): ReadableStream<Uint8Array<ArrayBuffer>> {
    this.lengths.push(this.size);
    return super.stream();
  }

  override arrayBuffer(): Promise<ArrayBuffer> {
    this.lengths.push(this.size);
    return super.arrayBuffer();
  }
}

test('reads that follow one another share a stream, and others have one of their own length', async () => {
  const MIB = 2 ** 20;
  const lengths: number[] = [];
  const source = blobSource('a.pt', new CountingBlob([patternBytes(0, 40 * MIB)], lengths), 0);
  for (let at = 0; at < 20; at += 2) await source.read(at * MIB, new Uint8Array(2 * MIB));
  for (const at of [30, 25, 35]) await source.read(at * MIB, new Uint8Array(2 * MIB));
  await source.close();
  expect(lengths).toEqual([2, 38, 2, 2, 2].map((size) => size * MIB));
});

test.each([
  ['is read along', 1.5, [2, 38]],
  ['costs another stream where it is long', 2.5, [2, 38, 2]],
])('a gap between two reads %s', async (_, gap, streams) => {
  const MIB = 2 ** 20;
  const lengths: number[] = [];
  const source = blobSource('a.pt', new CountingBlob([patternBytes(0, 40 * MIB)], lengths), 0);
  for (const at of [0, 2, 4 + gap]) {
    const bytes = await readBytes(source, at * MIB, 2 * MIB);
    expect(firstDifference(bytes, patternBytes(at * MIB, 2 * MIB))).toBeUndefined();
  }
  await source.close();
  expect(lengths).toEqual(streams.map((size) => size * MIB));
});

sourceContract('A blob', async (bytes) => blobSource('dir/data.bin', new Blob([bytes]), 0));
sourceContract('A blob without byte streams', async (bytes) =>
  blobSource('dir/data.bin', new BlobWithoutByteStreams([bytes]), 0),
);

test.each([1000, 2_000_000])('a blob that gives fewer than the %i bytes it should is refused', async (length) => {
  const source = blobSource('a.pt', new CutBlob([patternBytes(0, 600)]), 0);
  expect(await readBytes(source, 0, 600)).toEqual(patternBytes(0, 600));
  const detail = await rejectionOf(readBytes(source, 0, length));
  expect(detail).toMatchObject({ code: 'short-read', facts: { file: 'a.pt', expected: length, found: 600 } });
});
