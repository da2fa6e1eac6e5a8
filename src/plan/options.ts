import { UnshardError } from '../base/errors.js';
import type { PlanOptions, Precision, ResolvedOptions } from './plan.js';
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
    dtype: oneOf('dtype', options.dtype ?? 'fp32', Object.keys(TARGETS) as Precision[]),
    format: oneOf('format', options.format ?? 'safetensors', ['safetensors', 'bin']),
    excludeFrozen: options.excludeFrozen ?? false,
    duplicateTied: options.duplicateTied ?? false,
    overflow: oneOf('overflow', options.overflow ?? 'error', ['error', 'inf', 'clamp']),
    dtypeFor: (options.dtypeFor ?? []).map(({ pattern, dtype }) => ({
      pattern,
      dtype: oneOf('dtypeFor', dtype, Object.keys(TARGETS) as Precision[]),
    })),
  };
  const size = options.maxShardSize;
  if (size === undefined) return resolved;
  if (!Number.isSafeInteger(size) || size < MIN_SHARD_SIZE) {
    throw badOption('maxShardSize', `a whole number of bytes from ${MIN_SHARD_SIZE}`, size);
  }
  return { ...resolved, maxShardSize: size };
}

/** The precision of one tensor: the first pattern that matches its name decides. */
export function precisionOf(name: string, options: ResolvedOptions): Precision {
  return options.dtypeFor.find(({ pattern }) => matches(pattern, name))?.dtype ?? options.dtype;
}

/** Matches a name with a pattern in which `*` stands for any characters. The whole name must match. */
export function matches(pattern: string, name: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  if (rest.length === 0) return pattern === name;
  const last = rest.pop() ?? '';
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
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
