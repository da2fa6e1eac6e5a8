/**
 * Conversions of whole arrays. Everything is decided when a converter is made; its loops only convert.
 *
 *     const convert = converter('F32', 'F16', 'inf');
 *     convert(input, output, stats);
 *
 * Words are read in the byte order of the machine, which is little-endian, as the files are, wherever JavaScript runs.
 *
 * @module
 */

import { bytesOf, type FloatDType, type TargetDType } from '../base/dtype.js';
import { assert } from '../base/errors.js';
import { bf16ToF32, f16ToF32, f32ToBf16, f32ToF16, f64ToF32 } from './bits.js';
import { scanFor } from './scan.js';
import { type ConvertStats, emptyStats } from './stats.js';
import { words16, words32 } from './words.js';

/**
 * Converts all elements of `input` to `output` and adds their statistics to `stats`. Both start at a multiple of their
 * word size (2 or 4 bytes; fp64 is two words of 4) in their buffers.
 */
export type Convert = (input: Uint8Array, output: Uint8Array, stats: ConvertStats) => void;

/**
 * What converts `from` to another dtype. With `clamp`, a finite value beyond the range becomes the largest finite value
 * of its sign; infinities stay.
 */
export function converter(from: FloatDType, to: TargetDType, overflow: 'inf' | 'clamp'): Convert {
  const loop = LOOPS[from][to];
  assert(loop !== undefined, `${from} to ${to} is a copy, not a conversion`);
  const count = scanFor(from, to);
  const [fromBytes, toBytes] = [bytesOf(from), bytesOf(to)];
  return (input, output, stats) => {
    const elements = output.byteLength / toBytes;
    for (let start = 0; start < elements; start += BLOCK_ELEMENTS) {
      const end = Math.min(start + BLOCK_ELEMENTS, elements);
      const source = input.subarray(start * fromBytes, end * fromBytes);
      const target = output.subarray(start * toBytes, end * toBytes);
      const before = stats.overflow;
      count(source, stats);
      loop(source, target);
      if (overflow === 'clamp' && stats.overflow > before) clamp(from, source, to, target);
    }
  };
}

/** The elements of `input`, at any alignment, as `to`; a finite value beyond the range becomes infinity. */
export function convertBytes(input: Uint8Array, from: FloatDType, to: TargetDType): Uint8Array {
  if (from === to) return input;
  const output = new Uint8Array((input.byteLength / bytesOf(from)) * bytesOf(to));
  converter(from, to, 'inf')(new Uint8Array(input), output, emptyStats());
  return output;
}

/** Elements that are counted and then converted: input and output stay in the fastest cache between the two loops. */
const BLOCK_ELEMENTS = 8192;

type Loop = (input: Uint8Array, output: Uint8Array) => void;

// One loop for each pair, so that the engine compiles each for its own types. One shared loop that takes the conversion
// as an argument is several times slower.
const LOOPS: Readonly<Record<FloatDType, Readonly<Partial<Record<TargetDType, Loop>>>>> = {
  F32: {
    F16(input, output) {
      const [words, halves] = [words32(input), words16(output)];
      for (let i = 0; i < halves.length; i++) halves[i] = f32ToF16(words[i] as number);
    },
    BF16(input, output) {
      const [words, halves] = [words32(input), words16(output)];
      for (let i = 0; i < halves.length; i++) halves[i] = f32ToBf16(words[i] as number);
    },
  },
  F16: {
    F32(input, output) {
      const [halves, words] = [words16(input), words32(output)];
      for (let i = 0; i < words.length; i++) words[i] = f16ToF32(halves[i] as number);
    },
    BF16(input, output) {
      const [halves, results] = [words16(input), words16(output)];
      for (let i = 0; i < results.length; i++) results[i] = f32ToBf16(f16ToF32(halves[i] as number));
    },
  },
  BF16: {
    F32(input, output) {
      const [halves, words] = [words16(input), words32(output)];
      for (let i = 0; i < words.length; i++) words[i] = bf16ToF32(halves[i] as number);
    },
    F16(input, output) {
      const [halves, results] = [words16(input), words16(output)];
      for (let i = 0; i < results.length; i++) results[i] = f32ToF16(bf16ToF32(halves[i] as number));
    },
  },
  F64: {
    F32(input, output) {
      const [pairs, words] = [words32(input), words32(output)];
      for (let i = 0; i < words.length; i++) words[i] = f64ToF32(pairs[2 * i] as number, pairs[2 * i + 1] as number);
    },
    F16(input, output) {
      const [pairs, halves] = [words32(input), words16(output)];
      for (let i = 0; i < halves.length; i++) {
        halves[i] = f32ToF16(f64ToF32(pairs[2 * i] as number, pairs[2 * i + 1] as number));
      }
    },
    BF16(input, output) {
      const [pairs, halves] = [words32(input), words16(output)];
      for (let i = 0; i < halves.length; i++) {
        halves[i] = f32ToBf16(f64ToF32(pairs[2 * i] as number, pairs[2 * i + 1] as number));
      }
    },
  },
};

/** Takes finite values that became infinity one step back: the largest finite value has the bits before infinity. */
function clamp(from: FloatDType, input: Uint8Array, to: TargetDType, output: Uint8Array): void {
  const [special, infinity] = [EXPONENT[from], EXPONENT[to]];
  const source = bytesOf(from) === 2 ? words16(input) : words32(input);
  const target = bytesOf(to) === 2 ? words16(output) : words32(output);
  const stride = source.length / target.length;
  for (let i = 0; i < target.length; i++) {
    const top = source[(i + 1) * stride - 1] as number;
    const result = target[i] as number;
    if ((top & special) !== special && (result & infinity) === infinity) target[i] = result - 1;
  }
}

/** The exponent field, in the word that holds it: infinities and NaNs have all of its bits. */
const EXPONENT: Readonly<Record<FloatDType, number>> = { F16: 0x7c00, BF16: 0x7f80, F32: 0x7f800000, F64: 0x7ff00000 };
