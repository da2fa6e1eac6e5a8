/**
 * Shortens bytes in a way that keeps their CRC-32, with WebAssembly. `crc32-fold.wat` says how.
 *
 * @module
 */

import { CRC32_FOLD_MODULE } from './crc32-fold-module.js';
import { instantiate } from './wasm.js';

/** Most bytes that are shortened at once: what stays in the second cache. */
export const FOLD_BYTES = 256 * 1024;

/** How far bytes are moved, and so what is left of them at least. */
const REACH_BYTES = 4800;

/** Bytes that are moved at once. */
const VECTOR_BYTES = 16;

/**
 * Shortens 5 to 256 KiB. The result is in the memory of the function, until the next call: a register that takes it
 * from zero on ends as one that takes `bytes` from `register` on.
 */
export type Fold = (bytes: Uint8Array, register: number) => Uint8Array;

/** Makes the function and its memory; undefined where WebAssembly SIMD cannot be had. */
export function makeFold(): Fold | undefined {
  const instance = instantiate<{ fold(from: number, end: number): void }>(CRC32_FOLD_MODULE, FOLD_BYTES);
  if (!instance) return undefined;
  const { exports, memory } = instance;
  const block = new Uint8Array(memory.buffer);
  const firstWord = new Int32Array(memory.buffer, 0, 1);
  return (bytes, register) => {
    const end = Math.floor((bytes.length - REACH_BYTES) / VECTOR_BYTES) * VECTOR_BYTES;
    block.set(bytes);
    firstWord[0] = (firstWord[0] as number) ^ register;
    exports.fold(0, end);
    return block.subarray(end, bytes.length);
  };
}
