/**
 * adapter_config.json: what PEFT must know of an adapter beside its weights. Field names are PEFT's.
 *
 * @module
 */

import { type ErrorDetail, isUnshardError, UnshardError } from '../base/errors.js';
import { type PythonPattern, pythonPattern } from '../checkpoints/deepspeed/python-pattern.js';
import type { Companion, Inventory } from '../checkpoints/inventory.js';
import type { LoraOptions } from './plan.js';

/** The part of a LoRA configuration that decides which tensors belong to the adapter and how it is merged. */
export interface LoraConfig {
  /** Path of the file, for errors; where there is none, what stands for it. */
  readonly file: string;
  readonly bias: 'none' | 'all' | 'lora_only';
  /** Undefined where nothing says it: then the matrices of each layer show its rank. */
  readonly r: number | undefined;
  readonly alpha: number;
  /** Ranks of single layers. */
  readonly rankPattern: ReadonlyMap<string, number>;
  /** Values of alpha for single layers. */
  readonly alphaPattern: ReadonlyMap<string, number>;
  readonly rslora: boolean;
  /** True where weights are stored with their input dimension first. Undefined where nothing says it. */
  readonly fanInFanOut: boolean | undefined;
  /** What the adapter does beyond plain LoRA. */
  readonly variants: readonly string[];
}

/** Fields that turn an adapter into something that `W + scale * B x A` does not describe. */
const VARIANTS: Readonly<Record<string, string>> = {
  use_dora: 'DoRA (use_dora)',
  use_qalora: 'QALoRA (use_qalora)',
  use_bdlora: 'block-diagonal LoRA (use_bdlora)',
  velora_config: 'VeLoRA (velora_config)',
  monteclora_config: 'MonteCLoRA (monteclora_config)',
  arrow_config: 'Arrow (arrow_config)',
  kasa_config: 'KaSA (kasa_config)',
  alora_invocation_tokens: 'activated LoRA (alora_invocation_tokens)',
  trainable_token_indices: 'trainable tokens (trainable_token_indices)',
  layer_replication: 'replicated layers (layer_replication)',
  target_parameters: 'LoRA on parameters (target_parameters)',
  lora_bias: 'biases in lora_B (lora_bias)',
};

/** The file that describes an adapter; undefined where there is none beside the checkpoint. */
export function adapterCompanion(inventory: Inventory, adapter: string): Companion | undefined {
  const configs = inventory.companions.filter((companion) => companion.adapter !== undefined);
  // A run that calls its only adapter something else may still have its configuration in the folder itself.
  return configs.find((companion) => companion.adapter === adapter) ?? (configs.length === 1 ? configs[0] : undefined);
}

/**
 * Reads the configuration of an adapter.
 *
 * @throws UnshardError `adapter-config-bad` for a file that is no LoRA configuration; `adapter-kind` for another kind of
 * adapter.
 */
export function readLoraConfig(inventory: Inventory, companion: Companion): LoraConfig {
  const file = inventory.sources[companion.source]?.path ?? companion.name;
  const fields = parseObject(file, companion.text);
  const kind = fields.get('peft_type');
  if (kind !== 'LORA') throw wrongKind(file, kind);
  const number = (field: string) => positive(file, field, fields.get(field));
  const bias = fields.get('bias') ?? 'none';
  if (bias !== 'none' && bias !== 'all' && bias !== 'lora_only')
    throw bad(file, 'bias', 'none, all or lora_only', bias);
  return {
    file,
    bias,
    r: number('r'),
    alpha: number('lora_alpha'),
    rankPattern: pattern(file, 'rank_pattern', fields.get('rank_pattern')),
    alphaPattern: pattern(file, 'alpha_pattern', fields.get('alpha_pattern')),
    rslora: fields.get('use_rslora') === true,
    fanInFanOut: fields.get('fan_in_fan_out') === true,
    variants: Object.entries(VARIANTS).flatMap(([field, name]) => (isSet(fields.get(field)) ? [name] : [])),
  };
}

/** The configuration that options stand for. What they do not say has the default of PEFT. */
export function givenLoraConfig({ alpha, r, rslora = false }: LoraOptions): LoraConfig {
  return {
    ...{ file: 'the options', bias: 'none', r, alpha, rslora, fanInFanOut: undefined, variants: [] },
    ...{ rankPattern: new Map(), alphaPattern: new Map() },
  };
}

/**
 * What gives alpha of a layer, named as in the base model: the first pattern that fits the end of its name, else the
 * general one. As `get_pattern_key` of PEFT has it, where patterns are regular expressions.
 *
 * @throws UnshardError `adapter-pattern` for a pattern that is not read.
 */
export function alphas(config: LoraConfig): (layer: string) => number {
  const patterns = [...config.alphaPattern].map(([key, alpha]) => ({ pattern: patternOf(config.file, key), alpha }));
  return (layer) => patterns.find(({ pattern }) => pattern.matches(layer))?.alpha ?? config.alpha;
}

function patternOf(file: string, key: string): PythonPattern {
  try {
    return pythonPattern(`(.*\\.)?(${key})$`, file);
  } catch (cause) {
    if (!isUnshardError(cause, 'unsupported')) throw cause;
    const detail: ErrorDetail = {
      kind: 'unsupported',
      code: 'adapter-pattern',
      message: `${file}: the key ${JSON.stringify(key)} of alpha_pattern is a regular expression that Unshard does not read.`,
      advice: 'Write the adapter alone and merge it with PEFT, or name the layers one by one in alpha_pattern.',
      facts: { file, found: key },
    };
    throw new UnshardError(detail, { cause });
  }
}

function parseObject(file: string, text: string | undefined): ReadonlyMap<string, unknown> {
  try {
    const value: unknown = JSON.parse(text ?? '');
    if (isRecord(value)) return new Map(Object.entries(value));
  } catch {
    // Told below, with the name of the file.
  }
  throw bad(file, 'the text', 'a JSON object', text?.slice(0, 80) ?? 'too long');
}

function pattern(file: string, field: string, value: unknown): ReadonlyMap<string, number> {
  if (value === undefined || value === null) return new Map();
  if (!isRecord(value)) throw bad(file, field, 'an object', value);
  return new Map(Object.entries(value).map(([key, number]) => [key, positive(file, `${field}.${key}`, number)]));
}

function positive(file: string, field: string, value: unknown): number {
  if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return value;
  throw bad(file, field, 'a positive number', value);
}

/** What Python takes for true: a setting that is there and says something. */
function isSet(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return isRecord(value) ? Object.keys(value).length > 0 : Boolean(value);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function bad(file: string, field: string, expected: string, value: unknown): UnshardError {
  const found = (typeof value === 'string' ? value : (JSON.stringify(value) ?? 'absent')).slice(0, 80);
  return new UnshardError({
    kind: 'bad-file',
    code: 'adapter-config-bad',
    message: `${file}: ${field} must be ${expected}; it is ${found}.`,
    advice: 'Copy the file again from the output folder of the run.',
    facts: { file, field, expected, found },
  });
}

function wrongKind(file: string, kind: unknown): UnshardError {
  const found = typeof kind === 'string' ? kind : 'absent';
  return new UnshardError({
    kind: 'unsupported',
    code: 'adapter-kind',
    message: `${file} describes an adapter of the kind ${found}; LORA is read.`,
    advice: 'Write all tensors under their own names instead, and load them with PEFT.',
    facts: { file, expected: 'LORA', found },
  });
}
