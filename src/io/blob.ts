import { mapBounded } from '../base/concurrent.js';
import { BlobStreams } from './blob-streams.js';
import { domSourceFailure } from './dom-failures.js';
import { shortRead, sourceFailure } from './failures.js';
import { makeSource, type RawSource, READ_PIECE } from './source.js';
import type { ByteSource } from './types.js';

/** Pieces of one read that are under way at once. More is not faster. */
const PIECES_IN_FLIGHT = 4;

/** From this length on, bytes are streamed (1 MiB). Below it, one call for all of them takes less time. */
const STREAM_FROM = 2 ** 20;

/** Says how the file that a blob was taken from is now. */
export type CurrentFile = () => Promise<{ readonly size: number; readonly lastModified: number }>;

/**
 * A source over a `File` or other `Blob`. `modified` is the time of its last change in milliseconds since 1970, 0 where
 * it has none. Browsers compare a file's time of change by the second when they read; where `current` is given, each
 * read is also checked by the millisecond, and by the size. `place` is what opens it on another thread: the blob itself.
 */
export function blobSource(
  name: string,
  blob: Blob,
  modified: number,
  current?: CurrentFile,
  place: ByteSource['place'] = blob,
): ByteSource {
  const streams = new BlobStreams(blob);
  const raw: RawSource = {
    async read(offset, into, signal) {
      try {
        await readBlob(name, blob, streams, offset, into, signal);
        const now = await current?.();
        if (now !== undefined && (now.size !== blob.size || now.lastModified !== modified)) {
          throw sourceFailure('source-changed', name);
        }
      } catch (error) {
        signal?.throwIfAborted();
        throw domSourceFailure(name, error);
      }
    },
    async close() {
      streams.close();
    },
  };
  return makeSource(name, blob.size, modified, raw, place);
}

/** Settles only when nothing writes to `into` any more. What a stream could not read is read again without one. */
async function readBlob(
  name: string,
  blob: Blob,
  streams: BlobStreams,
  offset: number,
  into: Uint8Array,
  signal?: AbortSignal,
) {
  if (into.byteLength >= STREAM_FROM || streams.comesTo(offset)) {
    try {
      return await streams.read(offset, into, signal);
    } catch {
      signal?.throwIfAborted();
    }
  }
  const starts = Array.from({ length: Math.ceil(into.byteLength / READ_PIECE) }, (_, i) => i * READ_PIECE);
  await mapBounded(starts, PIECES_IN_FLIGHT, async (start) => {
    signal?.throwIfAborted();
    const target = into.subarray(start, start + READ_PIECE);
    const from = offset + start;
    const bytes = new Uint8Array(await blob.slice(from, from + target.byteLength).arrayBuffer());
    if (bytes.byteLength < target.byteLength) throw shortRead(name, from, target.byteLength, bytes.byteLength);
    target.set(bytes);
  });
}
