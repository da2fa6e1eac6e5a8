import type { ByteSource } from '../../src/io/types.js';

/** A read that a recording source served. */
export interface RecordedRead {
  readonly offset: number;
  readonly length: number;
  readonly signal: AbortSignal | undefined;
}

/** A source that remembers what was read from it. */
export interface RecordingSource extends ByteSource {
  readonly reads: readonly RecordedRead[];
}

/** Bytes and where in a file they are. */
export interface Piece {
  readonly at: number;
  readonly bytes: Uint8Array;
}

/** A file of any size that holds `pieces` and zeros elsewhere, without taking memory for the zeros. */
export function sparseSource(size: number, pieces: readonly Piece[], name = 'test.pt'): RecordingSource {
  const reads: RecordedRead[] = [];
  return {
    name,
    size,
    modified: 0,
    reads,
    async read(offset, into, signal) {
      signal?.throwIfAborted();
      if (offset < 0 || offset + into.length > size)
        throw new RangeError(`read [${offset}, +${into.length}) of ${size}`);
      reads.push({ offset, length: into.length, signal });
      into.fill(0);
      for (const { at, bytes } of pieces) {
        const from = Math.max(at, offset);
        const to = Math.min(at + bytes.length, offset + into.length);
        if (from < to) into.set(bytes.subarray(from - at, to - at), from - offset);
      }
    },
    async close() {},
  };
}

/** A file that holds `bytes`. */
export function bytesSource(bytes: Uint8Array, name?: string): RecordingSource {
  return sparseSource(bytes.length, [{ at: 0, bytes }], name);
}
