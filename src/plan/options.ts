import { UnshardError } from '../base/errors.js';
import { matches } from '../base/glob.js';
import type { LoraOptions, PlanOptions, Precision, ResolvedOptions } from './plan.js';
import { TARGETS } from './plan.js';

/** Smallest shard size that is taken: a shard of a few bytes is a typing error, not a wish. */
const MIN_SHARD_SIZE = 1000;

/**
 * Fills in every default and checks what was given.
 *
 * @throws UnshardError `option-bad` of kind `usage`.
 */
export function resolveOptions(options: PlanOptions): ResolvedOptions {
  const resolved: ResolvedOptions = {
    output: oneOf('output', options.output ?? 'model', ['model', 'adapter', 'merged']),
    dtype: oneOf('dtype', options.dtype ?? 'fp32', Object.keys(TARGETS) as Precision[]),
    format: oneOf('format', options.format ?? 'safetensors', ['safetensors', 'bin']),
    excludeFrozen: options.excludeFrozen ?? false,
    trainableOnly: options.trainableOnly ?? false,
    include: patterns('include', options.include),
    exclude: patterns('exclude', options.exclude),
    trimVocab: options.trimVocab ?? false,
    duplicateTied: options.duplicateTied ?? false,
    overflow: oneOf('overflow', options.overflow ?? 'error', ['error', 'inf', 'clamp']),
    dtypeFor: (options.dtypeFor ?? []).map(({ pattern, dtype }) => ({
      pattern,
      dtype: oneOf('dtypeFor', dtype, Object.keys(TARGETS) as Precision[]),
    })),
    ...(options.adapterName === undefined ? {} : { adapterName: notEmpty('adapterName', options.adapterName) }),
    ...(options.lora === undefined ? {} : { lora: loraOptions(options.lora) }),
    ...(options.stripPrefix === undefined ? {} : { stripPrefix: notEmpty('stripPrefix', options.stripPrefix) }),
    ...(options.maxShardSize === undefined ? {} : { maxShardSize: shardSize(options.maxShardSize) }),
  };
  refuseContradictions(resolved);
  return resolved;
}

/** Options that say nothing for the kind of output are refused: a user who gives one expects something of it. */
function refuseContradictions({ output, adapterName, lora, trimVocab, maxShardSize }: ResolvedOptions): void {
  if (output !== 'merged' && lora !== undefined) throw badOption('lora', 'absent where nothing is merged', 'given');
  if (output === 'model' && adapterName !== undefined)
    throw badOption('adapterName', 'absent where no adapter is written or merged', adapterName);
  if (output !== 'adapter') return;
  if (trimVocab) throw badOption('trimVocab', 'false for an adapter', 'true');
  if (maxShardSize !== undefined)
    throw badOption('maxShardSize', 'absent for an adapter, which is one file', maxShardSize);
}

/** The precision of one tensor: the first pattern that matches one of its names, of which tied weights have several, decides. */
export function precisionOf(names: readonly string[], options: ResolvedOptions): Precision {
  const rule = options.dtypeFor.find(({ pattern }) => names.some((name) => matches(pattern, name)));
  return rule?.dtype ?? options.dtype;
}

function loraOptions({ alpha, r, rslora }: LoraOptions): LoraOptions {
  if (!(alpha > 0 && Number.isFinite(alpha))) throw badOption('lora.alpha', 'a positive number', alpha);
  if (r !== undefined && !(Number.isSafeInteger(r) && r > 0)) throw badOption('lora.r', 'a whole number from 1', r);
  return { alpha, ...(r === undefined ? {} : { r }), ...(rslora === undefined ? {} : { rslora }) };
}

function shardSize(size: number): number {
  if (Number.isSafeInteger(size) && size >= MIN_SHARD_SIZE) return size;
  throw badOption('maxShardSize', `a whole number of bytes from ${MIN_SHARD_SIZE}`, size);
}

/** An empty pattern matches nothing, so it can only be a mistake. */
function patterns(option: string, given: readonly string[] = []): readonly string[] {
  return given.map((pattern) => notEmpty(option, pattern));
}

function notEmpty(option: string, value: string): string {
  if (value !== '') return value;
  throw badOption(option, 'some text', "''");
}

function oneOf<T extends string>(option: string, value: T, allowed: readonly T[]): T {
  if (allowed.includes(value)) return value;
  throw badOption(option, `one of ${allowed.join(', ')}`, value);
}

function badOption(option: string, expected: string, found: string | number): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'option-bad',
    message: `${option} must be ${expected}; it is ${found}.`,
    advice: 'Change the option.',
    facts: { option, expected, found },
  });
}
