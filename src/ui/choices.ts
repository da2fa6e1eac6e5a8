/**
 * The options as the controls of the page hold them, and their way into plan options.
 *
 * @module
 */

import { parseSize } from '../base/size.js';
import type { LoraOptions, OutputFormat, OutputKind, OverflowPolicy, PlanOptions, Precision } from '../index.js';
import type { BackendChoice, CheckpointView } from '../worker/protocol.js';

/** The sizes that the page offers, in bytes, besides one file and a size of the user's own. */
export const SHARD_SIZES = [500_000_000, 2_000_000_000, 5_000_000_000] as const;

/** The precision of the tensors whose names match a pattern. */
export interface PrecisionRule {
  readonly pattern: string;
  readonly dtype: Precision;
}

/** Every choice of the plan stage. */
export interface Choices {
  readonly output: OutputKind;
  /** Empty where there is only one adapter, or none. */
  readonly adapterName: string;
  /** `lora_alpha` as it was typed, where adapter_config.json is lost; undefined where nobody was asked for it. */
  readonly loraAlpha: string | undefined;
  /** `r` beside it as it was typed; empty for the rank that the matrices show. */
  readonly loraR: string;
  /** `use_rslora` beside it. */
  readonly loraRslora: boolean;
  readonly dtype: Precision;
  /** A rule whose pattern is empty is not finished, and says nothing yet. */
  readonly dtypeFor: readonly PrecisionRule[];
  readonly format: OutputFormat;
  /** `none`, one of `SHARD_SIZES` in digits, or `custom`. */
  readonly shardSize: string;
  /** What the user typed for `custom`. */
  readonly customSize: string;
  readonly excludeFrozen: boolean;
  readonly trainableOnly: boolean;
  /** Patterns as they were typed, one a line. */
  readonly include: string;
  readonly exclude: string;
  /** Empty for none. */
  readonly stripPrefix: string;
  readonly trimVocab: boolean;
  readonly duplicateTied: boolean;
  readonly overflow: OverflowPolicy;
  readonly verify: boolean;
  /** Take the SHA-256 of each file. */
  readonly sha256: boolean;
  readonly backend: BackendChoice;
}

/** What the page starts with. */
export const DEFAULT_CHOICES: Choices = {
  output: 'model',
  adapterName: '',
  loraAlpha: undefined,
  loraR: '',
  loraRslora: false,
  dtype: 'fp32',
  dtypeFor: [],
  format: 'safetensors',
  shardSize: 'none',
  customSize: '4 GB',
  excludeFrozen: false,
  trainableOnly: false,
  include: '',
  exclude: '',
  stripPrefix: '',
  trimVocab: false,
  duplicateTied: false,
  overflow: 'error',
  verify: true,
  sha256: false,
  backend: 'auto',
};

/** The choices as far as a checkpoint offers them: what needs an adapter falls back where that adapter is not there. */
export function choicesFor(choices: Choices, { adapters }: Pick<CheckpointView, 'adapters'>): Choices {
  const [first = '', second] = adapters;
  const named = adapters.includes(choices.adapterName) ? choices.adapterName : first;
  return {
    ...choices,
    output: first === '' ? 'model' : choices.output,
    adapterName: second === undefined ? '' : named,
    loraAlpha: first === '' ? undefined : choices.loraAlpha,
  };
}

/**
 * The plan options of the choices, or undefined while a size or a number that was typed is none. What says nothing for the
 * kind of output is left out.
 */
export function planOptions(choices: Choices): PlanOptions | undefined {
  const { output, dtype, format, excludeFrozen, trainableOnly, trimVocab, duplicateTied, overflow } = choices;
  const isAdapter = output === 'adapter';
  const size = isAdapter ? null : shardSize(choices);
  const lora = loraOf(choices);
  if (size === undefined || Number.isNaN(lora?.alpha) || Number.isNaN(lora?.r)) return undefined;
  return {
    output,
    dtype,
    format,
    excludeFrozen,
    trainableOnly,
    trimVocab: trimVocab && !isAdapter,
    duplicateTied,
    overflow,
    include: lines(choices.include),
    exclude: lines(choices.exclude),
    dtypeFor: choices.dtypeFor
      .map(({ pattern, dtype }) => ({ pattern: pattern.trim(), dtype }))
      .filter(({ pattern }) => pattern !== ''),
    ...(choices.stripPrefix === '' ? {} : { stripPrefix: choices.stripPrefix }),
    ...(output === 'model' || choices.adapterName === '' ? {} : { adapterName: choices.adapterName }),
    ...(lora === undefined ? {} : { lora }),
    ...(size === null ? {} : { maxShardSize: size }),
  };
}

/**
 * How the adapter is scaled, undefined where `lora_alpha` is not given or says nothing for the kind of output. A text that
 * cannot be taken is NaN.
 */
export function loraOf({
  output,
  loraAlpha = '',
  loraR,
  loraRslora,
}: Pick<Choices, 'output' | 'loraAlpha' | 'loraR' | 'loraRslora'>): LoraOptions | undefined {
  if (output !== 'merged' || loraAlpha.trim() === '') return undefined;
  const alpha = Number(loraAlpha);
  const r = Number(loraR);
  return {
    alpha: alpha > 0 && Number.isFinite(alpha) ? alpha : Number.NaN,
    ...(loraR.trim() === '' ? {} : { r: r > 0 && Number.isSafeInteger(r) ? r : Number.NaN }),
    ...(loraRslora ? { rslora: true } : {}),
  };
}

/** In bytes; null for one file, undefined for a text that is no size. */
function shardSize({ shardSize, customSize }: Choices): number | null | undefined {
  if (shardSize === 'none') return null;
  return shardSize === 'custom' ? parseSize(customSize) : Number(shardSize);
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}
