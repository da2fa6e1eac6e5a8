/**
 * Where a target dtype ends, as fp32 magnitudes (words without their sign): every value is compared after it has been
 * brought to fp32.
 *
 * @module
 */

import type { TargetDType } from '../base/dtype.js';

/** The ends of one dtype's range. */
export interface Limits {
  /** The smallest magnitude that becomes infinity. */
  readonly overflowFrom: number;
  /** The smallest magnitude that does not become zero. */
  readonly underflowBelow: number;
}

/** The fp32 magnitude of infinity; NaNs are above it. */
export const F32_INFINITY = 0x7f800000;

/** The ends of every target. Half of the smallest fp16 or bf16 is a tie and becomes zero; the next value does not. */
export const LIMITS: Readonly<Record<TargetDType, Limits>> = {
  F16: { overflowFrom: 0x477ff000, underflowBelow: 0x33000001 },
  BF16: { overflowFrom: 0x7f7f8000, underflowBelow: 0x00008001 },
  F32: { overflowFrom: F32_INFINITY, underflowBelow: 0x00000001 },
};

/** The limits of a copy, which holds every value. */
export const NO_LIMITS: Limits = { overflowFrom: Number.POSITIVE_INFINITY, underflowBelow: 0 };
