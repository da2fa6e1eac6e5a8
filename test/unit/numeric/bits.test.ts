import { describe, expect, test } from 'vitest';
import { bf16ToF32, f16ToF32, f32ToBf16, f32ToF16, f64ToF32, roundToEven } from '../../../src/numeric/bits.js';
import { F32_CASES, F64_CASES } from '../../helpers/float-cases.js';
import { canonicalizeNaNs, sha256, TABLES } from '../../helpers/float-vectors.js';

const SIGNS = [
  { sign: 'positive', word: 0, half: 0 },
  { sign: 'negative', word: 0x80000000, half: 0x8000 },
];

describe.each(SIGNS)('$sign fp32', ({ word, half }) => {
  test.each(F32_CASES)('$name', ({ f32, f16, bf16 }) => {
    const input = (f32 | word) >>> 0;
    expect(hex(f32ToF16(input))).toBe(hex(f16 | half));
    expect(hex(f32ToBf16(input))).toBe(hex(bf16 | half));
  });
});

describe.each(SIGNS)('$sign fp64', ({ word, half }) => {
  test.each(F64_CASES)('$name', ({ low, high, f32, f16, bf16 }) => {
    const single = f64ToF32(low, (high | word) >>> 0);
    expect(hex(single)).toBe(hex(f32 | word));
    expect(hex(f32ToF16(single))).toBe(hex(f16 | half));
    expect(hex(f32ToBf16(single))).toBe(hex(bf16 | half));
  });
});

test('an fp64 made of an fp32 comes back, whatever its exponent', () => {
  const double = new Float64Array(1);
  const [words, single, bits] = [new Uint32Array(double.buffer), new Float32Array(1), new Uint32Array(1)];
  for (let exponent = 0; exponent < 255; exponent++) {
    for (const mantissa of [0, 1, 0x2aaaaa, 0x400000, 0x7fffff]) {
      bits[0] = (exponent << 23) | mantissa;
      single.set(new Float32Array(bits.buffer));
      double[0] = single[0] as number;
      expect(f64ToF32(words[0] as number, words[1] as number)).toBe(bits[0]);
    }
  }
});

test('random fp64 round as the platform rounds', () => {
  const words = new Uint32Array(2);
  const double = new Float64Array(words.buffer);
  const single = new Float32Array(1);
  let state = 7;
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state;
  };
  for (let i = 0; i < 50_000; i++) {
    // Exponents from 2^-160 to 2^130: the whole range of fp32 and a little more.
    const exponent = 1023 - 160 + ((random() >>> 8) % 290);
    words.set([random(), (random() & 0x800fffff) | (exponent << 20)]);
    single[0] = double[0] as number;
    expect(f64ToF32(words[0] as number, words[1] as number)).toBe(new Uint32Array(single.buffer)[0]);
  }
});

const HALF_TO = {
  F16_F32: (half: number) => f16ToF32(half),
  F16_BF16: (half: number) => f32ToBf16(f16ToF32(half)),
  BF16_F32: (half: number) => bf16ToF32(half),
  BF16_F16: (half: number) => f32ToF16(bf16ToF32(half)),
};

test.each(TABLES)('all 65,536 patterns of %s to %s are those of torch', async (from, to, wanted) => {
  const convert = HALF_TO[`${from}_${to}` as keyof typeof HALF_TO];
  const results = Array.from({ length: 0x10000 }, (_, half) => convert(half));
  const bytes = new Uint8Array(to === 'F32' ? new Uint32Array(results).buffer : new Uint16Array(results).buffer);
  canonicalizeNaNs(to, bytes);
  expect(await sha256(bytes)).toBe(wanted);
});

test('widening and narrowing again keeps every value and makes every NaN quiet', () => {
  for (let half = 0; half < 0x10000; half++) {
    const quietF16 = (half & 0x7fff) > 0x7c00 ? half | 0x0200 : half;
    const quietBf16 = (half & 0x7fff) > 0x7f80 ? half | 0x0040 : half;
    if (f32ToF16(f16ToF32(half)) !== quietF16) expect.fail(`fp16 ${hex(half)} does not come back`);
    if (f32ToBf16(bf16ToF32(half)) !== quietBf16) expect.fail(`bf16 ${hex(half)} does not come back`);
  }
});

test('a NaN keeps its sign and the top of its payload when it is widened', () => {
  expect(hex(f16ToF32(0xfc01))).toBe(hex(0xffc02000));
  expect(hex(f16ToF32(0x7e01))).toBe(hex(0x7fc02000));
  expect(hex(bf16ToF32(0xff81))).toBe(hex(0xffc10000));
  expect(hex(bf16ToF32(0x7fc1))).toBe(hex(0x7fc10000));
});

test.each([
  { value: 0b1_0, shift: 1, rounded: 1 },
  { value: 0b0_1, shift: 1, rounded: 0 },
  { value: 0b1_1, shift: 1, rounded: 2 },
  { value: 0b10_011, shift: 3, rounded: 2 },
  { value: 0b10_100, shift: 3, rounded: 2 },
  { value: 0b10_101, shift: 3, rounded: 3 },
  { value: 0b11_100, shift: 3, rounded: 4 },
  { value: 0xffff0000, shift: 16, rounded: 0xffff },
  { value: 0x40000000, shift: 31, rounded: 0 },
  { value: 0x40000001, shift: 31, rounded: 1 },
])('$value / 2^$shift rounds to $rounded', ({ value, shift, rounded }) => {
  expect(roundToEven(value, shift)).toBe(rounded);
});

function hex(word: number): string {
  return (word >>> 0).toString(16).padStart(8, '0');
}
