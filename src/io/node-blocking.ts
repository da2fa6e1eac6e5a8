/**
 * Files of the local disk under Node by calls that block, for threads that do nothing else. A call takes microseconds less
 * than one that others can run beside, and its bytes are still in the cache of the processor when it returns.
 *
 * @module
 */

import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { shortRead, sourceFailure } from './failures.js';
import { nodeSinkFailure, nodeSourceFailure } from './node-failures.js';
import { makeSource, READ_PIECE } from './source.js';
import type { ByteSource, OpenSink } from './types.js';

/**
 * Opens a file by its full path, which is the `place` of a source.
 *
 * @throws UnshardError of kind `source`.
 */
export async function openBlockingSource(path: string, place: string): Promise<ByteSource> {
  const explained = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw nodeSourceFailure(path, error);
    }
  };
  const file = explained(() => openSync(place, 'r'));
  const opened = explained(() => fstatSync(file));
  return makeSource(path, opened.size, opened.mtimeMs, {
    async read(offset, into, signal) {
      for (let filled = 0; filled < into.byteLength; ) {
        signal?.throwIfAborted();
        const length = Math.min(into.byteLength - filled, READ_PIECE);
        const read = explained(() => readSync(file, into, filled, length, offset + filled));
        if (read === 0) throw shortRead(path, offset, into.byteLength, filled);
        filled += read;
      }
      const { size, mtimeMs } = explained(() => fstatSync(file));
      if (size !== opened.size || mtimeMs !== opened.mtimeMs) throw sourceFailure('source-changed', path);
    },
    async close() {
      closeSync(file);
    },
  });
}

/**
 * Opens a file of `byteLength` bytes that is being written, by its full path, which is the `place` of a sink.
 *
 * @throws UnshardError of kind `sink`, now and later.
 */
export async function openBlockingSink(path: string, place: string, byteLength: number): Promise<OpenSink> {
  const explained = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw nodeSinkFailure(path, error, byteLength);
    }
  };
  const file = explained(() => openSync(place, 'r+'));
  return {
    async write(offset, bytes) {
      for (let done = 0; done < bytes.byteLength; ) {
        done += explained(() => writeSync(file, bytes, done, bytes.byteLength - done, offset + done));
      }
    },
    async read(offset, into) {
      const filled = explained(() => fillNow(file, offset, into));
      if (filled < into.byteLength) throw nodeSinkFailure(path, shortOf(into.byteLength, filled), byteLength);
    },
    async release() {
      closeSync(file);
    },
  };
}

/** Reads `into` from byte `offset` of an open file on, and gives the number of bytes that there were. */
export function fillNow(descriptor: number, offset: number, into: Uint8Array): number {
  let filled = 0;
  while (filled < into.byteLength) {
    const read = readSync(descriptor, into, filled, into.byteLength - filled, offset + filled);
    if (read === 0) break;
    filled += read;
  }
  return filled;
}

function shortOf(wanted: number, found: number): Error {
  return new Error(`Of ${wanted} bytes ${found} were read back.`);
}
