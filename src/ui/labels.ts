/**
 * Names for people of what the library calls by short names.
 *
 * @module
 */

import type { DType, Layout, Origin, Precision } from '../index.js';
import type { BackendChoice } from '../worker/protocol.js';

/** Layouts of checkpoints. */
export const LAYOUTS: Readonly<Record<Layout, string>> = {
  'deepspeed-zero0': 'DeepSpeed stage 0',
  'deepspeed-zero1': 'ZeRO stage 1',
  'deepspeed-zero2': 'ZeRO stage 2',
  'deepspeed-zero3': 'ZeRO stage 3',
  'deepspeed-universal': 'Universal checkpoint',
};

/** Where the bits of a tensor come from. */
export const ORIGINS: Readonly<Record<Origin, string>> = {
  master: 'master',
  copy: 'copy of a lost master',
  module: 'model file',
  frozen: 'frozen',
  buffer: 'buffer',
};

/** Precisions of the output. */
export const PRECISIONS: readonly (readonly [Precision, string])[] = [
  ['fp32', 'fp32'],
  ['fp16', 'fp16'],
  ['bf16', 'bf16'],
  ['keep', 'as stored'],
];

/** Ways to convert. */
export const BACKENDS: Readonly<Record<BackendChoice, string>> = { auto: 'Automatic', gpu: 'GPU', cpu: 'CPU' };

/** A dtype as people write it: `fp32`, `bf16`, `int64`. */
export function dtypeLabel(dtype: DType): string {
  if (dtype === 'BOOL') return 'bool';
  if (dtype === 'BF16') return 'bf16';
  return dtype
    .toLowerCase()
    .replace(/^f(?=\d)/, 'fp')
    .replace(/^i(?=\d)/, 'int')
    .replace(/^u(?=\d)/, 'uint')
    .replace(/^c(?=\d)/, 'complex');
}
