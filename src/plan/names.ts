/**
 * Tensors on their way into a plan, by the name that they will have: taken from the inventory, with a prefix stripped
 * where that was asked for, and no two of the same name.
 *
 * @module
 */

import { UnshardError } from '../base/errors.js';
import { counted } from '../base/words.js';
import type { Inventory, Notice, SkippedTensor, TensorEntry } from '../checkpoints/inventory.js';
import type { Compute, ResolvedOptions } from './plan.js';

/** A name of the output, and the tensor behind it. Tied names share one entry. */
export interface Candidate {
  readonly name: string;
  /** Name in the checkpoint. */
  readonly source: string;
  readonly entry: TensorEntry;
  /** Present where an adapter is merged into the tensor. */
  readonly compute?: Compute;
}

/** What a step makes of the candidates. Every one that it was given is kept or skipped. */
export interface Step {
  readonly kept: readonly Candidate[];
  readonly skipped: readonly SkippedTensor[];
  readonly warnings: readonly Notice[];
  /** True where names that were tied are tensors of their own now. */
  readonly unties?: boolean;
}

/** Prefixes that wrappers put before all names: data parallelism, Lightning, torch.compile. */
const WRAPPERS = ['module.', '_forward_module.', '_orig_mod.'] as const;

/** A prefix that could be stripped, shown on one name. */
export interface PrefixOffer {
  readonly prefix: string;
  readonly before: string;
  readonly after: string;
}

/** All tensors, then all tied names. */
export function candidatesOf(inventory: Inventory): Candidate[] {
  const entries = new Map(inventory.tensors.map((entry) => [entry.name, entry]));
  const tied = Object.entries(inventory.aliases).flatMap(([alias, owner]): Candidate[] => {
    const entry = entries.get(owner);
    return entry ? [{ name: alias, source: alias, entry }] : [];
  });
  return [...inventory.tensors.map((entry) => ({ name: entry.name, source: entry.name, entry })), ...tied];
}

/** The longest row of wrapper prefixes that every name of a checkpoint starts with; undefined for none. */
export function offeredPrefix(inventory: Inventory): PrefixOffer | undefined {
  const names = candidatesOf(inventory).map(({ name }) => name);
  const [before] = names;
  if (before === undefined) return undefined;
  let prefix = '';
  const shared = (more: string) =>
    names.every((name) => name.startsWith(prefix + more) && name.length > (prefix + more).length);
  for (let next = WRAPPERS.find(shared); next !== undefined; next = WRAPPERS.find(shared)) prefix += next;
  return prefix === '' ? undefined : { prefix, before, after: before.slice(prefix.length) };
}

/**
 * Strips the prefix that was asked for from the names that have it. A prefix is never stripped unasked: one that could be
 * is told in a warning.
 *
 * @throws UnshardError `prefix-absent` where no name has the prefix.
 */
export function stripPrefix(candidates: readonly Candidate[], inventory: Inventory, options: ResolvedOptions): Step {
  const prefix = options.stripPrefix;
  if (prefix === undefined) {
    const offer = options.output === 'model' ? offeredPrefix(inventory) : undefined;
    return { kept: candidates, skipped: [], warnings: offer ? [offerNotice(offer, candidates.length)] : [] };
  }
  if (!candidates.some(({ name }) => name.startsWith(prefix))) throw prefixAbsent(prefix, candidates);
  const strip = (name: string) => (name.startsWith(prefix) ? name.slice(prefix.length) : name);
  return {
    kept: candidates.map((candidate) => ({ ...candidate, name: strip(candidate.name) })),
    skipped: [],
    warnings: [],
  };
}

/**
 * Refuses names that have become equal.
 *
 * @throws UnshardError `names-collide`.
 */
export function refuseCollisions(candidates: readonly Candidate[]): void {
  const sources = new Map<string, string>();
  for (const { name, source } of candidates) {
    const other = sources.get(name);
    if (other !== undefined) throw collision(name, other, source);
    sources.set(name, source);
  }
}

function offerNotice({ prefix, before, after }: PrefixOffer, count: number): Notice {
  const message = `Every name (${count} of them) starts with ${prefix}, which a wrapper has put there. Stripped of it, ${before} would be ${after}; it stays unless you ask.`;
  return { code: 'prefix-offered', message };
}

function prefixAbsent(prefix: string, candidates: readonly Candidate[]): UnshardError {
  const found = candidates[0]?.name ?? '';
  return new UnshardError({
    kind: 'usage',
    code: 'prefix-absent',
    message: `None of the ${counted(candidates.length, 'name')} starts with ${prefix}; the first is ${found}.`,
    advice: 'Change the prefix to strip, or leave it out.',
    facts: { expected: prefix, found },
  });
}

function collision(name: string, first: string, second: string): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'names-collide',
    message: `${first} and ${second} would both be named ${name}.`,
    advice: 'Strip another prefix or none, or write all tensors under their own names.',
    facts: { tensor: name, expected: first, found: second },
  });
}
