/**
 * The bytes of a pickle, read forward. Nothing is read past the end, and no opcode past the end of its frame.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';
import { MAX_PICKLE_BYTES, MAX_STRING_BYTES } from './limits.js';

/** Stands in messages for an opcode that could not be read. */
const NO_OPCODE = 'no opcode';

/** Reads the parts of opcodes and knows where it stands, for messages. */
export class PickleStream {
  /** The next byte to read. */
  at: number;
  /** Where the pickle starts. */
  readonly start: number;
  /** Where the current opcode starts, and its name. */
  opcodeAt: number;
  opcodeName = NO_OPCODE;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #file: string;
  /** A byte to look out for. */
  readonly #watched: number | undefined;
  /** End of the current frame; undefined outside of frames. */
  #frameEnd: number | undefined;

  /** Whether the watched byte was read as a part of a string. */
  sawString = false;

  constructor(bytes: Uint8Array, start: number, file: string, watched?: number) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#file = file;
    this.#watched = watched;
    this.start = start;
    this.at = start;
    this.opcodeAt = start;
  }

  /** Total number of bytes. */
  get length(): number {
    return this.#bytes.length;
  }

  /** Throws: the pickle breaks a rule at the current opcode. */
  fail(code: string, what: string, facts: Readonly<Record<string, string | number>> = {}): never {
    throw new UnshardError({
      kind: 'bad-file',
      code,
      message: `${this.#file}: the pickle is broken at byte ${this.opcodeAt} (${this.opcodeName}): ${what}.`,
      advice: 'The file is damaged, or was made to do harm. Nothing of it was executed. Copy it again from its origin.',
      facts: { file: this.#file, offset: this.opcodeAt, opcode: this.opcodeName, ...facts },
    });
  }

  /** Throws where `found` exceeds `limit`. */
  limit(what: string, found: number, limit: number): void {
    if (found > limit) this.fail('pickle-limit', `${found} ${what} exceed the limit of ${limit}`, { found, limit });
  }

  /** Starts an opcode: leaves a frame that ends here, and reads the byte. */
  opcode(): number {
    this.opcodeAt = this.at;
    this.opcodeName = NO_OPCODE;
    if (this.at === this.#frameEnd) this.#frameEnd = undefined;
    return this.u8();
  }

  /** A view of the next `length` bytes. */
  take(length: number): Uint8Array {
    const start = this.#skip(length);
    return this.#bytes.subarray(start, start + length);
  }

  u8(): number {
    return this.#view.getUint8(this.#skip(1));
  }

  u16(): number {
    return this.#view.getUint16(this.#skip(2), true);
  }

  u32(): number {
    return this.#view.getUint32(this.#skip(4), true);
  }

  i32(): number {
    return this.#view.getInt32(this.#skip(4), true);
  }

  /** A length of 8 bytes. Beyond 2^53 it is not exact, and far beyond every limit. */
  u64(): number {
    return Number(this.#view.getBigUint64(this.#skip(8), true));
  }

  /** A float, big end first. */
  f64(): number {
    return this.#view.getFloat64(this.#skip(8), false);
  }

  /** A string of `length` bytes. */
  string(length: number): Uint8Array {
    this.limit('bytes of one string', length, MAX_STRING_BYTES);
    if (this.#watched !== undefined && this.at <= this.#watched && this.#watched < this.at + length) {
      this.sawString = true;
    }
    return this.take(length);
  }

  /** The bytes up to the next line feed, at most `limit`, without it. */
  line(limit: number): Uint8Array {
    const end = this.#bytes.indexOf(0x0a, this.at);
    const length = (end < 0 ? this.length : end) - this.at;
    this.limit('bytes of one line', length, limit);
    const line = this.take(length);
    this.#skip(1);
    return line;
  }

  /** Starts a frame: opcodes may not cross its end. */
  enterFrame(length: number): void {
    if (this.#frameEnd !== undefined) this.fail('pickle-frame', 'a frame starts inside another one');
    this.limit('bytes of one frame', length, MAX_PICKLE_BYTES);
    if (length > this.length - this.at) this.#truncated(length);
    this.#frameEnd = this.at + length;
  }

  /** Checks that the pickle does not stop inside a frame. */
  leaveFrame(): void {
    const rest = (this.#frameEnd ?? this.at) - this.at;
    if (rest > 0) this.fail('pickle-frame', `${rest} bytes of its frame are left`, { found: rest });
  }

  #skip(length: number): number {
    const start = this.at;
    const end = start + length;
    if (end > this.length) this.#truncated(length);
    if (this.#frameEnd !== undefined && end > this.#frameEnd) {
      this.fail('pickle-frame', `it crosses the end of its frame at byte ${this.#frameEnd}`, { end: this.#frameEnd });
    }
    this.at = end;
    return start;
  }

  #truncated(wanted: number): never {
    const found = this.length - this.at;
    this.fail('pickle-truncated', `${wanted} bytes are wanted at byte ${this.at}, but only ${found} are left`, {
      wanted,
      found,
    });
  }
}
