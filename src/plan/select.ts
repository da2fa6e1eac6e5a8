/**
 * Which tensors are written, from which bits, at which dtype.
 *
 * @module
 */

import { bytesOf, DTYPES, isFloat } from '../base/dtype.js';
import { numelOf } from '../base/shape.js';
import type { Inventory, Notice, SkippedTensor, TensorEntry } from '../checkpoints/inventory.js';
import { precisionOf } from './options.js';
import { type PlannedTensor, type ResolvedOptions, TARGETS } from './plan.js';

/** What is written and what is not. */
export interface Selection {
  readonly tensors: readonly PlannedTensor[];
  /** Tied names that are not written as tensors of their own. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly skipped: readonly SkippedTensor[];
  readonly warnings: readonly Notice[];
}

/** Applies the options to the tensors of an inventory. */
export function selectTensors(inventory: Inventory, options: ResolvedOptions): Selection {
  const skipped: SkippedTensor[] = [...inventory.skipped];
  const written = new Map<string, PlannedTensor>();
  for (const entry of inventory.tensors) {
    if (options.excludeFrozen && entry.origin === 'frozen') {
      skipped.push({ name: entry.name, reason: 'frozen parameter, left out as asked' });
    } else {
      written.set(entry.name, planTensor(entry, options));
    }
  }
  const tensors = [...written.values()];
  const aliases: [string, string][] = [];
  for (const [alias, owner] of Object.entries(inventory.aliases)) {
    const tensor = written.get(owner);
    if (!tensor) skipped.push({ name: alias, reason: `tied to ${owner}, which is left out` });
    else if (options.duplicateTied) tensors.push({ ...tensor, name: alias });
    else aliases.push([alias, owner]);
  }
  return { tensors, aliases: Object.fromEntries(aliases), skipped, warnings: keptWarnings(tensors, options) };
}

/** The size of a planned tensor in the output, in bytes. */
export function outputBytes(tensor: PlannedTensor): number {
  return numelOf(tensor.shape) * bytesOf(tensor.to);
}

/**
 * The master is the source of bits, unless the output dtype is just the one of the stored copy: rounding the master
 * gives the same bits, and the optimizer's files need not be read.
 */
function planTensor(entry: TensorEntry, options: ResolvedOptions): PlannedTensor {
  const target = TARGETS[precisionOf(entry.name, options)];
  const fromCopy = entry.copy !== undefined && entry.copy.dtype === target && entry.stored.dtype !== target;
  const bits = fromCopy && entry.copy ? entry.copy : entry.stored;
  return {
    name: entry.name,
    shape: entry.shape,
    origin: entry.origin,
    from: bits.dtype,
    to: target !== undefined && isFloat(bits.dtype) ? target : bits.dtype,
    fromCopy,
    ...(bits.flip === undefined ? {} : { flip: bits.flip }),
    pieces: bits.pieces,
  };
}

/** Floating-point tensors of 8 bits carry a scale elsewhere, so they are never converted; the user should know. */
function keptWarnings(tensors: readonly PlannedTensor[], options: ResolvedOptions): Notice[] {
  if (options.dtype === 'keep') return [];
  const kept = tensors.filter((tensor) => DTYPES[tensor.to].kind === 'float8');
  const [first] = kept;
  if (!first) return [];
  const message = `${kept.length} tensors of 8-bit floats stay as they are (${first.name}, …): their scale is stored apart.`;
  return [{ code: 'float8-kept', message }];
}
