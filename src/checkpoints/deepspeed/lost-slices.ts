/**
 * How large the slices of lost ranks were: what the slices that are there, and the lists of parameters, prove of it.
 *
 * @module
 */

import { numelOf } from '../../base/shape.js';
import type { GroupShapes, NamedShape, OptimStates } from './states.js';

/** A rank's slice of a flat group, in elements. */
export interface CutSlice {
  readonly numel: number;
  /** Padding at its end, kept or stripped. */
  readonly padding: number;
}

/** The slices of all ranks, in order, of each flat group. */
type Cuts = readonly (readonly CutSlice[])[];

/** Stage 3: every rank has the same. Undefined where nothing lists the parameters and no rank is there. */
export function sharesOf(
  first: OptimStates | undefined,
  groups: GroupShapes | undefined,
  world: number,
): Cuts | undefined {
  const shares = groups?.map((shapes) => shapes.reduce((sum, [, shape]) => sum + Math.ceil(numelOf(shape) / world), 0));
  const numels = shares ?? first?.flatGroups.map(({ numel }) => numel);
  return numels?.map((numel) => Array<CutSlice>(world).fill({ numel, padding: 0 }));
}

/** Stage 1 and 2. Undefined where the lists of parameters and the slices that are there do not tell. */
export function slicesOf(
  optims: readonly OptimStates[],
  groups: GroupShapes | undefined,
  world: number,
): Cuts | undefined {
  const [first] = optims;
  // Groups of experts are cut over fewer ranks, in an order that no lost rank can prove.
  const isPlain = first?.partitionCounts.length && first.partitionCounts.every((count) => count === world);
  if (!first || !groups || !isPlain || first.subPartitions) return undefined;
  const cuts = groups.map((shapes, g) =>
    cutOf(
      shapes,
      world,
      optims.map((optim) => savedSlice(optim, g)),
    ),
  );
  const proven = cuts.flatMap((ranks) => (ranks ? [ranks] : []));
  return proven.length === cuts.length ? proven : undefined;
}

/** A slice of a flat group that is there. */
interface SavedSlice {
  readonly rank: number;
  readonly numel: number;
  /** Padding that it holds. */
  readonly kept: number | undefined;
  /** Padding that was taken off its end. */
  readonly stripped: number | undefined;
}

function savedSlice({ shard, flatGroups, keptPadding, strippedPadding }: OptimStates, group: number): SavedSlice {
  const numel = flatGroups[group]?.numel ?? 0;
  return { rank: shard.name.dp, numel, kept: keptPadding?.[group], stripped: strippedPadding?.[group] };
}

/**
 * How a flat group is cut. It is padded to a multiple of the ranks, or of twice that, so a whole slice has one of two
 * lengths; which one it is, the slices that are there tell. Undefined where they do not.
 */
function cutOf(
  shapes: readonly NamedShape[],
  world: number,
  saved: readonly SavedSlice[],
): readonly CutSlice[] | undefined {
  const needed = shapes.reduce((sum, [, shape]) => sum + numelOf(shape), 0);
  const restOf = (rank: number, length: number) => Math.min(Math.max(needed - rank * length, 0), length);
  const keepsPadding = saved.some(({ kept }) => kept !== undefined);
  const fits = ({ rank, numel, stripped }: SavedSlice, length: number) => {
    if (keepsPadding) return numel === length;
    // More padding than a slice is a negative end of it to Python, which counts from the back.
    if (stripped !== undefined) return numel === Math.max(0, (stripped > length ? 2 : 1) * length - stripped);
    // Before it was recorded, the last rank alone stripped its padding, and not always all of it.
    return numel === length || (rank === world - 1 && numel >= restOf(rank, length) && numel < length);
  };
  const aligned = [1, 2].map((unit) => unit * Math.ceil(needed / (unit * world)));
  const [length, other] = [...new Set(aligned)].filter((one) => saved.every((slice) => fits(slice, one)));
  const filled = saved.filter(({ numel }) => numel > 0);
  // Where no other rank has anything, it does not matter which one it is.
  if (length === undefined || (other !== undefined && filled.length > 0)) return undefined;
  const last = filled.reduce((most, { rank }) => Math.max(most, rank), -1);
  const kept = saved.reduce((sum, slice) => sum + (slice.kept ?? 0), 0);
  return Array.from({ length: world }, (_, rank) => {
    // All of the padding that is kept is at the end of the last slice.
    if (keepsPadding) return { numel: length, padding: rank === world - 1 ? world * length - needed - kept : 0 };
    const numel = rank < last ? length : restOf(rank, length);
    return { numel, padding: length - numel };
  });
}
