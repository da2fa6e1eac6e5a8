/**
 * Tensor parallelism: every rank holds a shard of each parameter. Joined as the rules say; what all ranks must hold alike
 * is taken once, and the other copies are compared with it when it is converted.
 *
 * @module
 */

import { bytesOf, isFloat } from '../../base/dtype.js';
import type { ErrorDetail } from '../../base/errors.js';
import { matches } from '../../base/glob.js';
import { numelOf } from '../../base/shape.js';
import { counted, firstOf } from '../../base/words.js';
import type { Notice, Proof, StoredBits, TensorEntry } from '../inventory.js';
import type { InspectOptions, TpRule } from '../options.js';
import type { Column } from './column.js';
import type { Draft } from './draft.js';
import { mergeInfo } from './merge-info.js';
import { type Cut, decideMerge, type Merge } from './merge-rules.js';
import { namesDiffer, shardsDiffer, undecidedTensors } from './parallel-problems.js';
import { touchesLost } from './settle.js';
import { type Band, type Rows, spreadPieces } from './spread.js';

/** Names of parameters that often hold several in one, each of which is cut on its own. */
const FUSED = /qkv|query_key_value|c_attn|gate_up|gate_and_up|h_to_4h|w12|w13|wi_fused/i;

/** A tensor that no rule joins. */
interface Undecided {
  readonly entry: TensorEntry;
  readonly reason: string;
}

/**
 * Puts the tensors and tied names of all columns into the draft. Tensors `joined` elsewhere may stay without a rule.
 */
export function joinColumns(
  draft: Draft,
  folder: string,
  columns: readonly Column[],
  joined: { readonly has: (name: string) => boolean } | undefined,
  { tpRules = [] }: InspectOptions,
): void {
  for (const [alias, owner] of columns.flatMap((column) => [...column.draft.aliases])) draft.aliases.set(alias, owner);
  const [first] = columns;
  const names = new Set(columns.flatMap((column) => [...column.draft.tensors.keys()]));
  if (!first || columns.length === 1) {
    for (const [name, entry] of first?.draft.tensors ?? []) draft.tensors.set(name, entry);
    draft.warnings.push(...ruleNotices(tpRules, []));
    return;
  }
  if (draft.problems.length > 0) return;
  const { universalInfo } = first.model?.parallel ?? {};
  const info = universalInfo && mergeInfo(universalInfo);
  const undecided: Undecided[] = [];
  for (const name of names) {
    const shards = columns.flatMap((column) => column.draft.tensors.get(name) ?? []);
    const [entry] = shards;
    const absent = columns.find((column) => !column.draft.tensors.has(name));
    if (absent) draft.problems.push(namesDiffer(absent.model?.shard.path ?? '', name, columns.length, shards.length));
    else if (entry) {
      const decision = decideMerge(shards, tpRules, info);
      const whole = 'merge' in decision ? joinShards(draft, columns, shards, decision.merge) : decision.undecided;
      if (typeof whole === 'string') undecided.push({ entry, reason: whole });
      else if (whole) draft.tensors.set(name, whole);
    }
  }
  draft.warnings.push(...ruleNotices(tpRules, [...names]));
  const open = undecided.filter(({ entry }) => joined?.has(entry.name) !== true);
  if (open.length > 0) draft.problems.push(undecidedProblem(folder, columns.length, open));
}

