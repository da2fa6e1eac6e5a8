import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bytesOf, DTYPES, type DType } from '../../../src/base/dtype.js';
import { compareElements, elementText } from '../../../src/numeric/compare.js';
import { decodeFloats, encodeFloats } from '../../helpers/naive-floats.js';

const dtypes = fc.constantFrom(...(Object.keys(DTYPES) as DType[]));

/** The same bytes, at another offset in their buffer. */
function shifted(bytes: Uint8Array, by: number): Uint8Array {
  const buffer = new Uint8Array(bytes.length + by);
  buffer.set(bytes, by);
  return buffer.subarray(by);
}

describe('compareElements', () => {
  test('equal elements of any dtype are equal at any alignment', () => {
    const cases = fc.tuple(dtypes, fc.nat(40), fc.nat(7), fc.nat(7), fc.nat());
    fc.assert(
      fc.property(cases, ([dtype, count, a, b, seed]) => {
        const bytes = new Uint8Array(count * bytesOf(dtype)).map((_, i) => Math.imul(i + seed, 0x9e3779b1) >>> 13);
        expect(compareElements(dtype, shifted(bytes, a), shifted(bytes, b))).toBeUndefined();
      }),
    );
  });

  test('finds the first of several elements that differ, and counts them, at any alignment', () => {
    const cases = fc
      .tuple(fc.constantFrom<DType>('U8', 'F16', 'BF16', 'I32', 'F32', 'I64'), fc.integer({ min: 1, max: 40 }))
      .chain(([dtype, count]) =>
        fc.record({
          dtype: fc.constant(dtype),
          count: fc.constant(count),
          odd: fc.uniqueArray(fc.nat(count - 1), { minLength: 1 }),
          a: fc.nat(7),
          b: fc.nat(7),
        }),
      );
    fc.assert(
      fc.property(cases, ({ dtype, count, odd, a, b }) => {
        const size = bytesOf(dtype);
        const expected = new Uint8Array(count * size).map((_, i) => i % 50);
        const found = expected.slice();
        for (const index of odd) found[index * size] = 99;
        const result = compareElements(dtype, shifted(expected, a), shifted(found, b));
        expect(result).toEqual({ first: Math.min(...odd), count: odd.length });
      }),
    );
  });

  test.each([
    ['F16', [0x01, 0x7c], [0xff, 0xff]],
    ['BF16', [0x81, 0x7f], [0xff, 0xff]],
    ['F32', [0x01, 0x00, 0x80, 0x7f], [0x00, 0x00, 0xc0, 0xff]],
    ['F64', [1, 0, 0, 0, 0, 0, 0xf0, 0x7f], [0, 0, 0, 0, 0, 0, 0xf8, 0xff]],
  ] as const)('a NaN of %s equals every NaN, and no infinity', (dtype, nan, other) => {
    expect(compareElements(dtype, Uint8Array.from(nan), Uint8Array.from(other))).toBeUndefined();
    const infinity = Uint8Array.from([0, ...nan.slice(1)]);
    expect(compareElements(dtype, Uint8Array.from(nan), infinity)).toEqual({ first: 0, count: 1 });
  });

  test('integers have no NaN', () => {
    const [a, b] = [Uint8Array.from([0x01, 0x7c]), Uint8Array.from([0x02, 0x7c])];
    expect(compareElements('I16', a, b)).toEqual({ first: 0, count: 1 });
    expect(compareElements('F16', a, b)).toBeUndefined();
  });

  test('zeros of both signs differ', () => {
    const [plus, minus] = [new Uint8Array(4), Uint8Array.from([0, 0, 0, 0x80])];
    expect(compareElements('F32', plus, minus)).toEqual({ first: 0, count: 1 });
  });
});

describe('elementText', () => {
  test.each(['F16', 'BF16', 'F32'] as const)(
    'tells a value of %s from its neighbour, and can be read back',
    (dtype) => {
      const values = [0.1, -3.25, 65504, 1e-5, 2 ** -24, 1.5, 240.25].map((value) => encodeFloats(dtype, [value]));
      for (const bytes of values) {
        const next = bytes.slice();
        next[0] = (next[0] ?? 0) ^ 1;
        const text = elementText(dtype, bytes, 0);
        expect(encodeFloats(dtype, [Number(text)])).toEqual(bytes);
        expect(elementText(dtype, next, 0)).not.toBe(text);
      }
      expect(decodeFloats(dtype, encodeFloats(dtype, [1]))).toEqual([1]);
    },
  );

  test.each<[DType, number[], string]>([
    ['I64', [255, 255, 255, 255, 255, 255, 255, 255], '-1'],
    ['U64', [255, 255, 255, 255, 255, 255, 255, 255], '18446744073709551615'],
    ['I32', [254, 255, 255, 255], '-2'],
    ['U32', [254, 255, 255, 255], '4294967294'],
    ['I16', [253, 255], '-3'],
    ['U16', [253, 255], '65533'],
    ['I8', [252], '-4'],
    ['U8', [252], '252'],
    ['BOOL', [1], '1'],
    ['F64', [0, 0, 0, 0, 0, 0, 0, 0x80], '-0'],
    ['F64', [0, 0, 0, 0, 0, 0, 0xf0, 0x7f], 'Infinity'],
    ['F32', [0, 0, 0xc0, 0x7f], 'NaN'],
    ['F8_E4M3', [0xab], '0xab'],
    ['C64', [1, 2, 3, 4, 5, 6, 7, 8], '0x0102030405060708'],
  ])('shows %s', (dtype, bytes, text) => {
    expect(elementText(dtype, Uint8Array.from([7, ...bytes]), 1)).toBe(text);
  });
});
