/**
 * Which ranks hold which experts: the ranks of a group of expert parameters are dealt to expert-parallel ranks in one of two
 * orders.
 *
 * @module
 */

import type { OptimStates } from './states.js';

/** The expert-parallel rank of rank `r` of `world`, where each is cut over `count` ranks. */
export type RankOrder = (r: number, count: number, world: number) => number;

/** DeepSpeed deals experts out to neighbours; with `use_data_before_expert_parallelism` neighbours hold the same ones. */
export const RANK_ORDERS: readonly RankOrder[] = [
  (r, count, world) => r % (world / count),
  (r, count) => Math.floor(r / count),
];

/** How many ranks group `g` is cut over. One number stands for all groups before 0.5.0. */
export function ranksOfGroup([first]: readonly OptimStates[], g: number): number {
  const counts = first?.partitionCounts ?? [];
  return counts[g] ?? counts[0] ?? 1;
}
