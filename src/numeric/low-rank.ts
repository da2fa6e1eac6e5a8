/**
 * The arithmetic of merging an adapter and of averaging copies, in fp32. Every operation is rounded to fp32 by itself,
 * none is fused, and the order of the sums is fixed: the result does not depend on the machine, nor on how a matrix is
 * cut into tiles. `low-rank-simd.ts` gives the same bits faster; this is its specification.
 *
 * @module
 */

/** A strip of a product of two matrices: `sum` holds elements from `start` on of a matrix with rows of `columns`. */
export interface ProductStrip {
  readonly sum: Float32Array;
  /** Element of the whole matrix that `sum[0]` is. */
  readonly start: number;
  readonly columns: number;
}

/**
 * Adds the product of some columns of `left` with the rows of `right` that belong to them: for each element, the terms
 * `left[i][k] * right[k][j]` one after another, by rising k.
 *
 * @param left Rows of `rank` elements, from the row that `start` lies in.
 * @param right Rows `first` and following of the right matrix, each of `columns` elements.
 */
export function addProduct(
  { sum, start, columns }: ProductStrip,
  left: Float32Array,
  rank: number,
  right: Float32Array,
  first: number,
): void {
  const depth = right.length / columns;
  const firstRow = Math.floor(start / columns);
  const end = start + sum.length;
  for (let row = firstRow; row * columns < end; row++) {
    const from = Math.max(row * columns, start) - start;
    const to = Math.min((row + 1) * columns, end) - start;
    const shift = row * columns - start;
    const factors = (row - firstRow) * rank + first;
    let k = 0;
    // Four terms for each look at the sum: the sums are the same, and memory is touched a quarter as often.
    for (; k + 4 <= depth; k += 4) {
      const b0 = left[factors + k] as number;
      const b1 = left[factors + k + 1] as number;
      const b2 = left[factors + k + 2] as number;
      const b3 = left[factors + k + 3] as number;
      for (let i = from, at = k * columns + from - shift; i < to; i++, at++) {
        let value = sum[i] as number;
        value = Math.fround(value + Math.fround(b0 * (right[at] as number)));
        value = Math.fround(value + Math.fround(b1 * (right[at + columns] as number)));
        value = Math.fround(value + Math.fround(b2 * (right[at + 2 * columns] as number)));
        sum[i] = value + Math.fround(b3 * (right[at + 3 * columns] as number));
      }
    }
    for (; k < depth; k++) {
      const b = left[factors + k] as number;
      for (let i = from, at = k * columns + from - shift; i < to; i++, at++) {
        sum[i] = (sum[i] as number) + Math.fround(b * (right[at] as number));
      }
    }
  }
}

/** Turns a product into weights: `base + product * scale`, with `scale` rounded to fp32 as torch does. In place of the product. */
export function addScaled(product: Float32Array, base: Float32Array, scale: number): void {
  const factor = Math.fround(scale);
  for (let i = 0; i < product.length; i++) {
    product[i] = (base[i] as number) + Math.fround((product[i] as number) * factor);
  }
}

/** Adds one copy to a sum that starts at zero. */
export function addCopy(sum: Float32Array, copy: Float32Array): void {
  for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) + (copy[i] as number);
}

/** Divides a sum of copies by their number. */
export function divideBy(sum: Float32Array, count: number): void {
  for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] as number) / count;
}

/** A quiet NaN with nothing else in it: which one an operation gives is left to the machine. */
const NAN_BITS = 0x7fc00000;

/** Makes every NaN the same one, so that equal inputs give equal bits everywhere. */
export function unifyNaNs(values: Float32Array): void {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < words.length; i++) if (((words[i] as number) & 0x7fffffff) > 0x7f800000) words[i] = NAN_BITS;
}
