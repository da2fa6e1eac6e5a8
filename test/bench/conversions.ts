import type { Conversion } from '../../src/engine/calibrate.js';

/** The conversions between the dtypes of a training and of an output. */
export const CONVERSIONS: readonly Conversion[] = [
  { from: 'F32', to: 'BF16' },
  { from: 'F32', to: 'F16' },
  { from: 'BF16', to: 'F32' },
  { from: 'F16', to: 'F32' },
  { from: 'BF16', to: 'F16' },
  { from: 'F16', to: 'BF16' },
];

/** What converts: the kernels of the CPU, in WebAssembly and as they are specified, and the shaders. */
export type Converter = 'WebAssembly' | 'JavaScript' | 'GPU adapter';
