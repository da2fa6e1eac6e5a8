/** How DeepSpeed lays parameters into flat buffers and cuts them over the ranks. Counts are elements. */

import { type Param, since, sizeOf } from './spec.js';

/** The order of a group in its flat buffer with `round_robin_gradients`: parameter i goes to bucket i % ranks. */
export function roundRobin(group: readonly Param[], ranks: number): Param[] {
  return Array.from({ length: ranks }, (_, bucket) => group.filter((_, i) => i % ranks === bucket)).flat();
}

/** A flat buffer of stage 1 or 2. */
export interface FlatCut {
  /** Elements with the padding. */
  readonly padded: number;
  /** Elements of a rank's partition with the padding. */
  readonly partition: number;
  /** Elements of each rank's partition that are saved. */
  readonly saved: readonly number[];
  /** Elements of padding in each rank's partition as the optimizer counts them. */
  readonly paddings: readonly number[];
}

/** Cuts `count` elements over the ranks as the version does; `keep` is for an optimizer that saves the padding too. */
export function cutFlat(count: number, ranks: number, version: string, keep = false): FlatCut {
  const alignment = since(version, '0.5.2') ? 2 * ranks : ranks;
  const padded = Math.ceil(count / alignment) * alignment;
  const partition = padded / ranks;
  const padding = padded - count;
  const last = (value: number) => Array.from({ length: ranks }, (_, rank) => (rank === ranks - 1 ? value : 0));
  const cut = (saved: readonly number[], paddings: readonly number[]) => ({ padded, partition, saved, paddings });
  if (keep) return cut(Array<number>(ranks).fill(partition), last(padding));
  if (since(version, '0.16.4')) {
    const saved = Array.from({ length: ranks }, (_, rank) =>
      Math.min(Math.max(count - rank * partition, 0), partition),
    );
    return cut(
      saved,
      saved.map((length) => partition - length),
    );
  }
  // Only the last rank strips, and from 0.5.2 to 0.6.5 only what aligns to the number of ranks.
  const stripped = since(version, '0.7.0') ? padding : (ranks - (count % ranks)) % ranks;
  const saved = last(0).map((_, rank) =>
    rank === ranks - 1 ? sliceLength(partition, partition - stripped) : partition,
  );
  return cut(saved, last(stripped));
}

/** Length of `tensor[:end]` in Python, where a negative end counts from the back. */
function sliceLength(length: number, end: number): number {
  return Math.max(0, end < 0 ? length + end : Math.min(end, length));
}

/** Elements of a parameter that each rank holds at stage 3. */
export function shareOf(param: Param, ranks: number): number {
  return Math.ceil(sizeOf(param) / ranks);
}

/** The sub-groups of a group at stage 3: one ends with the parameter that fills it. */
export function subGroups(group: readonly Param[], ranks: number, limit = 1e9): Param[][] {
  const groups: Param[][] = [];
  let open: Param[] = [];
  let elements = 0;
  for (const param of group) {
    open.push(param);
    elements += shareOf(param, ranks);
    if (elements < limit) continue;
    groups.push(open);
    open = [];
    elements = 0;
  }
  return open.length > 0 ? [...groups, open] : groups;
}
