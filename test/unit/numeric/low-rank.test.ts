import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { addCopy, addProduct, addScaled, divideBy, unifyNaNs } from '../../../src/numeric/low-rank.js';
import { simdProduct } from '../../../src/numeric/low-rank-simd.js';
import { firstDifference } from '../../helpers/pattern.js';

/** The product by its definition: one element at a time, each term and each sum rounded to fp32. */
function naiveProduct(left: Float32Array, right: Float32Array, rank: number, columns: number): Float32Array {
  const rows = left.length / rank;
  const product = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      let sum = 0;
      for (let k = 0; k < rank; k++) {
        const term = Math.fround((left[i * rank + k] ?? 0) * (right[k * columns + j] ?? 0));
        sum = Math.fround(sum + term);
      }
      product[i * columns + j] = sum;
    }
  }
  return product;
}

const value = fc.float({ noNaN: true, noDefaultInfinity: true, min: Math.fround(-1e10), max: Math.fround(1e10) });

const products = fc
  .record({
    rows: fc.integer({ min: 1, max: 5 }),
    rank: fc.integer({ min: 1, max: 11 }),
    columns: fc.integer({ min: 1, max: 40 }),
  })
  .chain(({ rows, rank, columns }) =>
    fc.record({
      rank: fc.constant(rank),
      columns: fc.constant(columns),
      left: fc
        .array(value, { minLength: rows * rank, maxLength: rows * rank })
        .map((values) => new Float32Array(values)),
      right: fc
        .array(value, { minLength: rank * columns, maxLength: rank * columns })
        .map((values) => new Float32Array(values)),
      range: fc.tuple(fc.nat(rows * columns - 1), fc.nat(rows * columns - 1)),
      depth: fc.integer({ min: 1, max: rank }),
    }),
  );

describe.each([
  ['in JavaScript', addProduct],
  ['in WebAssembly', simdProduct()],
])('addProduct %s', (_, addProduct) => {
  test('small integers give the exact product', () => {
    // [1 2; 3 4; 5 6] times [1 0 -1; 2 1 0]
    const sum = new Float32Array(9);
    addProduct(
      { sum, start: 0, columns: 3 },
      new Float32Array([1, 2, 3, 4, 5, 6]),
      2,
      new Float32Array([1, 0, -1, 2, 1, 0]),
      0,
    );
    expect([...sum]).toEqual([5, 2, -1, 11, 4, -3, 17, 6, -5]);
  });

  test('gives the bits of the definition for any strip of the matrix and any cut of the sum', () => {
    fc.assert(
      fc.property(products, ({ rank, columns, left, right, range, depth }) => {
        const [start, last] = range[0] < range[1] ? range : [range[1], range[0]];
        const sum = new Float32Array(last + 1 - start);
        const firstRow = Math.floor(start / columns);
        for (let first = 0; first < rank; first += depth) {
          const part = right.subarray(first * columns, Math.min(rank, first + depth) * columns);
          addProduct({ sum, start, columns }, left.subarray(firstRow * rank), rank, part, first);
        }
        const expected = naiveProduct(left, right, rank, columns).subarray(start, last + 1);
        expect(new Uint32Array(sum.buffer)).toEqual(new Uint32Array(expected.slice().buffer));
      }),
      { numRuns: 300 },
    );
  });

  test.each([
    ['narrow', 15, 3, 40],
    ['wider than the part of a row that is summed at once', 40_000, 2, 6],
    ['with more rows on the right than the memory holds', 70_001, 2, 31],
  ])('gives the bits of the definition for a matrix that is %s', (_, columns, rows, rank) => {
    const noise = (count: number, seed: number) =>
      Float32Array.from({ length: count }, (_, i) => Math.sin(i * 1.7 + seed));
    const [left, right] = [noise(rows * rank, 1), noise(rank * columns, 2)];
    const start = Math.floor(columns / 3) + 1;
    const sum = new Float32Array((rows - 1) * columns);
    addProduct({ sum, start, columns }, left, rank, right, 0);
    const expected = naiveProduct(left, right, rank, columns).slice(start, start + sum.length);
    expect(firstDifference(new Uint8Array(sum.buffer), new Uint8Array(expected.buffer))).toBeUndefined();
  });

  test('rounds every term before it is added, so that nothing is fused', () => {
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24; its last bit is rounded away before 1 is taken off, which a fused sum would keep.
    const b = 1 + 2 ** -12;
    const sum = new Float32Array(20).fill(-1);
    addProduct({ sum, start: 0, columns: 20 }, new Float32Array([b]), 1, new Float32Array(20).fill(b), 0);
    expect([...sum]).toEqual(new Array(20).fill(2 ** -11));
    expect(b * b - 1).not.toBe(2 ** -11);
  });
});

test('this machine has WebAssembly SIMD, so that both are compared', () => {
  expect(simdProduct()).not.toBe(addProduct);
});

describe('addScaled', () => {
  test('rounds the scale, the scaled product and the sum, each to fp32', () => {
    const product = new Float32Array([3, 2 ** 24, 1]);
    addScaled(product, new Float32Array([1, 1, 2 ** 24]), 1 / 3);
    const third = Math.fround(1 / 3);
    expect([...product]).toEqual([
      Math.fround(1 + Math.fround(3 * third)),
      Math.fround(1 + Math.fround(2 ** 24 * third)),
      2 ** 24,
    ]);
  });
});

describe('the mean of copies', () => {
  const mean = (...copies: number[][]) => {
    const sum = new Float32Array(copies[0]?.length ?? 0);
    for (const copy of copies) addCopy(sum, new Float32Array(copy));
    divideBy(sum, copies.length);
    return [...sum];
  };

  test('is the sum in the order of the ranks, rounded at each step, and then divided', () => {
    expect(mean([1, 4], [2, 5], [6, 6])).toEqual([3, 5]);
    // 2^24 + 1 is 2^24 in fp32; in another order the ones would add up first.
    expect(mean([2 ** 24], [1], [1])).toEqual([Math.fround(2 ** 24 / 3)]);
    expect(mean([1], [1], [2 ** 24])).toEqual([Math.fround((2 ** 24 + 2) / 3)]);
  });

  test('of negative zeros is zero, since sums start at zero in torch, too', () => {
    expect(mean([-0], [-0])).toEqual([0]);
  });
});

test('unifyNaNs makes every NaN the plain one and leaves the rest', () => {
  const words = new Uint32Array([0xffc00001, 0x7f800001, 0x7f800000, 0xff800000, 0x80000000, 0x3f800000]);
  unifyNaNs(new Float32Array(words.buffer));
  expect([...words]).toEqual([0x7fc00000, 0x7fc00000, 0x7f800000, 0xff800000, 0x80000000, 0x3f800000]);
});
