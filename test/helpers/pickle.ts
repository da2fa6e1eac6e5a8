/** A piece of a pickle: a string of Latin-1 characters, one byte each, or bytes. */
export type PicklePart = string | readonly number[] | Uint8Array;

/** The bytes of a pickle that is put together by hand, without its `STOP` where that is not among the parts. */
export function pickle(...parts: readonly PicklePart[]): Uint8Array {
  return Uint8Array.from(
    parts.flatMap((part) => (typeof part === 'string' ? [...part].map((char) => char.charCodeAt(0)) : [...part])),
  );
}

/** `BINUNICODE` of a text. */
export function unicode(text: string): Uint8Array {
  const utf8 = new TextEncoder().encode(text);
  return pickle('X', u32(utf8.length), utf8);
}

/** The shortest opcode for a whole number within 32 bits; `LONG1` of 8 bytes beyond. */
export function int(value: number | bigint): Uint8Array {
  if (value >= 0 && value <= 255) return pickle('K', [Number(value)]);
  const bytes = new DataView(new ArrayBuffer(8));
  bytes.setBigInt64(0, BigInt(value), true);
  const all = new Uint8Array(bytes.buffer);
  return value >= -(2 ** 31) && value < 2 ** 31 ? pickle('J', all.subarray(0, 4)) : pickle([0x8a, 8], all);
}

/** `GLOBAL`. */
export function global(module: string, name: string): Uint8Array {
  return pickle(`c${module}\n${name}\n`);
}

/** `TUPLE` of its items. */
export function tuple(...items: readonly PicklePart[]): Uint8Array {
  return pickle('(', ...items, 't');
}

/** A call of a function with its arguments: `GLOBAL`, `TUPLE`, `REDUCE`. */
export function call(module: string, name: string, ...args: readonly PicklePart[]): Uint8Array {
  return pickle(global(module, name), tuple(...args), 'R');
}

/** A dict with string keys. */
export function dict(items: Readonly<Record<string, PicklePart>>): Uint8Array {
  return pickle('}(', ...Object.entries(items).flatMap(([key, value]) => [unicode(key), value]), 'u');
}

/** Four bytes, little end first. */
export function u32(value: number): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(4));
  bytes.setUint32(0, value, true);
  return new Uint8Array(bytes.buffer);
}

/** Eight bytes, little end first. */
export function u64(value: bigint): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(8));
  bytes.setBigUint64(0, value, true);
  return new Uint8Array(bytes.buffer);
}
