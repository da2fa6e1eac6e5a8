/** How a whole parameter is cut over tensor-parallel ranks, element by element. */

import { decodeFloats, encodeFloats, roundTo } from '../naive-floats.js';
import { type Param, sizeOf, valuesOf } from './spec.js';

/** What the ranks hold of a parameter. */
export type Cut =
  /** All hold the same. */
  | { readonly kind: 'whole' }
  /** All hold one of their own, of which the mean counts. */
  | { readonly kind: 'average' }
  /** Neighbouring parts along a dimension, each of them cut over all ranks: `widths[part][rank]`. */
  | { readonly kind: 'parts'; readonly dim: number; readonly widths: readonly (readonly number[])[] };

/** A tensor as a rank holds it, with its master in fp32. */
export interface Held {
  readonly name: string;
  readonly shape: readonly number[];
  readonly master: Uint8Array;
}

/** The whole parameter, under its name. */
export function whole(param: Param): Held {
  return { ...param, master: valuesOf(param, 'F32') };
}

/** What rank `rank` holds of a parameter. */
export function shardOf(param: Param, cut: Cut, rank: number): Held {
  if (cut.kind === 'whole') return whole(param);
  if (cut.kind === 'average') return { ...param, master: ownCopy(param, rank) };
  const values = valuesOf(param, 'F32');
  const step = param.shape.slice(cut.dim + 1).reduce((n, size) => n * size, 1);
  const size = param.shape[cut.dim] ?? 1;
  const owners = cut.widths.flatMap((ranks) => ranks.flatMap((width, owner) => Array<number>(width).fill(owner)));
  const kept: Uint8Array[] = [];
  for (let i = 0; i < sizeOf(param); i++) {
    if (owners[Math.floor(i / step) % size] === rank) kept.push(values.subarray(i * 4, i * 4 + 4));
  }
  const width = owners.filter((owner) => owner === rank).length;
  const shape = param.shape.map((old, i) => (i === cut.dim ? width : old));
  return { name: param.name, shape, master: Uint8Array.from(Buffer.concat(kept)) };
}

/** What must come out: the first `rows` rows of the whole, or the mean of all copies. */
export function joinedOf(param: Param, cut: Cut, ranks: number, rows?: number): Held {
  const shape = param.shape.map((size, i) => (i === 0 ? Math.min(size, rows ?? size) : size));
  const master = cut.kind === 'average' ? meanOf(param, ranks) : valuesOf(param, 'F32');
  return { name: param.name, shape, master: master.slice(0, sizeOf({ shape }) * 4) };
}

/** A rank's own copy: numbers of no special kind, so that their sum is one. */
function ownCopy(param: Param, rank: number): Uint8Array {
  let state = [...`${param.name} of ${rank}`].reduce(
    (hash, char) => Math.imul(hash ^ char.charCodeAt(0), 0x01000193),
    7,
  );
  const values = Array.from({ length: sizeOf(param) }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  });
  return encodeFloats('F32', values);
}

function meanOf(param: Param, ranks: number): Uint8Array {
  const copies = Array.from({ length: ranks }, (_, rank) => decodeFloats('F32', ownCopy(param, rank)));
  const sums = (copies[0] ?? []).map((_, i) =>
    copies.slice(1).reduce((sum, copy) => roundTo('F32', sum + (copy[i] ?? 0)), copies[0]?.[i] ?? 0),
  );
  return encodeFloats(
    'F32',
    sums.map((sum) => sum / ranks),
  );
}
