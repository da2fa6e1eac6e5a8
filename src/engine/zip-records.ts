/**
 * What a zip file records of its own data, once that is known.
 *
 * @module
 */

import { combineCrc32, crc32 } from '../base/crc32.js';
import { assert } from '../base/errors.js';
import { descriptorOf } from '../formats/zip/write.js';
import type { PlannedZipRecord } from '../plan/plan.js';
import type { TileRange } from './tiles.js';
import type { WrittenRange } from './written.js';

/**
 * Puts the descriptors of records that lie in a tile as a whole where they belong, if that is in the tile too: ten thousand
 * small tensors are else ten thousand small writes at the end of the file. `parts` are the ranges of the tile's parts.
 */
export function placeDescriptors(
  records: readonly PlannedZipRecord[],
  tile: TileRange,
  bytes: Uint8Array,
  parts: readonly WrittenRange[],
): WrittenRange[] {
  const byStart = new Map(parts.map((part) => [part.at, part]));
  const placed: WrittenRange[] = [];
  for (let i = firstRecordFrom(records, tile.at); i < records.length; i++) {
    const record = records[i];
    if (!record || record.at >= tile.at + tile.length) break;
    const part = byStart.get(record.at);
    if (part?.length !== record.length) continue;
    const descriptor = descriptorOf({ ...record, crc32: record.crc32 ?? part.crc32 });
    const at = (descriptor?.at ?? 0) - tile.at;
    if (!descriptor || at + descriptor.bytes.length > tile.length) continue;
    bytes.set(descriptor.bytes, at);
    placed.push({ at: descriptor.at, length: descriptor.bytes.length, crc32: crc32(descriptor.bytes) });
  }
  return placed;
}

/** Index of the first record whose data starts at byte `at` or behind it. */
function firstRecordFrom(records: readonly PlannedZipRecord[], at: number): number {
  let low = 0;
  let high = records.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((records[middle]?.at ?? 0) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The records of a zip file with every CRC-32 filled in, from those of all ranges that were written, in any order. */
export function withCrcs(
  records: readonly PlannedZipRecord[],
  written: readonly WrittenRange[],
): (PlannedZipRecord & { readonly crc32: number })[] {
  const sorted = written.toSorted((a, b) => a.at - b.at);
  let next = 0;
  return records.map((record) => {
    if (record.crc32 !== undefined) return { ...record, crc32: record.crc32 };
    const end = record.at + record.length;
    let [crc, length] = [0, 0];
    for (; next < sorted.length; next++) {
      const range = sorted[next];
      if (!range || range.at >= end) break;
      if (range.at < record.at) continue;
      crc = combineCrc32(crc, range.crc32, range.length);
      length += range.length;
    }
    assert(length === record.length, `record ${record.name} has ${record.length} bytes, ${length} were written`);
    return { ...record, crc32: crc };
  });
}
