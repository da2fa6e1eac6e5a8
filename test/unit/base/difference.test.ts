import { describe, expect, test } from 'vitest';
import { firstDifference } from '../../../src/base/difference.js';
import { addressOf, reserveBytes } from '../../../src/base/kernel-memory.js';

const inKernelMemory = () => reserveBytes(256);
const elsewhere = () => new Uint8Array(256);

describe.each([
  { places: 'both in the memory of the kernels', left: inKernelMemory(), right: inKernelMemory() },
  { places: 'one in the memory of the kernels', left: inKernelMemory(), right: elsewhere() },
  { places: 'both elsewhere', left: elsewhere(), right: elsewhere() },
])('of bytes that lie $places', ({ places, left, right }) => {
  test('the places are what they are called', () => {
    const inside = [left, right].filter((room) => addressOf(room) !== undefined).length;
    expect(['both elsewhere', 'one in the memory of the kernels', 'both in the memory of the kernels'][inside]).toBe(
      places,
    );
  });

  test.each([0, 1, 4, 17])('every place where they may differ is found, %i bytes after a line', (offset) => {
    for (const length of [0, 1, 31, 32, 33, 64, 100]) {
      const bytes = new Uint8Array(length).map((_, i) => i * 7);
      const a = left.fill(1).subarray(offset, offset + length);
      const b = right
        .fill(2)
        .subarray(offset + (length % 2) * 3)
        .subarray(0, length);
      a.set(bytes);
      for (let at = 0; at <= length; at++) {
        b.set(bytes);
        if (at < length) b[at] = (b[at] ?? 0) ^ 0x80;
        if (at + 5 < length) b[at + 5] = (b[at + 5] ?? 0) ^ 1;
        expect(firstDifference(a, b)).toBe(at);
      }
    }
  });
});

test.each([
  ['in the memory of the kernels', reserveBytes(200_001), reserveBytes(200_001)],
  ['elsewhere', new Uint8Array(200_001), new Uint8Array(200_001)],
])('long runs of bytes that lie %s are compared to the end', (_, a, b) => {
  const bytes = a.map((_, i) => i * 11);
  a.set(bytes);
  b.set(bytes);
  expect(firstDifference(a, b)).toBe(a.length);
  // Around the ends of blocks that are copied, and the very last byte.
  for (const at of [0, 65_535, 65_536, 131_071, 131_073, 199_999, 200_000]) {
    b[at] = (b[at] ?? 0) ^ 2;
    expect(firstDifference(a, b)).toBe(at);
    b[at] = (b[at] ?? 0) ^ 2;
  }
});