/** The tensors that no rule joins, as one problem that shows each kind of them once. */
function undecidedProblem(folder: string, ranks: number, undecided: readonly Undecided[]): ErrorDetail {
  const kinds = new Map<string, number>();
  for (const { entry, reason } of undecided) {
    const kind = `${entry.name.replaceAll(/\d+/g, '*')} [${entry.shape.join(', ')}]: ${reason}`;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  return undecidedTensors(folder, ranks, undecided.length, [...kinds]);
}

/** The joined tensor, or why it cannot be joined. */
function joinShards(
  draft: Draft,
  columns: readonly Column[],
  shards: readonly TensorEntry[],
  merge: Merge,
): TensorEntry | string | undefined {
  const [first] = shards;
  if (!first) return undefined;
  const say = ({ origin, stored: { dtype, flip } }: TensorEntry) => [dtype, origin, ...(flip ? [flip] : [])].join(' ');
  const odd = shards.findIndex((shard) => say(shard) !== say(first));
  if (odd >= 0) {
    const [file = '', other = ''] = [columns[0], columns[odd]].map((column) => column?.model?.shard.path);
    draft.problems.push(shardsDiffer(file, other, first.name, say(first), say(shards[odd] ?? first)));
    return first;
  }
  if (merge.kind === 'average' && !isFloat(first.stored.dtype)) return `${first.stored.dtype} has no mean`;
  const joined = join(draft, shards, merge);
  return joined ?? 'their elements lie in an order that cannot be cut';
}

function join(draft: Draft, shards: readonly TensorEntry[], merge: Merge): TensorEntry | undefined {
  const [first] = shards;
  if (!first) return undefined;
  const { name, origin } = first;
  const whole = merge.kind === 'cut' ? merge.shape : first.shape;
  const shape = whole.map((size, i) => (i === 0 ? keptRows(whole, merge.rows) : size));
  const each = (bits: readonly (StoredBits | undefined)[]) => shardBits(draft, first, bits, merge, shape);
  const stored = each(shards.map((shard) => shard.stored));
  const copies = each(shards.map((shard) => shard.copy));
  if (!stored?.[0]) return undefined;
  const entry = { name, origin, shape, stored: stored[0] };
  const fault = shards.find((shard) => shard.fault)?.fault;
  if (fault) return { ...entry, stored: { ...stored[0], pieces: [] }, fault };
  draft.warnings.push(...vocabularyNotice(entry, whole));
  if (merge.kind === 'average') {
    const [copy] = copies ?? [];
    const isLost = draft.partial && copy !== undefined && stored.some((bits) => touchesLost(draft, bits));
    return isLost
      ? { ...entry, origin: 'copy', stored: copy, ...(copies ? { meanOf: copies } : {}) }
      : { ...entry, meanOf: stored };
  }
  const others = merge.kind === 'replicated' ? [...stored.slice(1), ...(copies ?? []).slice(1)] : [];
  const proofs = [...joinedProofs(shards, each), ...others.map((bits): Proof => ({ check: 'replicated', ...bits }))];
  return { ...entry, ...(copies?.[0] ? { copy: copies[0] } : {}), ...(proofs.length > 0 ? { proofs } : {}) };
}

/** What had proofs on each rank, as the copies of another pipeline stage, has them as a whole too. */
function joinedProofs(
  shards: readonly TensorEntry[],
  each: (bits: readonly (StoredBits | undefined)[]) => StoredBits[] | undefined,
): Proof[] {
  return (shards[0]?.proofs ?? []).flatMap(({ check }, i) =>
    (each(shards.map(({ proofs }) => proofs?.[i])) ?? []).map((bits): Proof => ({ check, ...bits })),
  );
}

/**
 * The bits of all ranks put together: one for all where they are cut, one for each where they are alike. Undefined where a
 * rank has none, or has others than the first.
 */
function shardBits(
  draft: Draft,
  first: TensorEntry,
  bits: readonly (StoredBits | undefined)[],
  merge: Merge,
  shape: readonly number[],
): StoredBits[] | undefined {
  const there = bits.flatMap((one) => one ?? []);
  const [one] = there;
  if (!one || there.length < bits.length) return undefined;
  if (there.some(({ dtype, flip }) => dtype !== one.dtype || flip !== one.flip)) return undefined;
  const size = bytesOf(one.dtype);
  const placed = there.map(({ pieces }, rank) => {
    const [rows, bands] =
      merge.kind === 'cut' ? bandsOf(merge, rank, size) : headOf(numelOf(first.shape) * size, numelOf(shape) * size);
    return spreadPieces(pieces, draft.partitions, rows, bands);
  });
  if (placed.some((pieces) => pieces === undefined)) return undefined;
  if (merge.kind !== 'cut') return there.map((own, rank) => ({ ...own, pieces: placed[rank] ?? [] }));
  return [{ ...one, pieces: placed.flatMap((pieces) => pieces ?? []) }];
}

/** The first bytes of a tensor, as one row. */
function headOf(length: number, kept: number): [Rows, Band[]] {
  return [{ count: 1, shard: length, whole: length }, [{ from: 0, length: kept, to: 0 }]];
}

/** Where a rank's parts of each row go. */
function bandsOf({ count, inner, widths, shape, rows }: Cut, rank: number, size: number): [Rows, Band[]] {
  const unit = inner * size;
  const sum = (parts: readonly number[]) => parts.reduce((total, part) => total + part, 0);
  const whole = sum(widths.flat()) * unit;
  // Divided first, which leaves no remainder: a fraction would.
  const keptOf = (amount: number) => (shape[0] ? (amount / shape[0]) * keptRows(shape, rows) : amount);
  // Rows of the vocabulary are left out of the last shards where that is what is cut, of all shards otherwise.
  const keptBytes = count === 1 ? keptOf(whole) : whole;
  const keptCount = count === 1 ? 1 : keptOf(count);
  let from = 0;
  let start = 0;
  const bands = widths.map((ranks): Band => {
    const to = start + sum(ranks.slice(0, rank)) * unit;
    const full = (ranks[rank] ?? 0) * unit;
    const band = { from, length: Math.max(0, Math.min(full, keptBytes - to)), to };
    from += full;
    start += sum(ranks) * unit;
    return band;
  });
  return [{ count: keptCount, shard: from, whole }, bands];
}

function keptRows(shape: readonly number[], rows: number | undefined): number {
  return Math.min(shape[0] ?? 1, rows ?? Number.POSITIVE_INFINITY);
}

/** Rules of the user that no tensor has, and those that may do harm. */
function ruleNotices(rules: readonly TpRule[], names: readonly string[]): Notice[] {
  const ruled = names.map((name) => ({ name, rule: rules.find(({ pattern }) => matches(pattern, name)) }));
  const unused = rules.filter((rule) => !ruled.some((found) => found.rule === rule));
  const fused = ruled.filter(({ name, rule }) => typeof rule?.merge === 'number' && FUSED.test(name));
  return [
    ...unused.map(({ pattern }): Notice => {
      return { code: 'tp-rule-unused', message: `The rule for ${pattern} decides about no tensor.` };
    }),
    ...fused.slice(0, 1).map((): Notice => {
      const message = `Joined along a dimension as asked, though the name sounds as if it held several: ${counted(fused.length, 'tensor')} (${firstOf(fused)}). A fused QKV or gate and up are cut one by one.`;
      return { code: 'tp-rule-fused', message };
    }),
  ];
}

/** Rows that pad the vocabulary are no weights, but that they are left out should be known. */
function vocabularyNotice({ name, shape }: TensorEntry, whole: readonly number[]): Notice[] {
  const [rows = 0, kept = 0] = [whole[0], shape[0]];
  const message = `${name}: ${rows - kept} rows behind the ${kept} of the vocabulary are padding, and left out.`;
  return rows === kept ? [] : [{ code: 'vocabulary-padding', message }];
}
