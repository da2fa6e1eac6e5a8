/**
 * Copies rows: with WebAssembly where both sides lie in its memory, which saves a call for each row.
 *
 * @module
 */

import { assert } from './errors.js';
import { addressOf, kernelMemory } from './kernel-memory.js';
import { once } from './once.js';
import { ROWS_MODULE } from './rows-module.js';
import { instantiate } from './wasm.js';

/** The function of `rows.wat`. All but `count` is bytes. */
type RowsExports = Readonly<
  Record<'rows', (from: number, stepFrom: number, to: number, stepTo: number, length: number, count: number) => void>
>;

const theKernel = once(() => {
  const memory = kernelMemory();
  return memory && instantiate<RowsExports>(ROWS_MODULE, memory)?.rows;
});

/** One side of a copy: its bytes, where the first row starts in them, and how far it is from each row to the next. */
export interface Rows {
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly step: number;
}

/** Copies `count` rows of `length` bytes. All of them lie within the bytes of their side; no row lies over one of the other side. */
export function copyRows(from: Rows, to: Rows, length: number, count: number): void {
  assert(fits(from, length, count) && fits(to, length, count), 'rows are copied from or to where no bytes are');
  if (count === 0 || length === 0) return;
  const [source, target] = [addressOf(from.bytes), addressOf(to.bytes)];
  const kernel = source === undefined || target === undefined ? undefined : theKernel();
  if (kernel && source !== undefined && target !== undefined) {
    kernel(source + from.at, from.step, target + to.at, to.step, length, count);
    return;
  }
  for (let row = 0; row < count; row++) {
    const start = from.at + row * from.step;
    to.bytes.set(from.bytes.subarray(start, start + length), to.at + row * to.step);
  }
}

/** The memory of the kernels holds other bytes as well: a row outside of its own would be written over them. */
function fits({ bytes, at, step }: Rows, length: number, count: number): boolean {
  return count === 0 || (at >= 0 && step >= 0 && at + (count - 1) * step + length <= bytes.length);
}
