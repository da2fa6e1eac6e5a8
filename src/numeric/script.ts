/**
 * The kernels for where there is no WebAssembly: the specification, in JavaScript.
 *
 * @module
 */

import { bytesOf } from '../base/dtype.js';
import { converter } from './convert.js';
import { BLOCK_ELEMENTS, type Kernels } from './kernels.js';
import { scan } from './scan.js';

/** Makes the kernels and their memory. */
export function scriptKernels(): Kernels {
  const input = new Uint8Array(BLOCK_ELEMENTS * bytesOf('F64'));
  const results = new Uint8Array(BLOCK_ELEMENTS * bytesOf('F32'));
  return {
    description: 'JavaScript',
    input,
    converter(from, to, overflow) {
      const convert = converter(from, to, overflow);
      return (length, stats) => {
        const output = results.subarray(0, (length / bytesOf(from)) * bytesOf(to));
        convert(input.subarray(0, length), output, stats);
        return output;
      };
    },
    scanner(dtype) {
      const count = scan(dtype);
      return (length, stats) => count(input.subarray(0, length), stats);
    },
  };
}
