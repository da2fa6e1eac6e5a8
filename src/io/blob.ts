import { mapBounded } from '../base/concurrent.js';
import { domSourceFailure } from './dom-failures.js';
import { shortRead, sourceFailure } from './failures.js';
import { makeSource, type RawSource, READ_PIECE } from './source.js';
import type { ByteSource } from './types.js';

/** Pieces of one read that are under way at once. More is not faster. */
const PIECES_IN_FLIGHT = 4;

/** From this length on, a piece is streamed. Below it, one call for the whole piece takes less time. */
const STREAM_FROM = 2 ** 20;

/** Buffer that a streamed piece passes through. Larger ones are not faster. */
const STREAM_BUFFER = 2 ** 20;

/** A stream that gives no byte for this long is given up, in milliseconds. A disk that spins up takes 15 seconds. */
const STREAM_PATIENCE = 60_000;

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
  const raw: RawSource = {
    async read(offset, into, signal) {
      try {
        await readPieces(name, blob, offset, into, signal);
        const now = await current?.();
        if (now !== undefined && (now.size !== blob.size || now.lastModified !== modified)) {
          throw sourceFailure('source-changed', name);
        }
      } catch (error) {
        signal?.throwIfAborted();
        throw domSourceFailure(name, error);
      }
    },
    async close() {},
  };
  return makeSource(name, blob.size, modified, raw, place);
}

/** Settles only when nothing writes to `into` any more. */
async function readPieces(name: string, blob: Blob, offset: number, into: Uint8Array, signal?: AbortSignal) {
  const starts = Array.from({ length: Math.ceil(into.byteLength / READ_PIECE) }, (_, i) => i * READ_PIECE);
  await mapBounded(starts, PIECES_IN_FLIGHT, async (start) => {
    signal?.throwIfAborted();
    const target = into.subarray(start, start + READ_PIECE);
    const piece = blob.slice(offset + start, offset + start + target.byteLength);
    const found = await readPiece(piece, target);
    if (found < target.byteLength) throw shortRead(name, offset + start, target.byteLength, found);
  });
}

/**
 * Reads a whole blob into `into`; resolves to the number of bytes that there were. What a stream could not read is read
 * again in one call: streams do not tell why they fail.
 */
async function readPiece(piece: Blob, into: Uint8Array): Promise<number> {
  const reader = piece.size < STREAM_FROM ? undefined : byteReader(piece);
  const streamed = await (reader && drain(piece, reader, into).catch(() => undefined));
  if (streamed !== undefined) return streamed;
  const bytes = new Uint8Array(await piece.arrayBuffer());
  into.set(bytes);
  return bytes.byteLength;
}

/** A reader that reuses its buffer: half the memory of `arrayBuffer`, and faster. Undefined where there is none. */
function byteReader(piece: Blob): ReadableStreamBYOBReader | undefined {
  try {
    return piece.stream().getReader({ mode: 'byob' });
  } catch {
    return undefined;
  }
}

async function drain(piece: Blob, reader: ReadableStreamBYOBReader, into: Uint8Array): Promise<number> {
  let buffer = new ArrayBuffer(STREAM_BUFFER);
  let filled = 0;
  while (filled < into.byteLength) {
    const view = new Uint8Array(buffer, 0, Math.min(STREAM_BUFFER, into.byteLength - filled));
    const { done, value } = await nextBytes(piece, reader, view);
    if (done) break;
    into.set(value, filled);
    filled += value.byteLength;
    buffer = value.buffer;
  }
  await reader.cancel();
  return filled;
}

/**
 * One step of a stream, or a failure when it takes too long. The timer also keeps blob and stream in memory: Chromium
 * collects a stream that nothing else refers to in the middle of a read, which then never settles.
 */
function nextBytes(piece: Blob, reader: ReadableStreamBYOBReader, view: Uint8Array<ArrayBuffer>) {
  return new Promise<ReadableStreamReadResult<Uint8Array<ArrayBuffer>>>((resolve, reject) => {
    const giveUp = () => {
      reject(new Error(`A read of ${piece.size} bytes gave none for ${STREAM_PATIENCE} ms.`));
      reader.cancel().catch(() => undefined);
    };
    const timer = setTimeout(giveUp, STREAM_PATIENCE);
    reader
      .read(view)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer));
  });
}
