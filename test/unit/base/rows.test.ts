import { expect, test } from 'vitest';
import { releaseBytes, reserveInMemory } from '../../../src/base/kernel-memory.js';
import { copyRows } from '../../../src/base/rows.js';
import { patternBytes } from '../../helpers/pattern.js';

/** Bytes in the memory of the kernels. */
function inMemory(bytes: Uint8Array): Uint8Array {
  const reserved = reserveInMemory(bytes.length);
  if (!reserved) throw new Error('there is no room in the memory of the kernels');
  reserved.set(bytes);
  return reserved;
}

const ordinary = (bytes: Uint8Array) => bytes.slice();

test.each([
  ['both in the memory of the kernels', inMemory, inMemory],
  ['the source alone', inMemory, ordinary],
  ['the target alone', ordinary, inMemory],
  ['neither', ordinary, ordinary],
])('rows go to their places, and bytes between them stay: %s', (_, ofSource, ofTarget) => {
  const bytes = ofSource(patternBytes(0, 400));
  const target = ofTarget(new Uint8Array(300).fill(9));
  copyRows({ bytes, at: 3, step: 101 }, { bytes: target, at: 5, step: 70 }, 67, 4);
  const expected = new Uint8Array(300).fill(9);
  for (const [row, start] of [3, 104, 205, 306].entries()) {
    for (let i = 0; i < 67; i++) expected[5 + 70 * row + i] = patternBytes(0, 400)[start + i] ?? 0;
  }
  expect([...target]).toEqual([...expected]);
  releaseBytes(bytes);
  releaseBytes(target);
});

test.each([
  ['the source', { at: 4, step: 101 }, { at: 5, step: 70 }],
  ['the target', { at: 3, step: 101 }, { at: 24, step: 70 }],
])('a row that ends outside of %s is refused before anything is copied', (_, from, to) => {
  const [bytes, target] = [inMemory(patternBytes(0, 373)), inMemory(new Uint8Array(300).fill(9))];
  expect(() => copyRows({ bytes, ...from }, { bytes: target, ...to }, 67, 4)).toThrow('where no bytes are');
  expect(target.every((byte) => byte === 9)).toBe(true);
  copyRows({ bytes, at: 3, step: 101 }, { bytes: target, at: 23, step: 70 }, 67, 4);
  expect(target[299]).toBe(bytes[372]);
  releaseBytes(bytes);
  releaseBytes(target);
});
