import { describe, expect, test } from 'vitest';
import { bytesOf } from '../../../src/base/dtype.js';
import { convertBytes } from '../../../src/numeric/convert.js';
import { emptyStats } from '../../../src/numeric/stats.js';
import { testConversions } from '../../helpers/conversion-tests.js';
import {
  concat,
  firstDifference,
  mixedBytes,
  PAIRS,
  randomBytes,
  statsFrom,
  valuesOf,
} from '../../helpers/float-vectors.js';
import { IMPLEMENTATIONS } from '../../helpers/kernels.js';

describe.each(IMPLEMENTATIONS)('$name', ({ converter }) => {
  testConversions(async ({ from, to, overflow, input, output }) => {
    const stats = emptyStats();
    converter(from, to, overflow)(input, output, stats);
    return [stats];
  });

  test.each(PAIRS)('%s to %s counts what became of the values', (from, to) => {
    const input = mixedBytes(from);
    const output = new Uint8Array((input.byteLength / bytesOf(from)) * bytesOf(to));
    const stats = emptyStats();
    converter(from, to, 'inf')(input, output, stats);
    expect(stats).toEqual(statsFrom(from, input, to, output));
  });

  test('statistics are added to what is there', () => {
    const convert = converter('F32', 'F16', 'inf');
    const stats = { overflow: 1, underflow: 2, nan: 3, inf: 4, largest: 2 };
    convert(floats([1, 1e6, 1e-9, Number.NaN, Number.NEGATIVE_INFINITY, -0]), new Uint8Array(12), stats);
    expect(stats).toEqual({ overflow: 2, underflow: 3, nan: 4, inf: 5, largest: 1e6 });
    convert(floats([-2]), new Uint8Array(2), stats);
    expect(stats.largest).toBe(1e6);
  });

  describe('clamp', () => {
    test.each(PAIRS)('%s to %s changes exactly the values that overflowed, and no count', (from, to) => {
      const input = mixedBytes(from);
      const [plain, clamped] = [emptyStats(), emptyStats()];
      const output = new Uint8Array((input.byteLength / bytesOf(from)) * bytesOf(to));
      const wanted = output.slice();
      converter(from, to, 'clamp')(input, output, clamped);
      converter(from, to, 'inf')(input, wanted, plain);
      expect(clamped).toEqual(plain);

      const words = to === 'F32' ? new Uint32Array(wanted.buffer) : new Uint16Array(wanted.buffer);
      for (const [i, value] of valuesOf(from, input).entries()) {
        const largest = { F16: 0x7bff, BF16: 0x7f7f, F32: 0x7f7fffff }[to];
        const sign = to === 'F32' ? 0x80000000 : 0x8000;
        const word = words[i] as number;
        if (Number.isFinite(value) && word % sign === largest + 1) words[i] = word - (word % sign) + largest;
      }
      expect(firstDifference(output, wanted, to)).toBeUndefined();
    });

    test.each([
      {
        from: 'F32',
        to: 'F16',
        input: floats([65520, -1e9, 65519, Number.POSITIVE_INFINITY]),
        wanted: [0x7bff, 0xfbff, 0x7bff, 0x7c00],
      },
      {
        from: 'F32',
        to: 'BF16',
        input: floats([3.4e38, -3.4e38, 1, Number.NEGATIVE_INFINITY]),
        wanted: [0x7f7f, 0xff7f, 0x3f80, 0xff80],
      },
      {
        from: 'F64',
        to: 'F16',
        input: doubles([1e300, -1e300, 65504, Number.NEGATIVE_INFINITY]),
        wanted: [0x7bff, 0xfbff, 0x7bff, 0xfc00],
      },
      {
        from: 'F64',
        to: 'BF16',
        input: doubles([1e300, -3.4e38, 0, Number.POSITIVE_INFINITY]),
        wanted: [0x7f7f, 0xff7f, 0, 0x7f80],
      },
    ] as const)('takes the largest $to of the sign, from $from', ({ from, to, input, wanted }) => {
      const output = new Uint8Array(8);
      converter(from, to, 'clamp')(input, output, emptyStats());
      expect([...new Uint16Array(output.buffer)]).toEqual(wanted);
    });
  });

  test.each([0, 1, 8191, 8192, 8193, 16_385, 65_535, 65_536, 65_537])('%i elements are all converted', (count) => {
    const input = randomBytes(count * 4, 3);
    const output = new Uint8Array(count * 2);
    converter('F32', 'BF16', 'inf')(input, output, emptyStats());
    const one = new Uint8Array(2);
    const wanted = Array.from({ length: count }, (_, i) => {
      converter('F32', 'BF16', 'inf')(input.slice(i * 4, i * 4 + 4), one, emptyStats());
      return one.slice();
    });
    expect(firstDifference(output, concat(wanted), 'BF16')).toBeUndefined();
  });

  test('a copy is refused', () => {
    expect(() => converter('F32', 'F32', 'inf')).toThrow('F32 to F32 is a copy');
  });
});

describe('convertBytes', () => {
  test('takes any alignment', () => {
    const input = floats([1, 2, -0.5]);
    const shifted = concat([new Uint8Array(1), input]).subarray(1);
    expect([...convertBytes(shifted, 'F32', 'BF16')]).toEqual([0x80, 0x3f, 0x00, 0x40, 0x00, 0xbf]);
  });

  test('gives the same bytes for the same dtype, signalling NaNs too', () => {
    const input = new Uint8Array(Uint32Array.of(0x7f800001).buffer);
    expect(convertBytes(input, 'F32', 'F32')).toBe(input);
  });
});

function floats(values: number[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Float32Array.from(values).buffer);
}

function doubles(values: number[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Float64Array.from(values).buffer);
}
