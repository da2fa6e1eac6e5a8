import { mapBounded } from '../../base/concurrent.js';
import { readView } from '../../io/read.js';
import type { ByteSource } from '../../io/types.js';

/** A gap of up to this many bytes is read along: cheaper than a second read of a disk or a browser's file. */
const MERGE_GAP = 4096;

/** A merged read stops growing here, in bytes, so that a long chain of near ranges stays small in memory. */
const MERGE_LIMIT = 2 ** 20;

/** Reads under way at once: enough to hide the latency of a network disk. */
const CONCURRENT_READS = 8;

/** The bytes `[offset, offset + length)` of a file. */
export interface ByteRange {
  readonly offset: number;
  readonly length: number;
}

/** Reads many small ranges, near ones together. The result has one array per range, in the order of `ranges`. */
export async function readRanges(
  source: ByteSource,
  ranges: readonly ByteRange[],
  signal?: AbortSignal,
): Promise<Uint8Array[]> {
  const results = new Array<Uint8Array>(ranges.length);
  await mapBounded(mergeRanges(ranges), CONCURRENT_READS, async ({ offset, end, members }) => {
    const bytes = await readView(source, offset, end - offset, signal);
    for (const { index, range } of members) {
      results[index] = bytes.subarray(range.offset - offset, range.offset - offset + range.length);
    }
  });
  return results;
}

interface Merged {
  readonly offset: number;
  end: number;
  readonly members: { readonly index: number; readonly range: ByteRange }[];
}

function mergeRanges(ranges: readonly ByteRange[]): Merged[] {
  const indexed = ranges.map((range, index) => ({ range, index }));
  indexed.sort((a, b) => a.range.offset - b.range.offset);
  const merged: Merged[] = [];
  for (const member of indexed) {
    const { offset, length } = member.range;
    const last = merged.at(-1);
    const end = Math.max(last?.end ?? 0, offset + length);
    if (last !== undefined && offset - last.end <= MERGE_GAP && end - last.offset <= MERGE_LIMIT) {
      last.end = end;
      last.members.push(member);
    } else {
      merged.push({ offset, end: offset + length, members: [member] });
    }
  }
  return merged;
}
