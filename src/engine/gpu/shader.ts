/**
 * The WGSL of each conversion, put together from the files of `shaders/`.
 *
 * @module
 */

import bf16ToF32 from '../../../shaders/bf16_to_f32.wgsl?raw';
import f16ToF32 from '../../../shaders/f16_to_f32.wgsl?raw';
import f32ToBf16 from '../../../shaders/f32_to_bf16.wgsl?raw';
import f32ToF16 from '../../../shaders/f32_to_f16.wgsl?raw';
import f64ToF32 from '../../../shaders/f64_to_f32.wgsl?raw';
import gather from '../../../shaders/gather.wgsl?raw';
import roundToEven from '../../../shaders/round_to_even.wgsl?raw';
import { bytesOf, type FloatDType, type TargetDType } from '../../base/dtype.js';
import { LIMITS } from '../../numeric/limits.js';
import type { ConvertJob } from '../backend.js';
import type { Alignment } from './batches.js';

/** Invocations of a workgroup: a multiple of the width of every GPU, and half of what WebGPU allows at least. */
const WORKGROUP_SIZE = 128;

/** Octets that one invocation converts: enough to pay for what it does once. */
const RUN_OCTETS = 16;

/** Elements that one workgroup converts: so many that no buffer needs more workgroups than one dimension takes. */
export const WORKGROUP_ELEMENTS = WORKGROUP_SIZE * RUN_OCTETS * 8;

/** Words of the piece table before its pieces, and of each piece. */
export const TABLE_HEADER = 4;
export const TABLE_PIECE = 3;

/** Words of the tally before its slots, and of each slot. */
export const TALLY_HEADER = 2;
export const TALLY_SLOT = 5;

/** The code of one conversion. Its entry point is `main`. */
export function shaderCode(from: FloatDType, to: TargetDType): string {
  const widen = WIDEN[from];
  const narrow = NARROW[to];
  return [
    roundToEven,
    widen.code,
    narrow.code,
    `fn widen(low: vec4<u32>, high: vec4<u32>) -> vec4<u32> { return ${widen.call}; }`,
    `fn narrow(word: vec4<u32>) -> vec4<u32> { return ${narrow.call}; }`,
    gather,
  ].join('\n');
}

/** Values of the `override` constants of `gather.wgsl`. */
export function shaderConstants(
  { from, to, overflow }: Pick<ConvertJob, 'from' | 'to' | 'overflow'>,
  alignment: Alignment,
): Record<string, number> {
  return {
    ELEMENT_BYTES: bytesOf(from),
    RESULT_BYTES: bytesOf(to),
    OVERFLOW_FROM: LIMITS[to].overflowFrom,
    UNDERFLOW_BELOW: LIMITS[to].underflowBelow,
    CLAMP: overflow === 'clamp' ? 1 : 0,
    WORKGROUP_SIZE,
    RUN_OCTETS,
    ALIGNMENT: alignment,
  };
}

interface Step {
  /** Files that the call needs. */
  readonly code: string;
  readonly call: string;
}

const WIDEN: Readonly<Record<FloatDType, Step>> = {
  F16: { code: f16ToF32, call: 'f16ToF32(low)' },
  BF16: { code: bf16ToF32, call: 'bf16ToF32(low)' },
  F32: { code: '', call: 'low' },
  F64: { code: f64ToF32, call: 'f64ToF32(low, high)' },
};

const NARROW: Readonly<Record<TargetDType, Step>> = {
  F16: { code: f32ToF16, call: 'f32ToF16(word)' },
  BF16: { code: f32ToBf16, call: 'f32ToBf16(word)' },
  F32: { code: '', call: 'word' },
};
