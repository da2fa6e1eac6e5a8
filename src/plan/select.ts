/**
 * Which tensors are written, from which bits, at which dtype.
 *
 * @module
 */

import { bytesOf, DTYPES, isFloat, roundsTo } from '../base/dtype.js';
import { UnshardError } from '../base/errors.js';
import { numelOf } from '../base/shape.js';
import { counted, firstOf } from '../base/words.js';
import type { Inventory, Notice, Proof, SkippedTensor, StoredBits, TensorEntry } from '../checkpoints/inventory.js';
import { takeAdapter } from './adapter.js';
import { saysUntied } from './config.js';
import { leaveOut, unusedPrecisions } from './filter.js';
import { mergeAdapter } from './merge.js';
import { type Candidate, candidatesOf, refuseCollisions, stripPrefix } from './names.js';
import { precisionOf } from './options.js';
import { type OutputKind, type PlannedTensor, type Precision, type ResolvedOptions, TARGETS } from './plan.js';
import { fitVocabulary, isEmbedding } from './vocabulary.js';

/** What is written and what is not. */
export interface Selection {
  readonly tensors: readonly PlannedTensor[];
  /** Tied names that are not written as tensors of their own. */
  readonly aliases: Readonly<Record<string, string>>;
  readonly skipped: readonly SkippedTensor[];
  readonly warnings: readonly Notice[];
  /** True where names that were tied are tensors of their own now, as config.json must say. */
  readonly unties: boolean;
}

/**
 * Applies the options to the tensors of an inventory, one step after another. Every tensor comes out as a tensor, as a
 * tied name, or as skipped.
 *
 * @throws UnshardError of the steps, `names-collide`, and the fault of a tensor that would be written.
 */
export function selectTensors(inventory: Inventory, options: ResolvedOptions): Selection {
  const all = candidatesOf(inventory);
  const named = stripPrefix(all, inventory, options);
  const shaped = OUTPUTS[options.output](named.kept, inventory, options);
  refuseCollisions(shaped.kept);
  const wanted = leaveOut(shaped.kept, options);
  const fitted = fitVocabulary(wanted.kept, inventory, options);
  const faulty = fitted.kept.find(({ entry }) => entry.fault !== undefined)?.entry;
  if (faulty?.fault) throw new UnshardError(faulty.fault);
  const steps = [named, shaped, wanted, fitted];
  const { tensors, aliases } = tie(fitted.kept, options);
  return {
    tensors,
    aliases: Object.fromEntries(aliases),
    skipped: [...inventory.skipped, ...steps.flatMap((step) => step.skipped)],
    warnings: [
      ...steps.flatMap((step) => step.warnings),
      ...unusedPrecisions(fitted.kept, options),
      ...tieWarnings(aliases, inventory, options),
      ...keptWarnings(tensors, options),
    ],
    unties: shaped.unties ?? false,
  };
}

/** The step that makes what is written out of all tensors. */
const OUTPUTS: Readonly<Record<OutputKind, typeof takeAdapter>> = {
  model: (candidates) => ({ kept: candidates, skipped: [], warnings: [] }),
  adapter: takeAdapter,
  merged: mergeAdapter,
};

/** The first name of each tensor owns it; further ones are tied to it, or get a copy. */
function tie(
  candidates: readonly Candidate[],
  options: ResolvedOptions,
): { tensors: PlannedTensor[]; aliases: [string, string][] } {
  // PEFT looks for each tied name of an adapter and knows nothing of names in the metadata.
  const copies = options.duplicateTied || (options.output === 'adapter' && options.format === 'safetensors');
  const names = namesOfEach(candidates);
  const owners = new Map<TensorEntry, PlannedTensor>();
  const tensors: PlannedTensor[] = [];
  const aliases: [string, string][] = [];
  for (const candidate of candidates) {
    const owner = owners.get(candidate.entry);
    if (owner && !copies) {
      aliases.push([candidate.name, owner.name]);
      continue;
    }
    const precision = precisionOf(names.get(candidate.entry) ?? [], options);
    const tensor = owner ? withoutProofs({ ...owner, name: candidate.name }) : planTensor(candidate, precision);
    if (!owner) owners.set(candidate.entry, tensor);
    tensors.push(tensor);
  }
  return { tensors, aliases };
}

