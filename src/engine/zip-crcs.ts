import { combineCrc32 } from '../base/crc32.js';
import { assert } from '../base/errors.js';
import type { PlannedZipRecord } from '../plan/plan.js';
import type { WrittenRange } from './written.js';

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
