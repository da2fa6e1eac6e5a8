/**
 * An endless sequence of values that look like weights, any part of which can be made by itself. All of them are finite
 * and, in fp16 as in bf16, normal: that makes their rounding so simple that it can be stated here a second time.
 *
 * @module
 */

/** Sign, the low three bits of the exponent, and the mantissa of an fp32 word. */
const RANDOM_BITS = 0x83ffffff;

/** Exponent of 2^-13, the least there is here. Three random bits above it go up to 2^-6. */
const LEAST_EXPONENT = 0x39000000;

/** Exponent bits between the biases of fp32 and fp16. */
const FP16_BIAS = 0x38000000;

/** Fills `words` with the fp32 values `[first, first + words.length)` of the sequence of `seed`. */
export function fillValues(words: Uint32Array, first: number, seed: number): void {
  const start = (first + Math.imul(seed, 0x9e3779b1)) | 0;
  for (let i = 0; i < words.length; i++) {
    let x = (start + i) | 0;
    x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
    x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
    x ^= x >>> 16;
    words[i] = (x & RANDOM_BITS) + LEAST_EXPONENT;
  }
}

/** Rounds values of a sequence to bf16, ties to even. */
export function roundToBf16(words: Uint32Array, halves: Uint16Array): void {
  for (let i = 0; i < halves.length; i++) {
    const word = words[i] as number;
    halves[i] = (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
}

/** Rounds values of a sequence to fp16, ties to even. */
export function roundToFp16(words: Uint32Array, halves: Uint16Array): void {
  for (let i = 0; i < halves.length; i++) {
    const word = words[i] as number;
    const magnitude = (word & 0x7fffffff) - FP16_BIAS;
    halves[i] = ((word >>> 16) & 0x8000) | ((magnitude + 0xfff + ((magnitude >>> 13) & 1)) >>> 13);
  }
}
