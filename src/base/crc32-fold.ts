/**
 * Shortens bytes in a way that keeps their CRC-32, with WebAssembly. `crc32-fold.wat` says how.
 *
 * @module
 */

import { CRC32_FOLD_MODULE } from './crc32-fold-module.js';
import { addressOf, kernelMemory, reserveInMemory } from './kernel-memory.js';
import { instantiate } from './wasm.js';

/** The function of `crc32-fold.wat`. All arguments are byte addresses. */
type FoldExports = Readonly<Record<'fold', (from: number, end: number, taken: number, to: number) => void>>;

/** How far bytes are moved, and so what is left of them at least. */
const REACH_BYTES = 4800;

/** Bytes that are moved at once. */
const VECTOR_BYTES = 16;

/** Bytes that are taken at once (128 KiB): they and what was taken out before them stay in the second cache. */
const BLOCK_BYTES = 2 ** 17;

/**
 * Shortens bytes, 4816 of them at least. The result is in the memory of the function, until the next call: a register
 * that takes it from zero on ends as one that takes `bytes` from `register` on. The bytes stay as they are.
 */
export type Fold = (bytes: Uint8Array, register: number) => Uint8Array;

/** Makes the function; undefined where WebAssembly SIMD cannot be had. */
export function makeFold(): Fold | undefined {
  const memory = kernelMemory();
  // What was taken out, and before it what had been taken out of the block before; the rest; bytes from elsewhere.
  const taken = reserveInMemory(REACH_BYTES + BLOCK_BYTES);
  const rest = reserveInMemory(REACH_BYTES + 2 * VECTOR_BYTES);
  const block = reserveInMemory(BLOCK_BYTES);
  const exports = memory && instantiate<FoldExports>(CRC32_FOLD_MODULE, memory);
  if (!exports || !taken || !rest || !block) return undefined;
  const [takenAt, restAt, blockAt] = [taken, rest, block].map(({ byteOffset }) => byteOffset) as [
    number,
    number,
    number,
  ];
  const register = new DataView(taken.buffer, takenAt, 4);

  return (bytes, seed) => {
    const address = addressOf(bytes);
    const place = (at: number, length: number): number => {
      if (address !== undefined) return address + at;
      block.set(bytes.subarray(at, at + length));
      return blockAt;
    };
    // Nothing was taken out before the first vector, but for the register, which is added to it.
    taken.fill(0, 0, REACH_BYTES);
    register.setInt32(0, seed, true);
    const end = Math.floor((bytes.length - REACH_BYTES) / VECTOR_BYTES) * VECTOR_BYTES;
    for (let at = 0; at < end; at += BLOCK_BYTES) {
      const length = Math.min(BLOCK_BYTES, end - at);
      const from = place(at, length);
      exports.fold(from, from + length, takenAt, takenAt + REACH_BYTES);
      taken.copyWithin(0, length, length + REACH_BYTES);
    }
    // Of the rest nothing is taken out.
    taken.fill(0, REACH_BYTES, 2 * REACH_BYTES + VECTOR_BYTES);
    const from = place(end, bytes.length - end);
    exports.fold(from, from + bytes.length - end, takenAt, restAt);
    return rest.subarray(0, bytes.length - end);
  };
}
