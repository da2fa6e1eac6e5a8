/**
 * Text and numbers of a pickle as JavaScript values. Every function returns undefined for bytes that Python would not
 * read either.
 *
 * @module
 */

/** Names are kept as they are: a byte order mark is part of one. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Code units per call of `String.fromCharCode`, far below the number of arguments that engines accept. */
const CODES_PER_CALL = 8192;

/** Escapes that Python 2 writes in the repr of a byte string. */
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['\\', '\\'],
  ["'", "'"],
  ['"', '"'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
]);

/**
 * UTF-8 as pickle writes it: a lone surrogate, which UTF-8 cannot hold, is three bytes like any other code unit. A
 * pair of them would read as one character here and as two in Python, and is refused.
 */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return UTF8.decode(bytes);
  } catch {
    return decodeSurrogates(bytes);
  }
}

/** One character per byte. */
export function decodeLatin1(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += CODES_PER_CALL) {
    text += String.fromCharCode(...bytes.subarray(at, at + CODES_PER_CALL));
  }
  return text;
}

/** One byte per character. */
export function encodeLatin1(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 255) return undefined;
    bytes[i] = code;
  }
  return bytes;
}

/** A byte string of Python 2: text where it is ASCII, which every name is, else the bytes. */
export function textOrBytes(bytes: Uint8Array): string | Uint8Array {
  return bytes.every((byte) => byte < 128) ? decodeLatin1(bytes) : bytes.slice();
}

/** The byte string that a quoted repr of Python 2 stands for. */
export function decodeRepr(line: string): Uint8Array | undefined {
  const body = /^(['"])(.*)\1$/s.exec(line)?.[2];
  if (body === undefined) return undefined;
  let bad = false;
  const text = body.replace(/\\(x[0-9a-fA-F]{2}|[\s\S]|$)/g, (_, escaped: string) => {
    if (escaped.length === 3) return String.fromCharCode(Number.parseInt(escaped.slice(1), 16));
    const char = ESCAPES.get(escaped);
    bad ||= char === undefined;
    return char ?? '';
  });
  return bad ? undefined : encodeLatin1(text);
}

/** Text of protocol 0: Latin-1 with `\uXXXX` and `\UXXXXXXXX`, where the backslash itself is not escaped. */
export function decodeRawUnicode(line: string): string | undefined {
  let bad = false;
  const text = line.replace(/\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\[uU]|\\\\/g, (match, short, long) => {
    if (match === '\\\\') return match;
    const code = Number.parseInt(short ?? long ?? '', 16);
    if (code <= 0x10ffff) return String.fromCodePoint(code);
    bad = true;
    return '';
  });
  return bad ? undefined : text;
}

/** A whole number in decimal: a number where it is safe, else a bigint. */
export function parseInteger(text: string): number | bigint | undefined {
  return /^[+-]?\d+$/.test(text) ? narrow(BigInt(text.replace(/^\+/, ''))) : undefined;
}

/** A float as Python prints it. */
export function parseFloat64(text: string): number | undefined {
  if (/^[+-]?nan$/i.test(text)) return Number.NaN;
  const infinity = /^([+-]?)inf(inity)?$/i.exec(text);
  if (infinity) return infinity[1] === '-' ? -Infinity : Infinity;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : undefined;
}

/** A two's complement integer, little end first. No bytes stand for zero. */
export function decodeLong(bytes: Uint8Array): number | bigint {
  let hex = '0x0';
  for (let i = bytes.length - 1; i >= 0; i--) hex += (bytes[i] as number).toString(16).padStart(2, '0');
  return narrow(BigInt.asIntN(bytes.length * 8, BigInt(hex)));
}

function narrow(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function decodeSurrogates(bytes: Uint8Array): string | undefined {
  let text = '';
  let start = 0;
  try {
    for (let at = 0; at + 2 < bytes.length; at++) {
      const code = surrogateAt(bytes, at);
      if (code === undefined) continue;
      const followsHigh = start === at && isHigh(text.charCodeAt(text.length - 1));
      if (followsHigh && !isHigh(code)) return undefined;
      text += UTF8.decode(bytes.subarray(start, at)) + String.fromCharCode(code);
      start = at + 3;
      at += 2;
    }
    return text + UTF8.decode(bytes.subarray(start));
  } catch {
    return undefined;
  }
}

/** The surrogate that three bytes encode. 0xed only ever starts a character, so it cannot be a part of another one. */
function surrogateAt(bytes: Uint8Array, at: number): number | undefined {
  const second = bytes[at + 1] as number;
  const third = bytes[at + 2] as number;
  const encoded = bytes[at] === 0xed && second >> 5 === 0b101 && third >> 6 === 0b10;
  return encoded ? 0xd000 | ((second & 0x3f) << 6) | (third & 0x3f) : undefined;
}

function isHigh(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}
