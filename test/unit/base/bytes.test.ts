import { describe, expect, test } from 'vitest';
import { alignedCopy, differingPlaces, equalBytes } from '../../../src/base/bytes.js';

const LENGTH = 5003;

/** Bytes at an offset into their buffer. */
function bytesAt(offset: number, edit: (bytes: Uint8Array) => void = () => {}): Uint8Array {
  const bytes = new Uint8Array(LENGTH + offset + 8).subarray(offset, offset + LENGTH);
  for (let i = 0; i < LENGTH; i++) bytes[i] = (i * 7) % 251;
  edit(bytes);
  return bytes;
}

describe('runs of bytes', () => {
  test.each([
    [0, 0],
    [0, 4],
    [1, 0],
    [3, 2],
  ])('are the same wherever they lie (offsets %i and %i)', (a, b) => {
    expect(equalBytes(bytesAt(a), bytesAt(b))).toBe(true);
  });

  test.each([0, 1, 1023, 1024, 2500, LENGTH - 4, LENGTH - 3, LENGTH - 1])('differ where byte %i differs', (at) => {
    for (const offset of [0, 1]) {
      for (const bit of [1, 128]) {
        const other = bytesAt(offset, (bytes) => bytes.set([(bytes[at] ?? 0) ^ bit], at));
        expect(equalBytes(bytesAt(0), other)).toBe(false);
      }
    }
  });

  test('differ in places that are told, in order, unless there are more than wanted', () => {
    const edited = [0, 3, 4, 1024, 1025, LENGTH - 1];
    for (const offset of [0, 1, 4]) {
      const other = bytesAt(offset, (bytes) => {
        for (const at of edited) bytes[at] = (bytes[at] ?? 0) ^ 1;
      });
      expect(differingPlaces(bytesAt(0), other, 6)).toEqual(edited);
      expect(differingPlaces(bytesAt(0), other, 5)).toBeUndefined();
      expect(differingPlaces(bytesAt(0), bytesAt(offset), 0)).toEqual([]);
    }
  });

  test('are copied to where they lie in words as in a file', () => {
    for (const offset of [0, 1, 2, 3, 103]) {
      const copy = alignedCopy(bytesAt(2), offset);
      expect(copy.byteOffset % 4).toBe(offset % 4);
      expect(equalBytes(copy, bytesAt(0))).toBe(true);
    }
  });

  test('differ in length, and are the same where there are none', () => {
    expect(equalBytes(bytesAt(0), bytesAt(0).subarray(0, LENGTH - 1))).toBe(false);
    expect(equalBytes(new Uint8Array(0), new Uint8Array(0))).toBe(true);
  });
});
