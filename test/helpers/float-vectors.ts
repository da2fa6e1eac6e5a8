/**
 * Inputs for conversions, and what is to be expected of them without asking the code under test.
 *
 * @module
 */

import { bytesOf, type FloatDType, type TargetDType } from '../../src/base/dtype.js';
import type { ConvertJob, ConvertStats } from '../../src/engine/backend.js';
import expected from '../numeric/expected.json';
import { F32_CASES, F64_CASES } from './float-cases.js';

/** Every conversion there is. */
export const PAIRS: readonly (readonly [from: FloatDType, to: TargetDType])[] = [
  ['F32', 'F16'],
  ['F32', 'BF16'],
  ['F16', 'F32'],
  ['F16', 'BF16'],
  ['BF16', 'F32'],
  ['BF16', 'F16'],
  ['F64', 'F32'],
  ['F64', 'F16'],
  ['F64', 'BF16'],
];

/** The conversions from a 16-bit dtype, with torch's hash of their whole table. */
export const TABLES: readonly (readonly [from: FloatDType, to: TargetDType, sha256: string])[] = [
  ['F16', 'F32', expected.u16_exhaustive.F16_to_F32],
  ['F16', 'BF16', expected.u16_exhaustive.F16_to_BF16],
  ['BF16', 'F32', expected.u16_exhaustive.BF16_to_F32],
  ['BF16', 'F16', expected.u16_exhaustive.BF16_to_F16],
];

/** All bit patterns of a 16-bit dtype, in ascending order. */
export function allHalves(): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Uint16Array.from({ length: 0x10000 }, (_, i) => i).buffer);
}

/** Bytes of a fixed pseudo-random sequence (xorshift32). As floats of any dtype they reach every exponent. */
export function randomBytes(length: number, seed = 1): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = seed;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return new Uint8Array(words.buffer, 0, length);
}

/** The named cases of a dtype, each with both signs; those of a 16-bit dtype are its whole table. */
export function namedBytes(dtype: FloatDType): Uint8Array<ArrayBuffer> {
  switch (dtype) {
    case 'F32':
      return new Uint8Array(Uint32Array.from(F32_CASES.flatMap(({ f32 }) => [f32, f32 | SIGN])).buffer);
    case 'F64':
      return new Uint8Array(
        Uint32Array.from(F64_CASES.flatMap(({ low, high }) => [low, high, low, high | SIGN])).buffer,
      );
    default:
      return allHalves();
  }
}

/** Named cases, then random bits: an odd number of elements. */
export function mixedBytes(dtype: FloatDType, randomElements = 20_001): Uint8Array<ArrayBuffer> {
  return concat([namedBytes(dtype), randomBytes(randomElements * bytesOf(dtype))]);
}

/** A job over the whole of `input`: one piece, one slot. */
export function wholeJob(
  from: FloatDType,
  to: TargetDType,
  input: Uint8Array,
  overflow: 'inf' | 'clamp' = 'inf',
): ConvertJob {
  const count = input.byteLength / bytesOf(from);
  return {
    from,
    to,
    overflow,
    input,
    pieces: [{ input: 0, output: 0, count, slot: 0 }],
    output: new Uint8Array(count * bytesOf(to)),
    slots: 1,
  };
}

/**
 * The statistics that `output`, the correct result of a conversion with overflow to infinity, says that `input` has. It
 * compares the values as JavaScript numbers.
 */
export function statsFrom(from: FloatDType, input: Uint8Array, to: TargetDType, output: Uint8Array): ConvertStats {
  const before = valuesOf(from, input);
  const after = valuesOf(to, output);
  const finite = before.filter(Number.isFinite).map(Math.abs);
  return {
    overflow: before.filter((value, i) => Number.isFinite(value) && !Number.isFinite(after[i])).length,
    underflow: before.filter((value, i) => value !== 0 && after[i] === 0).length,
    nan: before.filter(Number.isNaN).length,
    inf: before.filter((value) => Math.abs(value) === Number.POSITIVE_INFINITY).length,
    largest: Math.min(
      finite.reduce((most, value) => Math.max(most, Math.fround(value)), 0),
      LARGEST_F32,
    ),
  };
}

/** The values of an array of floats, by the float types of the platform and the definition of fp16. */
export function valuesOf(dtype: FloatDType, bytes: Uint8Array): number[] {
  const { buffer } = new Uint8Array(bytes);
  if (dtype === 'F64') return [...new Float64Array(buffer)];
  if (dtype === 'F32') return [...new Float32Array(buffer)];
  const halves = new Uint16Array(buffer);
  if (dtype === 'BF16') return [...new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer)];
  return [...halves].map((half) => {
    const exponent = (half >> 10) & 31;
    const fraction = half & 1023;
    const magnitude =
      exponent === 31
        ? fraction === 0
          ? Number.POSITIVE_INFINITY
          : Number.NaN
        : exponent === 0
          ? fraction * 2 ** -24
          : (1024 + fraction) * 2 ** (exponent - 25);
    return half >> 15 === 0 ? magnitude : -magnitude;
  });
}

/** Replaces every NaN by the one that the hashes of torch were taken with. */
export function canonicalizeNaNs(dtype: TargetDType, bytes: Uint8Array): void {
  const { words, infinity } =
    dtype === 'F32'
      ? { words: new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4), infinity: 0x7f800000 }
      : {
          words: new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2),
          infinity: dtype === 'F16' ? 0x7c00 : 0x7f80,
        };
  const mask = dtype === 'F32' ? 0x7fffffff : 0x7fff;
  const nan = Number(expected.nan[dtype]);
  for (let i = 0; i < words.length; i++) if (((words[i] as number) & mask) > infinity) words[i] = nan;
}

/** SHA-256 in hexadecimal. */
export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return toHex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)));
}

/** Where two results differ first, with both words in hexadecimal; undefined where they are equal. */
export function firstDifference(actual: Uint8Array, wanted: Uint8Array, dtype: TargetDType): string | undefined {
  if (actual.byteLength !== wanted.byteLength) return `${actual.byteLength} bytes, not ${wanted.byteLength}`;
  const at = actual.findIndex((byte, i) => byte !== wanted[i]);
  if (at < 0) return undefined;
  const width = bytesOf(dtype);
  const element = Math.floor(at / width);
  const word = (bytes: Uint8Array) => toHex(bytes.slice(element * width, (element + 1) * width).reverse());
  return `element ${element} is ${word(actual)}, not ${word(wanted)}`;
}

/** The arrays one after another. */
export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.byteLength;
  }
  return all;
}

const SIGN = 0x80000000;
const LARGEST_F32 = (2 - 2 ** -23) * 2 ** 127;

function toHex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
