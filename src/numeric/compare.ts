/**
 * Compares elements bit for bit, and shows single ones. A NaN equals every NaN: its payload is not a value.
 *
 * @module
 */

import { firstDifference } from '../base/difference.js';
import { bytesOf, DTYPES, type DType } from '../base/dtype.js';
import { bf16ToF32, f16ToF32 } from './bits.js';

/** Elements that differ: the index of the first one, and how many there are. */
export interface Mismatch {
  readonly first: number;
  readonly count: number;
}

/** Compares two arrays of elements of one length, at any alignment. Undefined where all are equal. */
export function compareElements(dtype: DType, expected: Uint8Array, found: Uint8Array): Mismatch | undefined {
  const size = bytesOf(dtype);
  const start = firstDifference(expected, found);
  let first = -1;
  let count = 0;
  for (let at = start - (start % size); at < expected.length; at += size) {
    if (isSame(dtype, expected, found, at)) continue;
    if (first < 0) first = at / size;
    count++;
  }
  return count === 0 ? undefined : { first, count };
}

/** The element at byte `at` for people: shortest digits that tell it from its neighbours. */
export function elementText(dtype: DType, bytes: Uint8Array, at: number): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, bytesOf(dtype));
  switch (dtype) {
    case 'F64':
      return numberText(view.getFloat64(0, true), 17);
    case 'F32':
      return numberText(view.getFloat32(0, true), 9);
    case 'F16':
      return numberText(valueOfWord(f16ToF32(view.getUint16(0, true))), 5);
    case 'BF16':
      return numberText(valueOfWord(bf16ToF32(view.getUint16(0, true))), 4);
    case 'I64':
      return String(view.getBigInt64(0, true));
    case 'U64':
      return String(view.getBigUint64(0, true));
    case 'I32':
      return String(view.getInt32(0, true));
    case 'I16':
      return String(view.getInt16(0, true));
    case 'I8':
      return String(view.getInt8(0));
    case 'U32':
      return String(view.getUint32(0, true));
    case 'U16':
      return String(view.getUint16(0, true));
    case 'U8':
    case 'BOOL':
      return String(view.getUint8(0));
    default:
      return `0x${[...bytes.subarray(at, at + bytesOf(dtype))].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
  }
}

function isSame(dtype: DType, a: Uint8Array, b: Uint8Array, at: number): boolean {
  for (let i = at; i < at + bytesOf(dtype); i++) {
    if (a[i] !== b[i]) return isNaNAt(dtype, a, at) && isNaNAt(dtype, b, at);
  }
  return true;
}

function isNaNAt(dtype: DType, bytes: Uint8Array, at: number): boolean {
  return DTYPES[dtype].kind === 'float' && elementText(dtype, bytes, at) === 'NaN';
}

function numberText(value: number, digits: number): string {
  if (Object.is(value, -0)) return '-0';
  return String(Number.isFinite(value) ? Number(value.toPrecision(digits)) : value);
}

function valueOfWord(word: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setUint32(0, word);
  return view.getFloat32(0);
}
