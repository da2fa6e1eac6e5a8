/**
 * The specification of every conversion, one element at a time: floating-point numbers are taken as their bits and only
 * integers are computed with, since no float type of a GPU (nor `Math.fround`) keeps signalling NaNs and subnormals.
 *
 * Narrowing rounds to nearest, ties to even. Subnormals and signed zeros are kept. A finite value beyond the range
 * becomes infinity. A NaN becomes a quiet NaN with its sign and the top bits of its payload. The functions of `shaders/`
 * have the same names; they take four elements at once and select where these branch.
 *
 * All pairs go through fp32, as PyTorch does: fp64 to fp16 rounds twice, bf16 to fp16 is `f32ToF16(bf16ToF32(x))`.
 *
 * @module
 */

/** `value / 2^shift`, rounded to the nearest integer, ties to even. `shift` is 1 to 31; `value + 2^(shift - 1)` fits 32 bits. */
export function roundToEven(value: number, shift: number): number {
  return (value + (1 << (shift - 1)) - 1 + ((value >>> shift) & 1)) >>> shift;
}

/** The fp16 bits nearest to an fp32 word. */
export function f32ToF16(word: number): number {
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00 | ((magnitude >>> 13) & 0x1ff);
  // 65520 is the middle between the largest fp16 and the next power of two.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  // 2^-14, the smallest normal fp16: the exponent bias changes from 127 to 15, and 13 bits of the mantissa go.
  if (magnitude >= 0x38800000) return sign | roundToEven(magnitude - 0x38000000, 13);
  // Subnormals count in units of 2^-24. From a shift of 25 on, even the largest mantissa is below one half.
  const shift = 126 - (magnitude >>> 23);
  if (shift > 24) return sign;
  return sign | roundToEven((magnitude & 0x7fffff) | 0x800000, shift);
}

/** The bf16 bits nearest to an fp32 word. */
export function f32ToBf16(word: number): number {
  if ((word & 0x7fffffff) > 0x7f800000) return (word >>> 16) | 0x0040;
  return roundToEven(word, 16);
}

/** The fp32 word of fp16 bits, exact. */
export function f16ToF32(half: number): number {
  const sign = (half & 0x8000) << 16;
  const magnitude = half & 0x7fff;
  if (magnitude > 0x7c00) return (sign | 0x7fc00000 | ((magnitude & 0x3ff) << 13)) >>> 0;
  if (magnitude === 0x7c00) return (sign | 0x7f800000) >>> 0;
  if (magnitude >= 0x0400) return (sign | ((magnitude << 13) + 0x38000000)) >>> 0;
  if (magnitude === 0) return sign >>> 0;
  // A subnormal of 2^-24 units: its leading bit becomes the implicit one, which adds 1 to the exponent field.
  const leading = 31 - Math.clz32(magnitude);
  return (sign | (((leading + 102) << 23) + (magnitude << (23 - leading)))) >>> 0;
}

/** The fp32 word of bf16 bits, exact. */
export function bf16ToF32(bits: number): number {
  const quiet = (bits & 0x7fff) > 0x7f80 ? 0x00400000 : 0;
  return ((bits << 16) | quiet) >>> 0;
}

/** The fp32 word nearest to an fp64, given as its low and high word. */
export function f64ToF32(low: number, high: number): number {
  const sign = high & 0x80000000;
  const magnitude = high & 0x7fffffff;
  // The top 24 bits of the mantissa with a place for the implicit one, and the 29 bits below.
  const mantissa = ((magnitude & 0xfffff) << 3) | (low >>> 29);
  const rest = low & 0x1fffffff;
  if (magnitude >= 0x7ff00000) {
    const nan = (mantissa | rest) !== 0;
    return (sign | 0x7f800000 | (nan ? 0x00400000 | mantissa : 0)) >>> 0;
  }
  if (magnitude >= 0x47f00000) return (sign | 0x7f800000) >>> 0;
  // 2^-126, the smallest normal fp32: the exponent bias changes from 1023 to 127. A carry may reach infinity.
  if (magnitude >= 0x38100000) {
    const truncated = ((magnitude - 0x38000000) << 3) | (low >>> 29);
    return (sign | (truncated + ((rest + 0x0fffffff + (truncated & 1)) >>> 29))) >>> 0;
  }
  // Subnormals count in units of 2^-149. One bit stands for all that is below the 24: it only breaks ties.
  const shift = 898 - (magnitude >>> 20);
  if (shift > 25) return sign >>> 0;
  const sticky = rest === 0 ? 0 : 1;
  return (sign | roundToEven(((mantissa | 0x800000) << 1) | sticky, shift)) >>> 0;
}
