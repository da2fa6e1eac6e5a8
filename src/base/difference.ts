/**
 * Finds where two runs of bytes differ: with WebAssembly where that is at hand, else by words.
 *
 * @module
 */

import { DIFFERENCE_MODULE } from './difference-module.js';
import { addressOf, kernelMemory, reserveInMemory } from './kernel-memory.js';
import { once } from './once.js';
import { instantiate } from './wasm.js';

/** Bytes that WebAssembly compares at once. */
const VECTORS_BYTES = 32;

/** Bytes from outside the memory of the kernels are copied into it in blocks of this (64 KiB), which stay in the cache. */
const BLOCK_BYTES = 2 ** 16;

type DifferenceExports = Readonly<Record<'difference', (left: number, right: number, end: number) => number>>;

/** The function of `difference.wat`, and where what it cannot see is copied to. */
const theKernel = once(() => {
  const memory = kernelMemory();
  const exports = memory && instantiate<DifferenceExports>(DIFFERENCE_MODULE, memory);
  const [left, right] = [reserveInMemory(BLOCK_BYTES), reserveInMemory(BLOCK_BYTES)];
  return exports && left && right && { difference: exports.difference, left, right };
});

/** Offset of the first byte that differs, at any alignment; the length, which both share, where none does. */
export function firstDifference(a: Uint8Array, b: Uint8Array): number {
  let at = equalBlocks(a, b);
  if ((a.byteOffset - b.byteOffset) % 4 === 0) {
    while (at < a.length && (a.byteOffset + at) % 4 !== 0 && a[at] === b[at]) at++;
    if ((a.byteOffset + at) % 4 === 0) {
      const words = Math.floor((a.length - at) / 4);
      const left = new Int32Array(a.buffer, a.byteOffset + at, words);
      const right = new Int32Array(b.buffer, b.byteOffset + at, words);
      at += 4 * firstUnequal(left, right);
    }
  }
  while (at < a.length && a[at] === b[at]) at++;
  return at;
}

/** Bytes that WebAssembly has found to be equal, from the start on. */
function equalBlocks(a: Uint8Array, b: Uint8Array): number {
  const length = a.length - (a.length % VECTORS_BYTES);
  const kernel = length === 0 ? undefined : theKernel();
  if (!kernel) return 0;
  const isInside = addressOf(a) !== undefined && addressOf(b) !== undefined;
  const step = isInside ? length : BLOCK_BYTES;
  for (let at = 0; at < length; at += step) {
    const size = Math.min(step, length - at);
    const left = placeOf(a.subarray(at, at + size), kernel.left);
    const right = placeOf(b.subarray(at, at + size), kernel.right);
    const equal = kernel.difference(left, right, left + size) - left;
    if (equal < size) return at + equal;
  }
  return length;
}

/** Where bytes lie in the memory of the kernels; those that lie elsewhere are copied to `block`. */
function placeOf(bytes: Uint8Array, block: Uint8Array): number {
  const address = addressOf(bytes);
  if (address !== undefined) return address;
  block.set(bytes);
  return block.byteOffset;
}

/** Index of the first word that differs. Four words are asked about at once, which is a third faster. */
function firstUnequal(a: Int32Array, b: Int32Array): number {
  const { length } = a;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    const first = (a[i] as number) ^ (b[i] as number);
    const second = (a[i + 1] as number) ^ (b[i + 1] as number);
    const third = (a[i + 2] as number) ^ (b[i + 2] as number);
    const fourth = (a[i + 3] as number) ^ (b[i + 3] as number);
    if ((first | second | third | fourth) !== 0) break;
  }
  while (i < length && a[i] === b[i]) i++;
  return i;
}
