import { assert } from '../base/errors.js';
import { shortRead } from './failures.js';
import type { ByteSource } from './types.js';

/** What an adapter does for a source; the range is already known to lie within the size. */
export interface RawSource {
  read(offset: number, into: Uint8Array, signal?: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** Largest piece that is read at once: cancelling waits for one piece at most, and memory is bounded by pieces. */
export const READ_PIECE = 16 * 2 ** 20;

/** A source with what every adapter owes: the range and the signal are checked, and nothing is read after `close`. */
export function makeSource(
  name: string,
  size: number,
  modified: number,
  raw: RawSource,
  place?: ByteSource['place'],
): ByteSource {
  let closed = false;
  return {
    name,
    size,
    modified,
    ...(place === undefined ? {} : { place }),
    async read(offset, into, signal) {
      assert(!closed, `${name} is read after it was closed`);
      assert(Number.isSafeInteger(offset) && offset >= 0, `${name} is read at offset ${offset}`);
      signal?.throwIfAborted();
      const found = Math.max(0, Math.min(into.byteLength, size - offset));
      if (found < into.byteLength) throw shortRead(name, offset, into.byteLength, found);
      if (found === 0) return;
      await raw.read(offset, into, signal);
      signal?.throwIfAborted();
    },
    async close() {
      if (closed) return;
      closed = true;
      await raw.close();
    },
  };
}
