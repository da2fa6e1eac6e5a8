import { describe, expect, test } from 'vitest';
import { emptyStats } from '../../../src/numeric/stats.js';
import { mixedBytes, valuesOf } from '../../helpers/float-vectors.js';
import { IMPLEMENTATIONS } from '../../helpers/kernels.js';

describe.each(IMPLEMENTATIONS)('$name', ({ scan }) => {
  test.each(['F16', 'BF16', 'F32', 'F64'] as const)(
    'a copy of %s counts NaNs and infinities, and nothing is lost',
    (dtype) => {
      const input = mixedBytes(dtype);
      const values = valuesOf(dtype, input);
      const stats = emptyStats();
      scan(dtype)(input, stats);
      expect(stats).toMatchObject({
        overflow: 0,
        underflow: 0,
        nan: values.filter(Number.isNaN).length,
        inf: values.filter((value) => Math.abs(value) === Number.POSITIVE_INFINITY).length,
      });
    },
  );

  test.each([
    { dtype: 'F16', bits: Uint16Array.of(0x0001, 0xfbff, 0x7c00, 0x7e00), largest: 65504 },
    { dtype: 'BF16', bits: Uint16Array.of(0x0001, 0xff7f, 0x7f80, 0x7fc0), largest: 255 * 2 ** 120 },
    { dtype: 'F32', bits: Uint32Array.of(1, 0xff7fffff, 0x7f800000, 0x7fc00000), largest: (2 - 2 ** -23) * 2 ** 127 },
    { dtype: 'F64', bits: Uint32Array.of(0, 0xbff80000, 0, 0x3ff00000), largest: 1.5 },
    { dtype: 'F64', bits: Uint32Array.of(0xffffffff, 0x7fefffff), largest: (2 - 2 ** -23) * 2 ** 127 },
    { dtype: 'F64', bits: Uint32Array.of(0x20000000, 0x3ff00000, 0x30000000, 0x3ff00000), largest: 1 + 2 ** -22 },
    { dtype: 'F64', bits: Uint32Array.of(1, 0), largest: 0 },
    { dtype: 'F32', bits: Uint32Array.of(3, 0x80000007), largest: 7 * 2 ** -149 },
    { dtype: 'F32', bits: Uint32Array.of(0x7f800000, 0xffc00000), largest: 0 },
    { dtype: 'F32', bits: new Uint32Array(), largest: 0 },
  ] as const)('the largest magnitude of $dtype $bits is $largest', ({ dtype, bits, largest }) => {
    const stats = emptyStats();
    scan(dtype)(new Uint8Array(bits.buffer), stats);
    expect(stats.largest).toBe(largest);
  });
});
