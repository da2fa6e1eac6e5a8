/**
 * A file whose head and tail are read before anything asks for them: what describes a checkpoint's shard lies at its two
 * ends, and two reads cost less than ten.
 *
 * @module
 */

import type { ByteSource } from './types.js';

/** A gap of up to this many bytes between head and tail is read along (256 KiB): it costs less than a second read. */
const MAX_GAP = 2 ** 18;

/** Bytes behind the head that are kept (1 KiB): the record that follows what was asked for is small, and is asked for later. */
const KEPT_BYTES = 1024;

/** Memory is taken in steps of this (64 KiB), so that files of nearly the same size use the same. */
const MEMORY_STEP = 2 ** 16;

/** The tail starts at a multiple of this, in bytes: what lies alike in two files then does so in memory, and is compared by words. */
const ALIGNMENT = 8;

/** Pieces of memory that are kept: as many as there may be files under way, with two ends each. */
const MAX_SPARE = 32;

/** How many bytes to read from either end of a file. */
export interface Ends {
  readonly head: number;
  readonly tail: number;
}

/** A source that holds the ends of its file. What lies in them costs no further read. */
export interface AheadSource extends ByteSource {
  /** The bytes at either end that were asked for so far: how much to read of the next file of the kind. */
  asked(): Ends;
  /** Lets go of the bytes that are held. Views of them must not be used any more. */
  release(): void;
}

/** Memory that was let go of, to be read into again: fresh memory has to be cleared, which costs as much as reading. */
export class SpareMemory {
  readonly #spare: Uint8Array<ArrayBuffer>[] = [];

  /** So many bytes, of whatever content. */
  take(length: number): Uint8Array<ArrayBuffer> {
    const found = this.#spare.findIndex((bytes) => bytes.length >= length);
    const [bytes = new Uint8Array(Math.ceil(length / MEMORY_STEP) * MEMORY_STEP)] =
      found < 0 ? [] : this.#spare.splice(found, 1);
    return bytes.subarray(0, length);
  }

  /** Takes back what `take` gave. Nothing may look at it any more. */
  give(bytes: Uint8Array<ArrayBuffer>): void {
    if (this.#spare.length < MAX_SPARE) this.#spare.push(new Uint8Array(bytes.buffer));
  }
}

/** Reads the ends of a file: all of it where they nearly meet. Closing the result closes the source. The bytes are held in `memory`. */
export async function readAhead(
  source: ByteSource,
  ends: Ends,
  signal?: AbortSignal,
  memory = new SpareMemory(),
): Promise<AheadSource> {
  const { name, size, modified } = source;
  const tailAt = Math.max(0, Math.floor((size - ends.tail) / ALIGNMENT) * ALIGNMENT);
  const ranges =
    tailAt - ends.head <= MAX_GAP
      ? [{ from: 0, to: size }]
      : [
          { from: 0, to: ends.head },
          { from: tailAt, to: size },
        ];
  const asked = { head: 0, tail: 0 };
  let held = await Promise.all(
    ranges.map(async ({ from, to }) => {
      const bytes = memory.take(to - from);
      await source.read(from, bytes, signal);
      return { from, bytes };
    }),
  );
  const view = (offset: number, length: number) => {
    const end = offset + length;
    // What is asked for counts to the end that it is nearer to.
    if (offset - asked.head <= size - asked.tail - end) asked.head = Math.max(asked.head, end);
    else asked.tail = Math.max(asked.tail, size - offset);
    const part = held.find(({ from, bytes }) => from <= offset && end <= from + bytes.length);
    return part?.bytes.subarray(offset - part.from, end - part.from);
  };
  return {
    name,
    size,
    modified,
    async read(offset, into, readSignal) {
      readSignal?.throwIfAborted();
      const bytes = view(offset, into.byteLength);
      if (bytes) into.set(bytes);
      else await source.read(offset, into, readSignal);
    },
    held: view,
    close: () => source.close(),
    asked: () => ({ ...asked }),
    release() {
      const kept = held.slice(0, 1).map(({ bytes }) => {
        const from = asked.head;
        return { from, bytes: bytes.slice(from, from + KEPT_BYTES) };
      });
      for (const { bytes } of held) memory.give(bytes);
      held = kept;
    },
  };
}