function namesOfEach(candidates: readonly Candidate[]): ReadonlyMap<TensorEntry, readonly string[]> {
  const names = new Map<TensorEntry, string[]>();
  for (const { entry, name } of candidates) {
    const known = names.get(entry);
    if (known) known.push(name);
    else names.set(entry, [name]);
  }
  return names;
}

/** The size of a planned tensor in the output, in bytes. */
export function outputBytes(tensor: PlannedTensor): number {
  return numelOf(tensor.shape) * bytesOf(tensor.to);
}

/**
 * The master is the source of bits, unless the output dtype is just the one of the stored copy: rounding the master
 * gives the same bits, and the optimizer's files need not be read.
 */
function planTensor({ name, entry, compute: merged }: Candidate, precision: Precision): PlannedTensor {
  const target = TARGETS[precision];
  const compute = merged ?? (entry.meanOf ? ({ kind: 'mean', of: entry.meanOf } as const) : undefined);
  const isCopied = entry.copy !== undefined && entry.copy.dtype === target && entry.stored.dtype !== target;
  const fromCopy = isCopied && compute === undefined;
  const bits = fromCopy && entry.copy ? entry.copy : entry.stored;
  const proofs = compute ? [] : proofsOf(entry, bits);
  return {
    name,
    shape: entry.shape,
    origin: entry.origin,
    from: bits.dtype,
    to: target !== undefined && isFloat(bits.dtype) ? target : bits.dtype,
    fromCopy,
    ...(bits.flip === undefined ? {} : { flip: bits.flip }),
    pieces: bits.pieces,
    ...(compute ? { compute } : {}),
    ...(proofs.length > 0 ? { proofs } : {}),
  };
}

/**
 * What must equal `bits` once they are rounded: the copy of a master that is read itself, and whatever else is on disk of
 * the same tensor. Bits of less precision cannot prove what has more.
 */
function proofsOf(entry: TensorEntry, bits: StoredBits): Proof[] {
  const copies = entry.copy && bits !== entry.copy ? [{ check: 'master-copy', ...entry.copy }] : [];
  const isNarrower = (proof: Proof) => bits === entry.stored || bytesOf(proof.dtype) <= bytesOf(bits.dtype);
  return [...copies, ...(entry.proofs ?? [])].filter((proof) => isNarrower(proof) && roundsTo(bits.dtype, proof.dtype));
}

/** A tied name has the bits of its owner, which are compared once. */
function withoutProofs({ proofs: _, ...tensor }: PlannedTensor): PlannedTensor {
  return tensor;
}

/** `from_pretrained` ties an embedding and its head only where the configuration says so; else it would make up the head. */
function tieWarnings(
  aliases: readonly (readonly [alias: string, owner: string])[],
  { companions }: Inventory,
  { output, format }: ResolvedOptions,
): Notice[] {
  const tied = aliases.find((names) => names.some((name) => isEmbedding(name)));
  const config = companions.find(({ name }) => name === 'config.json');
  if (!tied || output === 'adapter' || format === 'bin' || !saysUntied(config?.text)) return [];
  const message = `${tied[0]} is tied to ${tied[1]} and written once, but config.json says that tie_word_embeddings is false: from_pretrained would not load it. Write a copy under each name, or correct config.json.`;
  return [{ code: 'tied-by-no-config', message }];
}

/** Floating-point tensors of 8 bits carry a scale elsewhere, so they are never converted; the user should know. */
function keptWarnings(tensors: readonly PlannedTensor[], options: ResolvedOptions): Notice[] {
  if (options.dtype === 'keep') return [];
  const kept = tensors.filter((tensor) => DTYPES[tensor.to].kind === 'float8');
  const [first] = kept;
  if (!first) return [];
  const message = `Kept as stored, since the scale of 8-bit floats is stored apart: ${counted(kept.length, 'tensor')} (${firstOf(kept)}).`;
  return [{ code: 'float8-kept', message }];
}
