/**
 * All implementations of the conversions, each over arrays of any length, so that the same cases go through all.
 *
 * @module
 */

import type { FloatDType, TargetDType } from '../../src/base/dtype.js';
import { addressOf, releaseBytes, reserveBytes } from '../../src/base/kernel-memory.js';
import { type Convert, converter } from '../../src/numeric/convert.js';
import type { Kernels } from '../../src/numeric/kernels.js';
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
  return implementationOf(kernels);
}

/** The specification first. */
export const IMPLEMENTATIONS: readonly Implementation[] = [
  { name: 'the specification', converter, scan },
  implementationOf(scriptKernels()),
  simdImplementation(),
  inKernelMemory(simdImplementation()),
];

function implementationOf({ description, converter, scanner }: Kernels): Implementation {
  return { name: description, converter, scan: scanner };
}

/**
 * The same, with all bytes in the memory of the kernels, where nothing is copied. They lie there at odd addresses, between
 * others that would be counted as NaNs and must not be written over.
 */
export function inKernelMemory({ name, converter, scan: scanner }: Implementation): Implementation {
  const around = 67;
  const place = (bytes: Uint8Array, use: (placed: Uint8Array) => void): Uint8Array => {
    const reserved = reserveBytes(bytes.length + 2 * around).fill(0xff);
    if (addressOf(reserved) === undefined) throw new Error('there is no room in the memory of the kernels');
    const placed = reserved.subarray(around, around + bytes.length);
    placed.set(bytes);
    try {
      use(placed);
      const beyond = [...reserved.subarray(0, around), ...reserved.subarray(around + bytes.length)];
      if (beyond.some((byte) => byte !== 0xff)) throw new Error('bytes beyond the output were written to');
      return placed.slice();
    } finally {
      releaseBytes(reserved);
    }
  };
  return {
    name: `${name}, in its memory`,
    converter(from, to, overflow) {
      const convert = converter(from, to, overflow);
      return (input, output, stats) => {
        const kept = place(input, (source) => {
          output.set(place(output, (target) => convert(source, target, stats)));
        });
        if (differs(kept, input)) throw new Error('the input was written to');
      };
    },
    scan(dtype) {
      const count = scanner(dtype);
      return (input, stats) => void place(input, (source) => count(source, stats));
    },
  };
}

function differs(a: Uint8Array, b: Uint8Array): boolean {
  return a.some((byte, i) => byte !== b[i]);
}
