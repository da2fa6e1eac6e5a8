/**
 * All implementations of the conversions, each over arrays of any length, so that the same cases go through all.
 *
 * @module
 */

import { bytesOf, type FloatDType, type TargetDType } from '../../src/base/dtype.js';
import { type Convert, converter } from '../../src/numeric/convert.js';
import { BLOCK_ELEMENTS, type Kernels } from '../../src/numeric/kernels.js';
import { type Scan, scan } from '../../src/numeric/scan.js';
import { scriptKernels } from '../../src/numeric/script.js';
import { simdKernels } from '../../src/numeric/simd.js';

/** An implementation, with the functions of the specification. */
export interface Implementation {
  readonly name: string;
  converter(from: FloatDType, to: TargetDType, overflow: 'inf' | 'clamp'): Convert;
  scan(dtype: FloatDType): Scan;
}

/** WebAssembly. Where it is missing, the tests that ask for it fail. */
export function simdImplementation(): Implementation {
  const kernels = simdKernels();
  if (!kernels) throw new Error('this machine has no WebAssembly SIMD');
  return inBlocks(kernels);
}

/** The specification first. */
export const IMPLEMENTATIONS: readonly Implementation[] = [
  { name: 'the specification', converter, scan },
  inBlocks(scriptKernels()),
  simdImplementation(),
];

/** What lies behind a block: elements that would be counted as NaNs. */
const BEHIND = new Uint8Array(64).fill(0xff);

function inBlocks(kernels: Kernels): Implementation {
  const eachBlock = (input: Uint8Array, elementBytes: number, take: (length: number) => void): void => {
    const blockBytes = BLOCK_ELEMENTS * elementBytes;
    for (let at = 0; at < input.byteLength; at += blockBytes) {
      const block = input.subarray(at, at + blockBytes);
      kernels.input.set(BEHIND.subarray(0, kernels.input.length - block.length), block.length);
      kernels.input.set(block);
      take(block.length);
    }
  };
  return {
    name: kernels.description,
    converter(from, to, overflow) {
      const convert = kernels.converter(from, to, overflow);
      return (input, output, stats) => {
        let written = 0;
        eachBlock(input, bytesOf(from), (length) => {
          const results = convert(length, stats);
          output.set(results, written);
          written += results.length;
        });
      };
    },
    scan(dtype) {
      const count = kernels.scanner(dtype);
      return (input, stats) => eachBlock(input, bytesOf(dtype), (length) => count(length, stats));
    },
  };
}
