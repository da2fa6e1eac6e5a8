/**
 * Reads a blob through streams. Where reads follow one another, one stream stays open for them: for a browser, opening one
 * costs as much as reading some megabytes.
 *
 * @module
 */

/** Buffer that bytes pass through (1 MiB). Larger ones are not faster. */
const BUFFER_BYTES = 2 ** 20;

/** A stream that gives no byte for this long is given up, in milliseconds. A disk that spins up takes 15 seconds. */
const PATIENCE_MS = 60_000;

/** Bytes that nobody asked for are read along up to this many (2 MiB): more cost more than another stream. */
const MAX_SKIP = 2 ** 21;

/** Streams of all blobs that are remembered: for files that are written at once, from some ranks each. */
const MAX_OPEN = 32;

/** All streams that are remembered. The one that was used last comes last. */
const open = new Set<BlobStream>();

/** The streams of one blob. */
export class BlobStreams {
  readonly #blob: Blob;
  readonly #streams = new Set<BlobStream>();

  constructor(blob: Blob) {
    this.#blob = blob;
  }

  /** True where a read before came to `offset`. */
  comesTo(offset: number): boolean {
    return this.#streamAt(offset) !== undefined;
  }

  /**
   * Fills `into`. Settles only when nothing writes to it any more; rejects where streams cannot be had or fail, which do
   * not tell why, and with the signal's reason.
   */
  async read(offset: number, into: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    const before = this.#streamAt(offset);
    const stream = before?.isEndless ? before : this.#start(offset, into.byteLength, before !== undefined);
    if (stream !== before) before?.forget();
    open.delete(stream);
    open.add(stream);
    await stream.read(offset, into, signal);
  }

  /** Ends all streams. */
  close(): void {
    for (const stream of this.#streams) stream.close();
  }

  #streamAt(offset: number): BlobStream | undefined {
    return [...this.#streams].find(({ end }) => end <= offset && offset - end <= MAX_SKIP);
  }

  #start(offset: number, length: number, isEndless: boolean): BlobStream {
    for (const stream of open) {
      if (open.size < MAX_OPEN) break;
      if (stream.reads === 0) stream.close();
    }
    const blob = this.#blob.slice(offset, isEndless ? this.#blob.size : offset + length);
    const stream = new BlobStream(blob, offset, isEndless, () => {
      open.delete(stream);
      this.#streams.delete(stream);
    });
    this.#streams.add(stream);
    return stream;
  }
}

/** A stream from some byte of a file on: for one read, or an endless one for all that follow. Chromium collects one that nothing refers to in the middle of a read. */
class BlobStream {
  readonly #blob: Blob;
  readonly #reader: ReadableStreamBYOBReader;
  #buffer = new ArrayBuffer(BUFFER_BYTES);
  /** Offset of the next byte of the stream. */
  #at: number;
  #last: Promise<void> = Promise.resolve();
  /** Where it will be when all reads of it have ended. */
  end: number;
  /** Reads that wait or are under way. */
  reads = 0;

  /** `forget` leaves it to those who read from it. */
  constructor(
    blob: Blob,
    offset: number,
    readonly isEndless: boolean,
    readonly forget: () => void,
  ) {
    this.#blob = blob;
    this.#reader = this.#blob.stream().getReader({ mode: 'byob' });
    this.#at = offset;
    this.end = offset;
  }

  /** Fills `into` after the reads before. One that fails ends the stream. */
  async read(offset: number, into: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    this.end = offset + into.byteLength;
    this.reads++;
    const read = this.#last.then(() => this.#fill(offset, into, signal));
    this.#last = read.catch(() => undefined);
    try {
      await read;
    } catch (error) {
      this.close();
      throw error;
    } finally {
      this.reads--;
      if (!this.isEndless) this.#letGo();
    }
  }

  close(): void {
    this.forget();
    this.#letGo();
  }

  #letGo(): void {
    this.#buffer = new ArrayBuffer(0);
    this.#reader.cancel().catch(() => undefined);
  }

  async #fill(offset: number, into: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    const end = offset + into.byteLength;
    while (this.#at < end) {
      signal?.throwIfAborted();
      const { done, value } = await this.#next(Math.min(BUFFER_BYTES, end - this.#at));
      if (done) throw new Error(`The stream ends at byte ${this.#at}.`);
      const skipped = Math.max(0, offset - this.#at);
      if (skipped < value.byteLength) into.set(value.subarray(skipped), this.#at + skipped - offset);
      this.#at += value.byteLength;
      this.#buffer = value.buffer;
    }
  }

  /** The next bytes, or a failure where they take too long. The timer keeps what it refers to in memory. */
  #next(most: number): Promise<ReadableStreamReadResult<Uint8Array<ArrayBuffer>>> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        reject(new Error(`A read of ${this.#blob.size} bytes gave none for ${PATIENCE_MS} ms.`));
        this.close();
      };
      const timer = setTimeout(giveUp, PATIENCE_MS);
      // All at once, where the browser can: each time that it gives some of them costs as much as some hundred kilobytes.
      this.#reader
        .read(new Uint8Array(this.#buffer, 0, most), { min: most })
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }
}
