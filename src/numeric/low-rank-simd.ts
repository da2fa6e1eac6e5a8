/**
 * `addProduct` with the kernel of `low-rank.wat`: the same bits, several times as fast.
 *
 * @module
 */

import { newMemory } from '../base/kernel-memory.js';
import { instantiate } from '../base/wasm.js';
import { addProduct, type ProductStrip } from './low-rank.js';
import { LOW_RANK_MODULE } from './low-rank-module.js';

/** As `addProduct`. */
export type AddProduct = typeof addProduct;

type Exports = Readonly<
  Record<'addRow', (sum: number, end: number, left: number, leftEnd: number, right: number, pitch: number) => void>
>;

/** Elements that the kernel takes at once. */
const LANES = 4;

/** Elements of the memory for rows of the right matrix (8 MiB). */
const RIGHT_ELEMENTS = 2 ** 21;
/** Elements of a row that are summed at once (64 KiB): they stay in the cache, whatever the rank. */
const SUM_ELEMENTS = 2 ** 14;
/** Narrower matrices are not worth the copying; it also bounds how many rows fit in the memory, and so the left elements. */
const MIN_COLUMNS = 16;

const LEFT_ELEMENTS = RIGHT_ELEMENTS / MIN_COLUMNS;
const SUM_AT = RIGHT_ELEMENTS;
const LEFT_AT = SUM_AT + SUM_ELEMENTS;
const MEMORY_ELEMENTS = LEFT_AT + LEFT_ELEMENTS;

/** Makes the kernel and its memory. Where WebAssembly SIMD cannot be had, this is `addProduct` itself. */
export function simdProduct(): AddProduct {
  const ownMemory = newMemory(MEMORY_ELEMENTS * 4);
  const exports = ownMemory && instantiate<Exports>(LOW_RANK_MODULE, ownMemory);
  if (!exports) return addProduct;
  const { addRow } = exports;
  const memory = new Float32Array(ownMemory.buffer, 0, MEMORY_ELEMENTS);

  /** Adds to the part `[from, to)` of a row, where the left elements and the right rows lie in the memory. */
  const addPart = (sum: Float32Array, at: number, from: number, to: number, depth: number, pitch: number): void => {
    // Whole lanes: elements before and after the part are summed along, and dropped.
    const start = from - (from % LANES);
    const length = Math.ceil((to - start) / LANES) * LANES;
    const part = sum.subarray(at, at + to - from);
    memory.set(part, SUM_AT + from - start);
    addRow(4 * SUM_AT, 4 * (SUM_AT + length), 4 * LEFT_AT, 4 * (LEFT_AT + depth), 4 * start, 4 * pitch);
    part.set(memory.subarray(SUM_AT + from - start, SUM_AT + to - start));
  };

  return (strip, left, rank, right, first) => {
    const { columns } = strip;
    const pitch = Math.ceil(columns / LANES) * LANES;
    if (columns < MIN_COLUMNS || pitch > RIGHT_ELEMENTS) return addProduct(strip, left, rank, right, first);
    const all = right.length / columns;
    const fitting = Math.floor(RIGHT_ELEMENTS / pitch);
    for (let k = 0; k < all; k += fitting) {
      const depth = Math.min(fitting, all - k);
      for (let i = 0; i < depth; i++) memory.set(right.subarray((k + i) * columns, (k + i + 1) * columns), i * pitch);
      for (const { row, from, to, at } of rowsOf(strip)) {
        memory.set(left.subarray(row * rank + first + k, row * rank + first + k + depth), LEFT_AT);
        for (let start = from; start < to; start += SUM_ELEMENTS - LANES) {
          const end = Math.min(to, start + SUM_ELEMENTS - LANES);
          addPart(strip.sum, at + start - from, start, end, depth, pitch);
        }
      }
    }
  };
}

/** The rows of a strip, counted from its first, and the columns `[from, to)` of each, from element `at` of the sum on. */
function* rowsOf({
  sum,
  start,
  columns,
}: ProductStrip): Generator<{ row: number; from: number; to: number; at: number }> {
  const firstRow = Math.floor(start / columns);
  const end = start + sum.length;
  for (let row = firstRow; row * columns < end; row++) {
    const from = Math.max(row * columns, start);
    const to = Math.min((row + 1) * columns, end);
    yield { row: row - firstRow, from: from - row * columns, to: to - row * columns, at: from - start };
  }
}
