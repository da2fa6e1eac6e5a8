/**
 * Checks the CRC-32s that zip files record, on the very bytes that a run reads. The runs of one range come in any order
 * and are put together at the end.
 *
 * @module
 */

import { mapBounded } from '../base/concurrent.js';
import { combineCrc32, crc32 } from '../base/crc32.js';
import { assert, UnshardError } from '../base/errors.js';
import { counted } from '../base/words.js';
import type { CheckReport, RecordedCrc, SourceFile } from '../checkpoints/inventory.js';
import type { PlanSources } from './sources.js';

/** Bytes of a range that nobody needed are read at the end, to check the rest, up to this many (1 MiB). */
const MAX_EXTRA_BYTES = 2 ** 20;

/** Ranges whose runs are put together at once: some lack a few bytes, and wait for a read. */
const JOIN_LANES = 8;

/** Bytes that are read at once where damage is looked for (4 MiB). */
const DAMAGE_PIECE = 2 ** 22;

/** Bytes `[start, start + length)` of a range with a recorded CRC-32, and the CRC-32 that was found. */
export interface AuditRun {
  /** Index into the CRCs of the plan. */
  readonly range: number;
  readonly start: number;
  readonly length: number;
  readonly crc32: number;
}

/** A recorded CRC and its index in the plan. */
interface Range {
  readonly index: number;
  readonly crc: RecordedCrc;
}

/** Collects CRCs while a run reads. */
export class CrcAudit {
  readonly #crcs: readonly RecordedCrc[];
  readonly #extra: number;
  readonly #bySource = new Map<number, Range[]>();
  #runs: AuditRun[] = [];

  /** Of each range up to `extra` bytes that were not seen are read in the end. */
  constructor(crcs: readonly RecordedCrc[], extra = MAX_EXTRA_BYTES) {
    this.#crcs = crcs;
    this.#extra = extra;
    const ranges = crcs.map((crc, index) => ({ index, crc }));
    for (const range of ranges.toSorted((a, b) => a.crc.offset - b.crc.offset)) {
      const others = this.#bySource.get(range.crc.source);
      if (others) others.push(range);
      else this.#bySource.set(range.crc.source, [range]);
    }
  }

  /** Takes note of bytes that were read at `offset` of a source. Gives their CRC-32 where one range holds all of them. */
  add(source: number, offset: number, bytes: Uint8Array): number | undefined {
    let whole: number | undefined;
    const ranges = this.#bySource.get(source) ?? [];
    for (let i = firstEndingAfter(ranges, offset); i < ranges.length; i++) {
      const range = ranges[i];
      if (!range || range.crc.offset >= offset + bytes.length) break;
      const from = Math.max(offset, range.crc.offset);
      const to = Math.min(offset + bytes.length, range.crc.offset + range.crc.length);
      const crc = crc32(bytes.subarray(from - offset, to - offset));
      this.#runs.push({ range: range.index, start: from - range.crc.offset, length: to - from, crc32: crc });
      if (to - from === bytes.length) whole = crc;
    }
    return whole;
  }

  /** Takes note of what another audit of the same plan has found. */
  note(runs: readonly AuditRun[]): void {
    for (const run of runs) this.#runs.push(run);
  }

