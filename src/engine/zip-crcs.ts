import { combineCrc32, crc32 } from '../base/crc32.js';
import { assert } from '../base/errors.js';
import type { PlannedZipRecord } from '../plan/plan.js';
import type { Tile } from './tiles.js';

/** CRC-32s of the records of a zip file that is written tile by tile, in any order. */
export class ZipCrcs {
  /** Runs by the offset of the part that they belong to, which is where the record's data starts. */
  readonly #runs = new Map<number, { from: number; length: number; crc32: number }[]>();

  /** Takes note of a tile's bytes. */
  add(tile: Tile, bytes: Uint8Array): void {
    for (const { part, from, length, at } of tile.parts) {
      if (part.kind !== 'tensor') continue;
      const run = { from, length, crc32: crc32(bytes.subarray(at, at + length)) };
      const runs = this.#runs.get(part.at);
      if (runs) runs.push(run);
      else this.#runs.set(part.at, [run]);
    }
  }

  /** The records with every CRC filled in. */
  complete(records: readonly PlannedZipRecord[]): (PlannedZipRecord & { readonly crc32: number })[] {
    return records.map((record) => ({ ...record, crc32: record.crc32 ?? this.#join(record) }));
  }

  #join(record: PlannedZipRecord): number {
    const runs = (this.#runs.get(record.at) ?? []).toSorted((a, b) => a.from - b.from);
    const length = runs.reduce((sum, run) => sum + run.length, 0);
    assert(length === record.length, `record ${record.name} has ${record.length} bytes, ${length} were written`);
    return runs.reduce((crc, run) => combineCrc32(crc, run.crc32, run.length), 0);
  }
}
