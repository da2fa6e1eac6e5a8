/**
 * What the page shows of an inventory and of a plan: names, shapes and sums, without where each byte lies.
 *
 * @module
 */

import { adaptersOf, type Inventory, offeredPrefix, type Plan } from '../index.js';
import type { CheckpointView, PlanView } from './protocol.js';

/** The view of an inventory. */
export function viewCheckpoint(inventory: Inventory): CheckpointView {
  const { folder, layout, tag, tags, aliases, skipped, warnings, problems, checks, facts, sources } = inventory;
  const prefix = offeredPrefix(inventory);
  return {
    folder,
    layout,
    tag,
    tags,
    aliases,
    skipped,
    warnings,
    problems,
    checks,
    facts,
    adapters: adaptersOf(inventory),
    ...(prefix ? { prefix } : {}),
    tensors: inventory.tensors.map(({ name, shape, origin, stored }) => ({ name, shape, origin, from: stored.dtype })),
    sourceFiles: sources.length,
    sourceBytes: sources.reduce((sum, { size }) => sum + size, 0),
  };
}

/** The view of a plan. */
export function viewPlan(plan: Plan): PlanView {
  const { options, aliases, skipped, warnings, totals } = plan;
  return {
    options,
    aliases,
    skipped,
    warnings,
    totals,
    tensors: plan.tensors.map(({ name, shape, origin, from, to, fromCopy }) => {
      return { name, shape, origin: fromCopy ? 'copy' : origin, from, to };
    }),
    files: plan.files.map(({ path, byteLength }) => ({ path, byteLength })),
  };
}