  /** What was found since the last call, for `note` of another audit. This one forgets it. */
  takeRuns(): readonly AuditRun[] {
    const taken = joinNeighbours(this.#runs);
    this.#runs = [];
    return taken;
  }

  /**
   * Compares every range.
   *
   * @throws UnshardError `crc-mismatch` for the first range whose bytes are not the ones that were saved.
   */
  async finish(
    sources: PlanSources,
    files: readonly SourceFile[],
    signal: AbortSignal | undefined,
  ): Promise<CheckReport> {
    let checked = 0;
    let skipped = 0;
    const runs = this.#crcs.map((): AuditRun[] => []);
    for (const run of this.#runs) runs[run.range]?.push(run);
    const all = await mapBounded(this.#crcs, JOIN_LANES, (crc, index) => {
      return joinRuns(crc, runs[index] ?? [], this.#extra, sources, signal);
    });
    for (const [index, crc] of this.#crcs.entries()) {
      const found = all[index];
      if (found === undefined) {
        skipped++;
        continue;
      }
      checked++;
      if (found !== crc.crc32) throw mismatch(crc, found, files);
    }
    const left = skipped === 0 ? '' : `; read in part only, and not checkable: ${skipped}`;
    const id = 'input-crc32';
    if (checked === 0) {
      return { id, status: 'not-checkable', detail: `No storage has a recorded CRC-32 and was read whole${left}.` };
    }
    return { id, status: 'passed', detail: `The CRC-32 of ${counted(checked, 'storage')} is the recorded one${left}.` };
  }
}

/**
 * Reads the ranges that hold the given bytes, and compares each with its recorded CRC-32: what looks like a contradiction
 * may be damage.
 *
 * @throws UnshardError `crc-mismatch`.
 */
export async function assertUndamaged(
  crcs: readonly RecordedCrc[],
  places: readonly { readonly source: number; readonly offset: number }[],
  sources: PlanSources,
  files: readonly SourceFile[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const holds = (crc: RecordedCrc) =>
    places.some(
      ({ source, offset }) => source === crc.source && offset >= crc.offset && offset < crc.offset + crc.length,
    );
  for (const crc of crcs.filter(holds)) {
    let found = 0;
    for (let at = 0; at < crc.length; at += DAMAGE_PIECE) {
      const bytes = new Uint8Array(Math.min(DAMAGE_PIECE, crc.length - at));
      await sources.read(crc.source, crc.offset + at, bytes, signal);
      found = crc32(bytes, found);
    }
    if (found !== crc.crc32) throw mismatch(crc, found, files);
  }
}

/** Runs that follow each other as one: what is read in many pieces is sent and kept as few. */
function joinNeighbours(runs: readonly AuditRun[]): AuditRun[] {
  const joined: AuditRun[] = [];
  for (const run of runs.toSorted((a, b) => a.range - b.range || a.start - b.start)) {
    const last = joined.at(-1);
    if (last?.range === run.range && last.start + last.length === run.start) {
      const crc = combineCrc32(last.crc32, run.crc32, run.length);
      joined[joined.length - 1] = { ...last, length: last.length + run.length, crc32: crc };
    } else joined.push(run);
  }
  return joined;
}

/**
 * The CRC of a whole range from the CRCs of its runs; undefined where more than `extra` bytes would have to be read for it:
 * those that no run has, and those that two have. Runs overlap where what lies between two of them was read along.
 */
async function joinRuns(
  range: RecordedCrc,
  runs: readonly AuditRun[],
  extra: number,
  sources: PlanSources,
  signal: AbortSignal | undefined,
): Promise<number | undefined> {
  const { used, toRead } = neededRuns(range, runs);
  if (toRead > extra) return undefined;
  // What nobody reads is mostly padding, and that is zeros. Where the CRC comes out with them, what was read is right.
  if (toRead > 0 && crcWithZeros(range, used) === range.crc32) return range.crc32;
  const crcOf = async (start: number, end: number): Promise<number> => {
    const bytes = new Uint8Array(end - start);
    await sources.read(range.source, range.offset + start, bytes, signal);
    return crc32(bytes);
  };
  let crc = 0;
  let at = 0;
  const fillTo = async (start: number): Promise<void> => {
    if (start > at) crc = combineCrc32(crc, await crcOf(at, start), start - at);
    at = Math.max(at, start);
  };
  for (const run of used) {
    await fillTo(run.start);
    const length = run.start + run.length - at;
    // CRC-32s are put together by a sum without carry: what was put in is taken out by the same sum.
    const own = run.start < at ? combineCrc32(await crcOf(run.start, at), run.crc32, length) : run.crc32;
    crc = combineCrc32(crc, own, length);
    at += length;
  }
  await fillTo(range.length);
  return crc;
}

/** The CRC of a whole range where all that no run has is zeros; undefined where runs overlap. */
function crcWithZeros({ length }: RecordedCrc, runs: readonly AuditRun[]): number | undefined {
  let [crc, at] = [0, 0];
  const fillTo = (start: number): void => {
    if (start > at) crc = combineCrc32(crc, crc32(new Uint8Array(start - at)), start - at);
  };
  for (const run of runs) {
    if (run.start < at) return undefined;
    fillTo(run.start);
    crc = combineCrc32(crc, run.crc32, run.length);
    at = run.start + run.length;
  }
  fillTo(length);
  return crc;
}

/** The runs that each bring bytes which those before them have not, in order, and the bytes to read to put them together. */
function neededRuns({ length }: RecordedCrc, runs: readonly AuditRun[]): { used: AuditRun[]; toRead: number } {
  const used: AuditRun[] = [];
  let at = 0;
  let toRead = 0;
  for (const run of runs.toSorted((a, b) => a.start - b.start || b.length - a.length)) {
    if (run.start + run.length <= at) continue;
    toRead += Math.abs(run.start - at);
    used.push(run);
    at = run.start + run.length;
  }
  return { used, toRead: toRead + length - at };
}

function firstEndingAfter(ranges: readonly Range[], offset: number): number {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const range = ranges[middle]?.crc;
    if (range && range.offset + range.length <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}

function mismatch(range: RecordedCrc, found: number, files: readonly SourceFile[]): UnshardError {
  const file = files[range.source]?.path;
  assert(file, `the plan has no source ${range.source}`);
  const hex = (crc: number) => crc.toString(16).padStart(8, '0');
  return new UnshardError({
    kind: 'bad-file',
    code: 'crc-mismatch',
    message: `${file} is damaged: the ${range.length} bytes at ${range.offset} have CRC-32 ${hex(found)}; ${hex(range.crc32)} was recorded when they were saved.`,
    advice:
      'Copy the file again from where it was written. torch.load does not see this damage. Where no other copy is left, a partial recovery can do without the file of one rank: --ignore-file, or lost in a program.',
    facts: { file, offset: range.offset, expected: hex(range.crc32), found: hex(found) },
  });
}
