import { assert } from '../base/errors.js';
import type { ByteSink } from './types.js';

/** What an adapter does for a sink. It may reject with errors of its platform. */
export interface RawSink {
  /** Writes all of `bytes`; the range lies within the file. */
  write(offset: number, bytes: Uint8Array): Promise<void>;
  /** Reads back what was written; the range lies within the file. */
  read?(offset: number, into: Uint8Array): Promise<void>;
  /** What another thread needs to write to the file as well. */
  readonly place?: ByteSink['place'];
  /** Makes the file appear. */
  finish(): Promise<void>;
  /** Drops what was written, also after a `finish` that failed. */
  drop(): Promise<void>;
}

/**
 * A sink with what every adapter owes: `open` → `closing` → `closed`, and `dropped` from any state but `closed`. Writes
 * outside `[0, byteLength)` or after the end are errors of the caller; errors of the platform go through `explain`.
 * Dropping waits for a `close` that is under way, and leaves the file where that succeeds.
 */
export function makeSink(path: string, byteLength: number, raw: RawSink, explain: (error: unknown) => Error): ByteSink {
  let state: 'open' | 'closing' | 'closed' | 'dropped' = 'open';
  let finishing = Promise.resolve();
  const checkRange = (offset: number, length: number): void => {
    assert(state === 'open', `${path} is used when it is ${state}`);
    const end = offset + length;
    assert(
      Number.isSafeInteger(offset) && offset >= 0 && end <= byteLength,
      `[${offset}, ${end}) is outside the ${byteLength} bytes of ${path}`,
    );
  };
  const explained = (error: unknown) => Promise.reject(explain(error));
  const { read, place } = raw;
  return {
    ...(place === undefined ? {} : { place }),
    async write(offset, bytes) {
      checkRange(offset, bytes.byteLength);
      await raw.write(offset, bytes).catch(explained);
    },
    ...(read && {
      async read(offset: number, into: Uint8Array) {
        checkRange(offset, into.byteLength);
        await read(offset, into).catch(explained);
      },
    }),
    async close() {
      assert(state === 'open', `${path} is closed when it is ${state}`);
      state = 'closing';
      finishing = raw.finish().then(
        () => {
          state = 'closed';
        },
        (error) => Promise.reject(explain(error)),
      );
      await finishing;
    },
    async abort() {
      await finishing.catch(() => undefined);
      if (state === 'closed' || state === 'dropped') return;
      state = 'dropped';
      // What is left behind is a file under a temporary name. The failure that led here is the one to tell.
      await raw.drop().catch(() => undefined);
    },
  };
}
