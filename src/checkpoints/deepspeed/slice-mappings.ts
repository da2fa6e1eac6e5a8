/**
 * `param_slice_mappings`: since 0.7.4 every rank of stage 1 and 2 records which part of which parameter lies where in its
 * slice. That must be where `param_shapes` puts it.
 *
 * @module
 */

import { numelOf } from '../../base/shape.js';
import { counted } from '../../base/words.js';
import type { PyValue } from '../../formats/pickle/values.js';
import type { CheckReport } from '../inventory.js';
import type { Draft } from './draft.js';
import { dig } from './fields.js';
import { sliceMapping } from './problems.js';
import type { NamedShape, OptimStates } from './states.js';
import type { FlatGroup } from './zero12.js';

const ID = 'slice-mappings';

/** Elements `[start, start + numel)` of a rank's slice. */
export interface Fragment {
  readonly start: number;
  readonly numel: number;
}

/** Compares what the optimizer files of stage 1 and 2 record with the layout of `groups`. */
export function checkSliceMappings(draft: Draft, groups: readonly FlatGroup[]): CheckReport {
  let compared = 0;
  const ranks = new Set(groups.flatMap(({ optims }) => optims.filter(({ shard }) => !shard.isLost)));
  for (const { index: g, shapes, ownShapes = shapes, optims } of groups) {
    const recorded = optims.map(({ state }) => fragmentsOf(state, g));
    // A group of which no rank records anything was saved by another version.
    if (recorded.every((fragments) => fragments === undefined || fragments.size === 0)) continue;
    const layouts = layoutsOf(ownShapes, optims, g);
    for (const [rank, optim] of optims.entries()) {
      if (optim.shard.isLost) continue;
      const odd = firstOdd(layouts[rank] ?? new Map(), recorded[rank] ?? new Map());
      if (odd && usesRoundRobin(optims)) return inRoundRobin();
      if (odd) draft.problems.push(sliceMapping(optim.shard.path, g, odd));
      if (odd) return { id: ID, status: 'failed', detail: `${optim.shard.path} disagrees with param_shapes.` };
      compared += recorded[rank]?.size ?? 0;
    }
  }
  return {
    id: ID,
    status: compared > 0 ? 'passed' : 'not-checkable',
    detail:
      compared > 0
        ? `Recorded fragments of parameters: ${compared}. Each lies in the slices of ${counted(ranks.size, 'rank')} where param_shapes puts it.`
        : 'The optimizer files record no fragments of parameters (DeepSpeed before 0.7.4, or stage 0 or 3).',
  };
}

/** A parameter of which a rank records another part than it holds. */
export interface OddFragment {
  readonly name: string;
  readonly expected: string;
  readonly found: string;
}

/** The fragments of a rank by the name of their parameter; undefined where the state holds no such record. */
export function fragmentsOf(state: PyValue | undefined, group: number): Map<string, Fragment> | undefined {
  const mapping = dig(state, 'param_slice_mappings', group);
  if (!(mapping instanceof Map)) return undefined;
  const fragments = [...mapping].flatMap(([name, address]): [string, Fragment][] => {
    const [start, numel] = [dig(address, 'start'), dig(address, 'numel')];
    return typeof name === 'string' && typeof start === 'number' && typeof numel === 'number'
      ? [[name, { start, numel }]]
      : [];
  });
  return new Map(fragments.filter(([, { numel }]) => numel > 0));
}

/**
 * Where the parameters of a group lie in the slice of each rank. Every slice but the last ones is as long as the first. A
 * rank may hold few of many parameters, so each is looked at by the ranks that hold it, and no others.
 */
function layoutsOf(
  shapes: readonly NamedShape[],
  optims: readonly OptimStates[],
  group: number,
): Map<string, Fragment>[] {
  const partition = optims[0]?.flatGroups[group]?.numel ?? 0;
  const layouts = optims.map(() => new Map<string, Fragment>());
  let at = 0;
  for (const [name, shape] of partition === 0 ? [] : shapes) {
    const end = at + numelOf(shape);
    for (let rank = Math.floor(at / partition); rank * partition < end; rank++) {
      const begin = rank * partition;
      const [first, last] = [Math.max(at, begin), Math.min(end, begin + partition)];
      if (first < last) layouts[rank]?.set(name, { start: first - begin, numel: last - first });
      if (rank >= layouts.length) break;
    }
    at = end;
  }
  return layouts;
}

function firstOdd(
  expected: ReadonlyMap<string, Fragment>,
  found: ReadonlyMap<string, Fragment>,
): OddFragment | undefined {
  for (const name of new Set([...expected.keys(), ...found.keys()])) {
    const [should, is] = [fragmentText(expected.get(name)), fragmentText(found.get(name))];
    if (should !== is) return { name, expected: should, found: is };
  }
  return undefined;
}

function fragmentText(fragment: Fragment | undefined): string {
  return fragment ? `elements ${fragment.start} to ${fragment.start + fragment.numel}` : 'nothing';
}

/** With round_robin_gradients DeepSpeed records the order of the groups, but stores another one, that of param_shapes. */
function usesRoundRobin(optims: readonly OptimStates[]): boolean {
  return optims.some(({ config }) => {
    const isKnown = config instanceof Map;
    return !isKnown || dig(config, 'zero_optimization', 'round_robin_gradients') === true;
  });
}

function inRoundRobin(): CheckReport {
  const detail =
    'Recorded fragments differ from param_shapes, as they do with round_robin_gradients: DeepSpeed records another order than it stores.';
  return { id: ID, status: 'not-checkable', detail };
}
