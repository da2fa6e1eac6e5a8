/**
 * Which rule joins the tensor-parallel shards of a tensor: what the user says, what the checkpoint says, and nothing that
 * is guessed.
 *
 * @module
 */

import { matches } from '../../base/glob.js';
import { numelOf } from '../../base/shape.js';
import type { TensorEntry } from '../inventory.js';
import type { TpMerge, TpRule } from '../options.js';
import type { MergeInfo, SubParams } from './merge-info.js';
import type { PythonPattern } from './python-pattern.js';

/** How shards are joined. */
export type Merge =
  /** All ranks hold the same tensor, or one copy each of which the mean is taken. */
  { readonly kind: 'replicated' | 'average'; readonly rows: number | undefined } | Cut;

/** Shards that lie beside each other. Sizes count elements. */
export interface Cut {
  readonly kind: 'cut';
  /** Steps of the dimensions before the one that is cut. */
  readonly count: number;
  /** Elements of the dimensions behind it. */
  readonly inner: number;
  /** Width of each part of the tensor on each rank: `widths[part][rank]`. An ordinary cut has one part. */
  readonly widths: readonly (readonly number[])[];
  /** Shape of the joined tensor. */
  readonly shape: readonly number[];
  /** Rows of the first dimension that belong to the model; what is behind them pads the vocabulary. */
  readonly rows: number | undefined;
}

/** A rule, or why there is none. */
export type Decision = { readonly merge: Merge } | { readonly undecided: string };

const NO_RULE = 'nothing says how they are joined';

/** Decides about one tensor. `shards` are those of all ranks, in order. */
export function decideMerge(
  shards: readonly TensorEntry[],
  rules: readonly TpRule[],
  info: MergeInfo | undefined,
): Decision {
  const [first] = shards;
  if (!first) return { undecided: NO_RULE };
  const { name, origin } = first;
  const given = rules.find(({ pattern }) => matches(pattern, name));
  if (given) return ofUser(given.merge, shards);
  const has = (patterns: readonly PythonPattern[] | undefined) =>
    patterns?.some((pattern) => pattern.matches(name)) === true;
  const rows = has(info?.vocabulary) ? info?.vocabularySize : undefined;
  const refused = info?.unsupported.find(([pattern]) => pattern.matches(name));
  if (refused) return { undecided: `DeepSpeed itself cannot join them: ${refused[1].slice(0, 200)}` };
  if (has(info?.replicated)) return sameShapes('replicated', shards, rows);
  if (has(info?.average)) return sameShapes('average', shards, rows);
  if (has(info?.twoHalves)) return halves(shards, rows);
  const sub = info?.subParams.find(({ pattern }) => pattern.matches(name));
  if (sub) return subParams(sub, shards, rows);
  if (has(info?.rows)) return along(1, shards, rows);
  // Buffers are no parameters, so that no pattern is meant for them.
  if (origin === 'buffer') return sameShapes('replicated', shards, rows);
  return info ? along(0, shards, rows) : { undecided: NO_RULE };
}

function ofUser(merge: TpMerge, shards: readonly TensorEntry[]): Decision {
  return typeof merge === 'number' ? along(merge, shards, undefined) : sameShapes(merge, shards, undefined);
}

function sameShapes(
  kind: 'replicated' | 'average',
  shards: readonly TensorEntry[],
  rows: number | undefined,
): Decision {
  const odd = shards.find(({ shape }) => String(shape) !== String(shards[0]?.shape));
  return odd
    ? { undecided: `they should all be alike, and have shapes ${shapesOf(shards)}` }
    : { merge: { kind, rows } };
}

/** Shards one after another along a dimension. They may be of different size there. */
function along(dim: number, shards: readonly TensorEntry[], rows: number | undefined): Decision {
  const shape = shards[0]?.shape ?? [];
  const fits = ({ shape: other }: TensorEntry) =>
    other.length === shape.length && other.every((size, i) => i === dim || size === shape[i]);
  if (!Number.isInteger(dim) || dim < 0 || dim >= shape.length || !shards.every(fits)) {
    return { undecided: `they cannot be joined along dimension ${dim}, with shapes ${shapesOf(shards)}` };
  }
  const widths = shards.map((shard) => shard.shape[dim] ?? 0);
  return cut(shape, dim, shape, [widths], rows);
}

