/**
 * Many files, of which a few are open: a checkpoint of a thousand ranks or experts has more than a process may hold open.
 *
 * @module
 */

import { isUnshardError } from '../base/errors.js';
import type { ByteSource } from './types.js';

/** Files open at once: the shards of a run of a thousand ranks, all of which every large tensor is cut over. */
const MAX_OPEN = 2048;

/** Where the system allows fewer, half as many are kept open again and again, down to this. */
const MIN_OPEN = 16;

/** An open file and the reads of it that are under way. */
interface OpenFile {
  readonly source: Promise<ByteSource>;
  reads: number;
}

/** Opens files when they are read, and closes those that were not read for longest. */
export class SourcePool {
  readonly #openFile: (index: number) => Promise<ByteSource>;
  /** The one that was read last comes last. */
  readonly #open = new Map<number, OpenFile>();
  #limit = MAX_OPEN;

  /** `openFile` opens the file of a number, and refuses one that has changed since it was opened before. */
  constructor(openFile: (index: number) => Promise<ByteSource>) {
    this.#openFile = openFile;
  }

  /** Reads from a file, as a `ByteSource` does. */
  async read(index: number, offset: number, into: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    await this.use(index, (source) => source.read(offset, into, signal));
  }

  /**
   * Hands an open file to `work`. It stays open until that has settled, and maybe longer. Where the system does not allow
   * one more open file, others are closed and `work` is called again.
   */
  async use<T>(index: number, work: (source: ByteSource) => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await this.#useOnce(index, work);
      } catch (error) {
        const isRefused = isUnshardError(error, 'source') && error.detail.code === 'source-too-many-open';
        if (!isRefused || this.#limit === MIN_OPEN) throw error;
        this.#limit = Math.max(MIN_OPEN, Math.floor(Math.min(this.#limit, this.#open.size) / 2));
        await this.#closeIdle();
      }
    }
  }

  async #useOnce<T>(index: number, work: (source: ByteSource) => Promise<T>): Promise<T> {
    const file = this.#open.get(index) ?? { source: this.#openFile(index), reads: 0 };
    file.reads++;
    this.#open.delete(index);
    this.#open.set(index, file);
    try {
      return await work(await file.source);
    } finally {
      file.reads--;
      await this.#closeIdle();
    }
  }

  /** Closes every file that is open. */
  async close(): Promise<void> {
    const open = await Promise.allSettled([...this.#open.values()].map(({ source }) => source));
    this.#open.clear();
    await Promise.all(open.map((result) => (result.status === 'fulfilled' ? result.value.close() : undefined)));
  }

  async #closeIdle(): Promise<void> {
    for (const [index, file] of this.#open) {
      if (this.#open.size <= this.#limit) return;
      if (file.reads > 0) continue;
      this.#open.delete(index);
      await file.source.then(
        (source) => source.close(),
        () => undefined,
      );
    }
  }
}
