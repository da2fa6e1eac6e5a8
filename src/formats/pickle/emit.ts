/**
 * Writes pickles of protocol 2, opcode for opcode as CPython's pickler writes the same objects. It knows the few kinds
 * of values that a state dict is made of, and nothing that was read from another pickle.
 *
 * @module
 */

import { assert } from '../../base/errors.js';
import { PyGlobal } from './values.js';

/** A value that can be written. Arrays are tuples, maps are `OrderedDict`s. Two equal strings are one object. */
export type Emittable =
  | string
  | number
  | boolean
  | readonly Emittable[]
  | EmittableDict
  | PyGlobal
  | PyCall
  | PyExternal;

/** An `OrderedDict`. */
export type EmittableDict = ReadonlyMap<string, Emittable>;

/** What a call makes. */
export interface PyCall {
  readonly callable: PyGlobal;
  readonly args: readonly Emittable[];
}

/** A value that is kept outside of the pickle. */
export interface PyExternal {
  readonly persistentId: readonly Emittable[];
}

const ORDERED_DICT = new PyGlobal('collections', 'OrderedDict');

/** Items of a dict that CPython writes with one opcode. */
const BATCH = 1000;

/** Bytes of the first buffer; it doubles when it is full. */
const FIRST_BUFFER = 1 << 16;

const OP = {
  PROTO: 0x80,
  STOP: 0x2e,
  MARK: 0x28,
  NEWTRUE: 0x88,
  NEWFALSE: 0x89,
  BININT: 0x4a,
  BININT1: 0x4b,
  BININT2: 0x4d,
  LONG1: 0x8a,
  BINUNICODE: 0x58,
  EMPTY_TUPLE: 0x29,
  TUPLE1: 0x85,
  TUPLE: 0x74,
  SETITEM: 0x73,
  SETITEMS: 0x75,
  GLOBAL: 0x63,
  REDUCE: 0x52,
  BINPERSID: 0x51,
  BINPUT: 0x71,
  LONG_BINPUT: 0x72,
  BINGET: 0x68,
  LONG_BINGET: 0x6a,
} as const;

/** The pickle of `value`. Strings must be well-formed Unicode and numbers integers within 2^53. */
export function emitPickle(value: Emittable): Uint8Array<ArrayBuffer> {
  const pickle = new PickleBuffer();
  pickle.bytes([OP.PROTO, 2]);
  emit(pickle, value);
  pickle.bytes([OP.STOP]);
  return pickle.finish();
}

function emit(pickle: PickleBuffer, value: Emittable): void {
  if (typeof value === 'string') emitString(pickle, value);
  else if (typeof value === 'number') emitInt(pickle, value);
  else if (typeof value === 'boolean') pickle.bytes([value ? OP.NEWTRUE : OP.NEWFALSE]);
  else if (value instanceof PyGlobal) emitGlobal(pickle, value);
  else if (value instanceof Map) emitDict(pickle, value);
  else if ('callable' in value) emitCall(pickle, value);
  else if ('persistentId' in value) emitExternal(pickle, value);
  else emitTuple(pickle, value as readonly Emittable[]);
}

function emitString(pickle: PickleBuffer, text: string): void {
  if (pickle.recall(text)) return;
  assert(!/\p{Surrogate}/u.test(text), `a string that is no Unicode text: ${JSON.stringify(text)}`);
  const utf8 = new TextEncoder().encode(text);
  pickle.bytes([OP.BINUNICODE]);
  pickle.u32(utf8.length);
  pickle.bytes(utf8);
  pickle.remember(text);
}

function emitInt(pickle: PickleBuffer, int: number): void {
  assert(Number.isSafeInteger(int), `${int} is no exact integer`);
  if (int >= 0 && int <= 0xff) pickle.bytes([OP.BININT1, int]);
  else if (int >= 0 && int <= 0xffff) pickle.bytes([OP.BININT2, int & 0xff, int >> 8]);
  else if (int >= -(2 ** 31) && int < 2 ** 31) {
    pickle.bytes([OP.BININT]);
    pickle.u32(int >>> 0);
  } else {
    const long = twosComplement(BigInt(int));
    pickle.bytes([OP.LONG1, long.length, ...long]);
  }
}