/** `torch.chunk(2)` of each shard gives its parts of the two halves. */
function halves(shards: readonly TensorEntry[], rows: number | undefined): Decision {
  const whole = along(0, shards, rows);
  if (!('merge' in whole) || whole.merge.kind !== 'cut') return whole;
  const [widths = []] = whole.merge.widths;
  const first = widths.map((width) => Math.ceil(width / 2));
  return { merge: { ...whole.merge, widths: [first, widths.map((width, i) => width - (first[i] ?? 0))] } };
}

function subParams(sub: SubParams, shards: readonly TensorEntry[], rows: number | undefined): Decision {
  const ranks = shards.length;
  const total = shards.reduce((sum, { shape }) => sum + numelOf(shape), 0);
  const sizes = typeof sub.sizes === 'number' ? equalSizes(sub.sizes, sub.dim, shards) : sub.sizes;
  const widths = sub.widths ?? sizes?.map((size) => Array<number>(ranks).fill(size / ranks));
  const isWhole = (part: readonly number[], i: number) =>
    part.length === ranks && part.every(Number.isInteger) && part.reduce((sum, width) => sum + width, 0) === sizes?.[i];
  if (!sizes || !widths || widths.length !== sizes.length || !widths.every(isWhole)) {
    const said = JSON.stringify(sub.widths ?? sizes ?? sub.sizes).slice(0, 200);
    return { undecided: `the widths of their sub-parameters, ${said}, do not fit ${ranks} ranks` };
  }
  const logical = resolveShape(
    sub.shape.map((size, i) => (i === sub.dim ? sizes.reduce((sum, part) => sum + part, 0) : size)),
    total,
  );
  const decision = cut(shards[0]?.shape ?? [], sub.dim, logical ?? [], widths, rows);
  const inner = logical ? numelOf(logical.slice(sub.dim + 1)) * numelOf(logical.slice(0, sub.dim)) : 0;
  const fits = ({ shape }: TensorEntry, rank: number) =>
    numelOf(shape) === inner * widths.reduce((sum, part) => sum + (part[rank] ?? 0), 0);
  if (logical && numelOf(logical) === total && shards.every(fits)) return decision;
  return {
    undecided: `sub-parameters of shape [${sub.shape.join(', ')}] are not what shapes ${shapesOf(shards)} hold`,
  };
}

/** Metadata before version 0.4 counts the sub-parameters; all are of one size. */
function equalSizes(count: number, dim: number, shards: readonly TensorEntry[]): number[] | undefined {
  const size = shards.reduce((sum, { shape }) => sum + (shape[dim] ?? 0), 0) / count;
  return count > 0 && Number.isInteger(size) ? Array<number>(count).fill(size) : undefined;
}

/** The shape with its open size filled in. */
function resolveShape(shape: readonly number[], total: number): number[] | undefined {
  const known = shape.filter((size) => size >= 0);
  const open = total / numelOf(known);
  if (known.length === shape.length) return [...shape];
  return known.length === shape.length - 1 && Number.isInteger(open)
    ? shape.map((size) => (size < 0 ? open : size))
    : undefined;
}

/**
 * The cut along dimension `dim` of `logical`, a view of the parameter whose shards have `shape` but for the size that was
 * cut.
 */
function cut(
  shape: readonly number[],
  dim: number,
  logical: readonly number[],
  widths: readonly (readonly number[])[],
  rows: number | undefined,
): Decision {
  const inner = numelOf(logical.slice(dim + 1));
  const count = numelOf(logical.slice(0, dim));
  const width = widths.flat().reduce((sum, part) => sum + part, 0);
  const isView = shape.length !== logical.length;
  const own = isView ? shape.findIndex((_, i) => numelOf(shape.slice(i + 1)) <= inner) : dim;
  if (isView && rows !== undefined) return { undecided: 'the vocabulary cannot be told from their sub-parameters' };
  const rest = numelOf(shape.filter((_, i) => i !== own));
  const size = isView ? (count * width * inner) / rest : width;
  return {
    merge: { kind: 'cut', count, inner, widths, rows, shape: shape.map((old, i) => (i === own ? size : old)) },
  };
}

function shapesOf(shards: readonly TensorEntry[]): string {
  const shapes = [...new Set(shards.map(({ shape }) => `[${shape.join(', ')}]`))];
  return shapes.length > 4 ? `${shapes.slice(0, 4).join(', ')}, …` : shapes.join(', ');
}
