/**
 * The parameters of each group where no file lists them: models with experts before 0.19.3. What every rank records of the
 * fragments in its slice (since 0.7.4) tells their order, and the state dict their shapes.
 *
 * @module
 */

import { numelOf } from '../../base/shape.js';
import { RANK_ORDERS, type RankOrder, ranksOfGroup } from './expert-ranks.js';
import { type Fragment, fragmentsOf } from './slice-mappings.js';
import type { GroupShapes, ModelStates, NamedShape, OptimStates } from './states.js';

/**
 * The parameters of each group in flat order, named as the ranks of the first experts name them, which are told by `order`;
 * by default, by either that fits. Undefined where the ranks record nothing, or not what the state dict holds.
 */
export function recordedShapes(
  model: ModelStates,
  optims: readonly OptimStates[],
  ...orders: readonly RankOrder[]
): GroupShapes | undefined {
  const tried = orders.length > 0 ? orders : RANK_ORDERS;
  const groups = optims[0]?.flatGroups.map((_, g) => {
    const count = ranksOfGroup(optims, g);
    const candidates =
      count < optims.length
        ? tried.map((order) => optims.filter((_, r) => order(r, count, optims.length) === 0))
        : [optims];
    return candidates.map((ranks) => shapesOf(model, ranks, g)).find((shapes) => shapes !== undefined);
  });
  const known = groups?.flatMap((shapes) => (shapes ? [shapes] : []));
  return known && known.length === groups?.length ? known : undefined;
}

/** Joins the fragments of a group over its ranks: they must follow each other without a gap. */
function shapesOf(model: ModelStates, ranks: readonly OptimStates[], group: number): NamedShape[] | undefined {
  const sizes = new Map<string, number>();
  let last: string | undefined;
  for (const { state } of ranks) {
    const fragments = [...(fragmentsOf(state, group) ?? [])];
    if (!areJoined(fragments)) return undefined;
    for (const [name, { numel }] of fragments) {
      // A parameter goes on in the next rank's slice, where it is the first.
      if (sizes.has(name) && name !== last) return undefined;
      sizes.set(name, (sizes.get(name) ?? 0) + numel);
      last = name;
    }
  }
  const holdsElements = ranks.some(({ flatGroups }) => (flatGroups[group]?.numel ?? 0) > 0);
  if (sizes.size === 0 && holdsElements) return undefined;
  const shapes = [...sizes].flatMap(([name, numel]): NamedShape[] => {
    const shape = model.module.get(name)?.shape;
    return shape && numelOf(shape) === numel ? [[name, shape]] : [];
  });
  return shapes.length === sizes.size ? shapes : undefined;
}

function areJoined(fragments: readonly (readonly [string, Fragment])[]): boolean {
  let end = 0;
  return fragments.every(([, { start, numel }]) => {
    const follows = start === end;
    end += numel;
    return follows;
  });
}
