import { describe, expect, test } from 'vitest';
import { equalBytes } from '../../../src/base/bytes.js';

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

  test('differ in length, and are the same where there are none', () => {
    expect(equalBytes(bytesAt(0), bytesAt(0).subarray(0, LENGTH - 1))).toBe(false);
    expect(equalBytes(new Uint8Array(0), new Uint8Array(0))).toBe(true);
  });
});
