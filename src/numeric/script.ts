/**
 * The kernels for where there is no WebAssembly: the specification, in JavaScript.
 *
 * @module
 */

import { bytesOf, type FloatDType } from '../base/dtype.js';
import { converter } from './convert.js';
import { BLOCK_ELEMENTS, type Kernels } from './kernels.js';
import { scan } from './scan.js';

/** Makes the kernels and their memory. */
export function scriptKernels(): Kernels {
  const block = new Uint8Array(BLOCK_ELEMENTS * bytesOf('F64'));
  const aligned = new Uint8Array(block.length);
  const results = new Uint8Array(BLOCK_ELEMENTS * bytesOf('F32'));

  /** Takes the input block by block, each at a multiple of its words. */
  const eachBlock = (from: FloatDType, input: Uint8Array, take: (block: Uint8Array, at: number) => void): void => {
    const blockBytes = BLOCK_ELEMENTS * bytesOf(from);
    for (let at = 0; at < input.length; at += blockBytes) {
      const part = input.subarray(at, at + blockBytes);
      aligned.set(part);
      take(aligned.subarray(0, part.length), at / bytesOf(from));
    }
  };

  return {
    description: 'JavaScript',
    block,
    converter(from, to, overflow) {
      const convert = converter(from, to, overflow);
      return (input, output, stats) =>
        eachBlock(from, input, (part, first) => {
          const made = results.subarray(0, (part.length / bytesOf(from)) * bytesOf(to));
          convert(part, made, stats);
          output.set(made, first * bytesOf(to));
        });
    },
    scanner(dtype) {
      const count = scan(dtype);
      return (input, stats) => eachBlock(dtype, input, (part) => count(part, stats));
    },
  };
}
