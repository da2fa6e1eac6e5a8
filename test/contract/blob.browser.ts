import { expect, test } from 'vitest';
import { blobSource } from '../../src/io/blob.js';
import { readBytes } from '../../src/io/read.js';
import { rejectionOf } from '../helpers/errors.js';
import { patternBytes } from '../helpers/pattern.js';
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
