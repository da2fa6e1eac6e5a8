/**
 * The options as the controls of the page hold them, and their way into plan options.
 *
 * @module
 */

import { parseSize } from '../base/size.js';
import type { OutputFormat, OverflowPolicy, PlanOptions, Precision } from '../index.js';
import type { BackendChoice } from '../worker/protocol.js';

/** The sizes that the page offers, in bytes, besides one file and a size of the user's own. */
export const SHARD_SIZES = [500_000_000, 2_000_000_000, 5_000_000_000] as const;

/** Every choice of the plan stage. */
export interface Choices {
  readonly dtype: Precision;
  readonly format: OutputFormat;
  /** `none`, one of `SHARD_SIZES` in digits, or `custom`. */
  readonly shardSize: string;
  /** What the user typed for `custom`. */
  readonly customSize: string;
  readonly excludeFrozen: boolean;
  readonly duplicateTied: boolean;
  readonly overflow: OverflowPolicy;
  readonly backend: BackendChoice;
}

/** What the page starts with. */
export const DEFAULT_CHOICES: Choices = {
  dtype: 'fp32',
  format: 'safetensors',
  shardSize: 'none',
  customSize: '4 GB',
  excludeFrozen: false,
  duplicateTied: false,
  overflow: 'error',
  backend: 'auto',
};

/** The plan options of the choices, or undefined while the size that was typed is none. */
export function planOptions(choices: Choices): PlanOptions | undefined {
  const { dtype, format, excludeFrozen, duplicateTied, overflow } = choices;
  const options = { dtype, format, excludeFrozen, duplicateTied, overflow };
  if (choices.shardSize === 'none') return options;
  const maxShardSize = choices.shardSize === 'custom' ? parseSize(choices.customSize) : Number(choices.shardSize);
  return maxShardSize === undefined ? undefined : { ...options, maxShardSize };
}
