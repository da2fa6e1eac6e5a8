/**
 * Values that are computed from several stored tensors: an adapter merged into its weight, and the mean of copies. In
 * fp32 by `numeric/low-rank`, a range of elements at a time, with memory that does not grow with the tensor.
 *
 * @module
 */

import { assert } from '../base/errors.js';
import { numelOf } from '../base/shape.js';
import type { StoredBits } from '../checkpoints/inventory.js';
import { addCopy, addScaled, divideBy, unifyNaNs } from '../numeric/low-rank.js';
import { type AddProduct, simdProduct } from '../numeric/low-rank-simd.js';
import type { Compute, PlannedTensor } from '../plan/plan.js';

/** Elements of a tensor: `count` of them from `first` on. */
export interface ElementRange {
  readonly first: number;
  readonly count: number;
}

/** Reads elements of a stored tensor of `size` elements as fp32. */
export type ReadFloats = (bits: StoredBits, size: number, range: ElementRange) => Promise<Float32Array>;

/** The right matrix of a product is held in parts of at most this many elements (8 MiB), or of one row. */
const PART_ELEMENTS = 2 ** 21;

/** Bytes of memory for each element that is computed: its sum, one operand, and its share of the left matrix. */
export function workingBytes(compute: Compute): number {
  return 8 + (compute.kind === 'lora' ? (4 * compute.rank) / compute.columns : 0);
}

/** Computes elements of a tensor. */
export async function computeElements(
  { from, pieces, flip, shape, compute }: PlannedTensor,
  range: ElementRange,
  read: ReadFloats,
): Promise<Float32Array> {
  assert(compute, 'the tensor is not computed');
  const values = new Float32Array(range.count);
  if (compute.kind === 'mean') {
    for (const copy of compute.of) addCopy(values, await read(copy, numelOf(shape), range));
    divideBy(values, compute.of.length);
  } else {
    await addLora(values, compute, range, read);
    const base = { dtype: from, pieces, ...(flip === undefined ? {} : { flip }) };
    addScaled(values, await read(base, numelOf(shape), range), compute.scale);
  }
  unifyNaNs(values);
  return values;
}

/** Made with the first product: it has some megabytes of memory of its own. */
let kernel: AddProduct | undefined;

type Lora = Extract<Compute, { kind: 'lora' }>;

/** Adds `B x A` to sums that are zero: a part of A after another, each with its columns of B. */
async function addLora(sum: Float32Array, lora: Lora, { first, count }: ElementRange, read: ReadFloats): Promise<void> {
  const { rank, columns } = lora;
  const firstRow = Math.floor(first / columns);
  const rows = Math.ceil((first + count) / columns) - firstRow;
  const left = await readLeft(lora, firstRow, rows, read);
  const depth = Math.max(1, Math.floor(PART_ELEMENTS / columns));
  kernel ??= simdProduct();
  const product = kernel;
  for (let k = 0; k < rank; k += depth) {
    const right = await readRight(lora, k, Math.min(depth, rank - k), read);
    product({ sum, start: first, columns }, left, rank, right, k);
  }
}

/** Rows of the left matrix: of B, or of A turned. */
async function readLeft(lora: Lora, firstRow: number, rows: number, read: ReadFloats): Promise<Float32Array> {
  const { a, b, rank, rows: all, transpose } = lora;
  if (!transpose) return read(b, all * rank, { first: firstRow * rank, count: rows * rank });
  const left = new Float32Array(rows * rank);
  for (let k = 0; k < rank; k++) {
    const row = await read(a, rank * all, { first: k * all + firstRow, count: rows });
    for (let i = 0; i < rows; i++) left[i * rank + k] = row[i] as number;
  }
  return left;
}

/** Rows `[k, k + depth)` of the right matrix: of A, or of B turned. */
async function readRight(lora: Lora, k: number, depth: number, read: ReadFloats): Promise<Float32Array> {
  const { a, b, rank, columns, transpose } = lora;
  if (!transpose) return read(a, rank * columns, { first: k * columns, count: depth * columns });
  const right = new Float32Array(depth * columns);
  const step = Math.max(1, Math.floor(PART_ELEMENTS / rank));
  for (let first = 0; first < columns; first += step) {
    const count = Math.min(step, columns - first);
    const part = await read(b, columns * rank, { first: first * rank, count: count * rank });
    for (let j = 0; j < count; j++) {
      for (let i = 0; i < depth; i++) right[i * columns + first + j] = part[j * rank + k + i] as number;
    }
  }
  return right;
}
