/**
 * CRC-32 as zip files record it (reflected polynomial 0xedb88320), and its combination: the CRC of two neighbouring
 * pieces from the CRCs of each.
 *
 * @module
 */

import { makeFold } from './crc32-fold.js';
import { once } from './once.js';

/** x^32 + x^26 + … + 1 with the bits reversed: bit 31 is the constant term. */
const POLYNOMIAL = 0xedb88320;

/** Bytes per step of the main loop, one table each. */
const SLICES = 16;

/** Table `k` advances a byte over the `k` bytes that follow it. */
const TABLE = makeTable();

/** `SQUARES[k]` is x^(2^k) modulo the polynomial. x^(2^32) is x again, so 32 entries serve every exponent. */
const SQUARES = makeSquares();

/** Of shorter runs (8 KiB) too little goes when they are shortened. */
const FOLD_FROM = 8 * 1024;

const theFold = once(makeFold);

/**
 * CRC-32 of `bytes`, as an unsigned integer. `seed` is the CRC of what comes before them, so that a long run can be
 * taken piece by piece. Needs a little-endian machine, like everything that views tensor bytes as words.
 */
export function crc32(bytes: Uint8Array, seed = 0): number {
  const fold = bytes.length >= FOLD_FROM ? theFold() : undefined;
  return ~(fold ? stepBytes(0, fold(bytes, ~seed)) : stepBytes(~seed, bytes)) >>> 0;
}

/**
 * CRC-32 of two pieces in a row, from the CRC of each and the length of the second in bytes (an integer up to 2^53).
 */
export function combineCrc32(a: number, b: number, lengthOfB: number): number {
  return (multiply(powerOfX(lengthOfB), a) ^ b) >>> 0;
}

/** Takes bytes of any number and alignment. */
function stepBytes(seed: number, bytes: Uint8Array): number {
  const length = bytes.length;
  let crc = seed;
  let at = 0;
  while (at < length && (bytes.byteOffset + at) % 4 !== 0) crc = step(crc, bytes[at++] as number);
  const blocks = Math.floor((length - at) / SLICES);
  if (blocks > 0) {
    crc = stepBlocks(crc, new Int32Array(bytes.buffer, bytes.byteOffset + at, blocks * 4));
    at += blocks * SLICES;
  }
  while (at < length) crc = step(crc, bytes[at++] as number);
  return crc;
}

/** Takes four words, 16 bytes, at a time. The length of `words` is a multiple of four. */
function stepBlocks(seed: number, words: Int32Array): number {
  let crc = seed;
  for (let i = 0; i < words.length; i += 4) {
    const a = (words[i] as number) ^ crc;
    const b = words[i + 1] as number;
    const c = words[i + 2] as number;
    const d = words[i + 3] as number;
    crc = look(15, a) ^ look(14, a >>> 8) ^ look(13, a >>> 16) ^ look(12, a >>> 24);
    crc ^= look(11, b) ^ look(10, b >>> 8) ^ look(9, b >>> 16) ^ look(8, b >>> 24);
    crc ^= look(7, c) ^ look(6, c >>> 8) ^ look(5, c >>> 16) ^ look(4, c >>> 24);
    crc ^= look(3, d) ^ look(2, d >>> 8) ^ look(1, d >>> 16) ^ look(0, d >>> 24);
  }
  return crc;
}

function step(crc: number, byte: number): number {
  return (crc >>> 8) ^ look(0, crc ^ byte);
}

function look(slice: number, byte: number): number {
  return TABLE[slice * 256 + (byte & 255)] as number;
}

function makeTable(): Int32Array {
  const table = new Int32Array(SLICES * 256);
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = timesX(crc);
    table[byte] = crc;
  }
  for (let i = 256; i < table.length; i++) {
    const before = table[i - 256] as number;
    table[i] = (before >>> 8) ^ (table[before & 255] as number);
  }
  return table;
}

function makeSquares(): Int32Array {
  const squares = new Int32Array(32);
  let power = 1 << 30;
  for (let k = 0; k < 32; k++) {
    squares[k] = power;
    power = multiply(power, power);
  }
  return squares;
}

/** The last power that was asked for: pieces in a row are of one length. */
let lastPower = { bytes: 0, power: 1 << 31 };

/** x^(8 * bytes) modulo the polynomial. */
function powerOfX(bytes: number): number {
  if (lastPower.bytes === bytes) return lastPower.power;
  let power = 1 << 31;
  // A byte is 2^3 bits, so bit 0 of the byte count stands for x^(2^3).
  for (let rest = bytes, k = 3; rest > 0; rest = Math.floor(rest / 2), k++) {
    if (rest % 2 === 1) power = multiply(SQUARES[k % 32] as number, power);
  }
  lastPower = { bytes, power };
  return power;
}

/** Product of two polynomials modulo the polynomial. */
function multiply(a: number, b: number): number {
  let product = 0;
  for (let bit = 31, factor = b; bit >= 0; bit--, factor = timesX(factor)) {
    if ((a >>> bit) & 1) product ^= factor;
  }
  return product;
}

function timesX(value: number): number {
  return value & 1 ? (value >>> 1) ^ POLYNOMIAL : value >>> 1;
}
