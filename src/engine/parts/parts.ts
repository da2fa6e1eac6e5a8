/**
 * Parts of a plan: shares of its files that are written by runs of their own, on one machine or many.
 *
 * @module
 */

import { assert, UnshardError } from '../../base/errors.js';
import type { OutputFile, OutputPart, Plan, PlannedTensor } from '../../plan/plan.js';
import { totalsOf } from '../../plan/totals.js';
import { outputFile } from '../tiles.js';

/** One of `count` shares of a plan's files. */
export interface Part {
  /** From 0 to `count - 1`. */
  readonly index: number;
  readonly count: number;
}

/** More parts than files are allowed, and this many at most: what has more is a mistake in a script. */
const MAX_PARTS = 100_000;

/**
 * The files of a part, as indices into the plan's. Of all parts together every file is in one, but those that come after
 * the others: `finish` writes them. The parts of one plan and count are the same wherever they are worked out.
 *
 * @throws UnshardError `part-bad` of kind `usage`.
 */
export function filesOfPart(plan: Plan, part: Part): readonly number[] {
  const { index, count } = checkPart(part);
  return [...partOfFiles(plan, count)].flatMap(([file, of]) => (of === index ? [file] : [])).sort((a, b) => a - b);
}

/** The part that each file is in, by its index. Each goes, the largest first, to the part with the fewest bytes so far. */
export function partOfFiles(plan: Plan, count: number): ReadonlyMap<number, number> {
  const bySize = [...plan.files.entries()]
    .filter(([, file]) => !file.afterOthers)
    .toSorted(([i, a], [j, b]) => b.byteLength - a.byteLength || i - j);
  // With more parts than files the rest have none.
  const bytes = new Array<number>(Math.min(count, bySize.length)).fill(0);
  const parts = new Map<number, number>();
  for (const [file, { byteLength }] of bySize) {
    const least = indexOfLeast(bytes);
    bytes[least] = (bytes[least] ?? 0) + byteLength;
    parts.set(file, least);
  }
  return parts;
}

/** The files that come after all others, as indices into the plan's. */
export function lastFiles(plan: Plan): readonly number[] {
  return [...plan.files.entries()].flatMap(([index, file]) => (file.afterOthers ? [index] : []));
}

/** Some files of a plan as a plan of their own. */
export interface FilesPlan {
  readonly plan: Plan;
  /** For each tensor of it, its index in the whole plan. */
  readonly tensors: readonly number[];
}

/** The plan of some files alone: with their tensors, and with every CRC-32 of the whole plan at its index there. */
export function planOfFiles(plan: Plan, files: readonly number[]): FilesPlan {
  const renumbered = new Map<number, number>();
  const partOf = (part: OutputPart): OutputPart => {
    if (part.kind !== 'tensor') return part;
    const tensor = renumbered.get(part.tensor) ?? renumbered.size;
    renumbered.set(part.tensor, tensor);
    return { ...part, tensor };
  };
  const chosen = files.map((index): OutputFile => {
    const file = outputFile(plan, index);
    return { ...file, parts: file.parts.map(partOf) };
  });
  const indices = [...renumbered.keys()];
  const tensors = indices.map((index): PlannedTensor => {
    const tensor = plan.tensors[index];
    assert(tensor, `the plan has no tensor ${index}`);
    return tensor;
  });
  return { plan: { ...plan, files: chosen, tensors, totals: totalsOf(tensors, chosen) }, tensors: indices };
}

/** A part as people count: from 1. */
export function partName({ index, count }: Part): string {
  return `${index + 1}/${count}`;
}

function checkPart(part: Part): Part {
  const { index, count } = part;
  const isPart =
    Number.isSafeInteger(count) && count >= 1 && Number.isSafeInteger(index) && index >= 0 && index < count;
  if (isPart && count <= MAX_PARTS) return part;
  throw new UnshardError({
    kind: 'usage',
    code: 'part-bad',
    message: `There is no part ${partName(part)}.`,
    advice: `Parts count from 1, and there are at most ${MAX_PARTS} of them.`,
    facts: { found: partName(part), expected: `1/${count} to ${count}/${count}` },
  });
}

/** Index of the least value, the first of several. */
function indexOfLeast(values: readonly number[]): number {
  let least = 0;
  for (const [index, value] of values.entries()) if (value < (values[least] ?? 0)) least = index;
  return least;
}
