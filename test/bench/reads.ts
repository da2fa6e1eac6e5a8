import { join } from 'node:path';
import type { Extent } from '../../src/base/extent.js';
import { slicePieces } from '../../src/base/slice.js';
import { inspect, openFolder, plan } from '../../src/node.js';
import type { FileRange } from './disk.js';
import type { Settings } from './roads/road.js';

/** What a conversion reads of tensors, and the files that it writes. */
export interface Transfer {
  /** In file order, neighbours as one. */
  readonly reads: readonly FileRange[];
  readonly files: readonly { readonly path: string; readonly byteLength: number }[];
}

/** What a conversion transfers, from the plan that it follows. Paths of reads are relative to the checkpoint. */
export async function transferOf(checkpoint: string, settings: Settings): Promise<Transfer> {
  const { dtype, format, maxShardSize, verify = true, tpRules } = settings;
  const inventory = await inspect(await openFolder(checkpoint), tpRules ? { tpRules } : {});
  const made = plan(inventory, {
    dtype,
    ...(format === undefined ? {} : { format }),
    ...(maxShardSize === undefined ? {} : { maxShardSize }),
  });
  const ranges = made.tensors.flatMap((tensor) => {
    const proofs = verify ? (tensor.proofs?.flatMap((proof) => proof.pieces) ?? []) : [];
    const slices = slicePieces([...tensor.pieces, ...proofs], made.partitions, 0, Number.MAX_SAFE_INTEGER);
    return [...slices.runs, ...slices.strided.map(spanOf)];
  });
  const reads = joinRanges(
    ranges.map(({ source, offset, length }) => ({ path: made.sources[source]?.path ?? '', offset, length })),
  );
  return { reads, files: made.files.map(({ path, byteLength }) => ({ path, byteLength })) };
}

/** The whole range that a strided extent picks its runs from: nearly all of it is read. */
function spanOf({ source, offset, length, repeat = [] }: Extent): Pick<Extent, 'source' | 'offset' | 'length'> {
  return { source, offset, length: repeat.reduce((span, { count, from }) => span + (count - 1) * from, length) };
}

/** The same ranges in file order, neighbours as one. */
export function joinRanges(ranges: readonly FileRange[]): FileRange[] {
  const joined: { path: string; offset: number; length: number }[] = [];
  const inOrder = ranges.toSorted((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : a.offset - b.offset));
  for (const { path, offset, length } of inOrder) {
    const last = joined.at(-1);
    if (last?.path === path && last.offset + last.length >= offset) {
      last.length = Math.max(last.length, offset + length - last.offset);
    } else joined.push({ path, offset, length });
  }
  return joined;
}

/** Ranges of files in a folder, under their whole paths. */
export function below(folder: string, ranges: readonly FileRange[]): FileRange[] {
  return ranges.map((range) => ({ ...range, path: join(folder, range.path) }));
}