/** The shortest two's complement form, little end first. */
function twosComplement(value: bigint): number[] {
  const bytes: number[] = [];
  let rest = value;
  do {
    bytes.push(Number(rest & 0xffn));
    rest >>= 8n;
  } while (rest !== (((bytes.at(-1) ?? 0) & 0x80) === 0 ? 0n : -1n));
  return bytes;
}

function emitTuple(pickle: PickleBuffer, items: readonly Emittable[]): void {
  if (items.length === 0) {
    pickle.bytes([OP.EMPTY_TUPLE]);
    return;
  }
  const short = items.length <= 3;
  if (!short) pickle.bytes([OP.MARK]);
  for (const item of items) emit(pickle, item);
  pickle.bytes([short ? OP.TUPLE1 + items.length - 1 : OP.TUPLE]);
  pickle.remember();
}

function emitDict(pickle: PickleBuffer, dict: EmittableDict): void {
  emitCall(pickle, { callable: ORDERED_DICT, args: [] });
  const items = [...dict];
  for (let from = 0; from < items.length; from += BATCH) {
    const batch = items.slice(from, from + BATCH);
    const single = batch.length === 1;
    if (!single) pickle.bytes([OP.MARK]);
    for (const [key, value] of batch) {
      emit(pickle, key);
      emit(pickle, value);
    }
    pickle.bytes([single ? OP.SETITEM : OP.SETITEMS]);
  }
}

function emitGlobal(pickle: PickleBuffer, { module, name }: PyGlobal): void {
  const lines = `${module}\n${name}\n`;
  if (pickle.recall(lines)) return;
  pickle.bytes([OP.GLOBAL]);
  pickle.bytes(new TextEncoder().encode(lines));
  pickle.remember(lines);
}

function emitCall(pickle: PickleBuffer, { callable, args }: PyCall): void {
  emit(pickle, callable);
  emit(pickle, args);
  pickle.bytes([OP.REDUCE]);
  pickle.remember();
}

function emitExternal(pickle: PickleBuffer, { persistentId }: PyExternal): void {
  emit(pickle, persistentId);
  pickle.bytes([OP.BINPERSID]);
}

/** The bytes so far, and the memo: CPython numbers every value that it remembers, whether it comes again or not. */
class PickleBuffer {
  #bytes = new Uint8Array(FIRST_BUFFER);
  #length = 0;
  #remembered = 0;
  readonly #indexes = new Map<string, number>();

  bytes(bytes: ArrayLike<number>): void {
    const end = this.#length + bytes.length;
    if (end > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(end, this.#bytes.length * 2));
      larger.set(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes.set(bytes, this.#length);
    this.#length = end;
  }

  u32(value: number): void {
    this.bytes([value & 0xff, (value >> 8) & 0xff, (value >> 16) & 0xff, value >>> 24]);
  }

  /** Numbers the value on top of the stack. `key` finds it again. */
  remember(key?: string): void {
    const index = this.#remembered++;
    if (key !== undefined) this.#indexes.set(key, index);
    this.#index(OP.BINPUT, OP.LONG_BINPUT, index);
  }

  /** Writes a reference to what was remembered as `key`; false where there is none. */
  recall(key: string): boolean {
    const index = this.#indexes.get(key);
    if (index === undefined) return false;
    this.#index(OP.BINGET, OP.LONG_BINGET, index);
    return true;
  }

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  #index(short: number, long: number, index: number): void {
    this.bytes([index <= 0xff ? short : long]);
    if (index <= 0xff) this.bytes([index]);
    else this.u32(index);
  }
}
