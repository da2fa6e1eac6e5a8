/**
 * Where the bytes that a tile needs go: long runs are read straight to their place, short ones together with their
 * neighbours and copied from there. Pure.
 *
 * @module
 */

import type { Extent, Partition, Piece } from '../base/extent.js';
import { type Run, slicePieces } from '../base/slice.js';

/** Shorter runs are read together with their neighbours and copied; longer ones are read straight to their place (64 KiB). */
const SMALL_RUN = 2 ** 16;
/** Reads of small runs are joined over a gap of at most this (16 KiB) … */
const MAX_GAP = 2 ** 14;
/** … up to this length (1 MiB). */
const MAX_JOINED = 2 ** 20;

/** A gap of at most this (1 KiB) is padding or a tiny tensor; a larger one is often read with another tile, to its place. */
const CHECKED_GAP = 2 ** 10;

/** The largest alignment of an element. */
const ALIGNMENT = 8;

/** Buffers that bytes are read into: what jobs gather from, the tile itself, and bits to compare with. */
export type ReadTarget = 'input' | 'output' | 'proof';

/** A range of a source. */
export interface SourceRange {
  readonly source: number;
  readonly offset: number;
  readonly length: number;
}

/** A read of one range of a source into one of the tile's buffers. */
export interface TileRead extends SourceRange {
  readonly into: ReadTarget;
  readonly at: number;
  /** What of it is to be checked: present where gaps are read along that another tile may need. In order. */
  readonly checked?: readonly SourceRange[];
}

/** A read of short runs that go on to other places than the input. */
export interface ScatteredRead extends SourceRange {
  readonly copies: readonly TileCopy[];
  /** As that of a `TileRead`. */
  readonly checked?: readonly SourceRange[];
}

/** A strided extent, of which bytes `[start, end)` of the tensor go to byte `at` of a buffer. */
export interface StridedRead {
  readonly extent: Extent;
  readonly start: number;
  readonly end: number;
  readonly into: ReadTarget;
  readonly at: number;
}

/** Bytes of the input buffer, or of a scattered read, that go to another buffer. */
export interface TileCopy {
  readonly from: number;
  readonly into: Exclude<ReadTarget, 'input'>;
  readonly to: number;
  readonly length: number;
}

/** Bytes `[at, at + length)` of a range of a tensor that lie at byte `place` of the input buffer. */
export type Placed = (run: { readonly at: number; readonly length: number }, place: number) => void;

/** Collects the reads of one tile. Call `finish` when all are asked for: short runs are only placed then. */
export class ReadLayout {
  readonly reads: TileRead[] = [];
  readonly scattered: ScatteredRead[] = [];
  readonly strided: StridedRead[] = [];
  readonly copies: TileCopy[] = [];
  /** Bytes of the input buffer that are in use. */
  inputLength = 0;
  readonly #partitions: readonly (readonly Partition[])[];
  readonly #small: SmallRun[] = [];

  constructor(partitions: readonly (readonly Partition[])[]) {
    this.#partitions = partitions;
  }

  /** Bytes `[start, end)` of a tensor go to byte `at` of a buffer, in order. */
  toBuffer(pieces: readonly Piece[], start: number, end: number, into: TileCopy['into'], at: number): void {
    const slices = slicePieces(pieces, this.#partitions, start, end);
    for (const run of slices.runs) {
      const to = at + run.at;
      if (run.length < SMALL_RUN) {
        this.#small.push({ run, into, to });
      } else this.reads.push({ source: run.source, offset: run.offset, length: run.length, into, at: to });
    }
    for (const extent of slices.strided) this.strided.push({ extent, start, end, into, at });
  }

  /** Bytes `[start, end)` of a tensor go to the input buffer, in any order; `placed` is told where each run is. */
  toInput(pieces: readonly Piece[], start: number, end: number, placed: Placed): void {
    const slices = slicePieces(pieces, this.#partitions, start, end);
    if (slices.strided.length > 0) {
      // Strided runs are put into tensor order as they are read, and plain ones among them: together they are one run.
      const place = this.#take(end - start, 0);
      for (const extent of slices.strided) this.strided.push({ extent, start, end, into: 'input', at: place });
      for (const { source, offset, length, at } of slices.runs) {
        this.reads.push({ source, offset, length, into: 'input', at: place + at });
      }
      placed({ at: 0, length: end - start }, place);
      return;
    }
    for (const run of slices.runs) {
      if (run.length < SMALL_RUN) {
        this.#small.push({ run, placed: (place) => placed(run, place) });
        continue;
      }
      const place = this.#take(run.length, run.offset);
      this.reads.push({ source: run.source, offset: run.offset, length: run.length, into: 'input', at: place });
      placed(run, place);
    }
  }

  /** Joins short runs that are near each other in their source, and tells each where its bytes will be. */
  finish(): void {
    const sorted = this.#small.toSorted((a, b) => a.run.source - b.run.source || a.run.offset - b.run.offset);
    for (let first = 0; first < sorted.length; ) {
      const start = sorted[first]?.run;
      if (!start) break;
      let end = start.offset + start.length;
      let next = first + 1;
      for (; next < sorted.length; next++) {
        const run = sorted[next]?.run;
        const near = run && run.source === start.source && run.offset - end <= MAX_GAP;
        if (!near || run.offset + run.length - start.offset > MAX_JOINED) break;
        end = Math.max(end, run.offset + run.length);
      }
      this.#join({ source: start.source, offset: start.offset, length: end - start.offset }, sorted.slice(first, next));
      first = next;
    }
  }

  #join(range: SourceRange, runs: readonly SmallRun[]): void {
    const checked = checkedOf(range, runs);
    if (runs.every((small) => 'into' in small)) {
      const copies = runs.map(({ run, into, to }) => ({
        from: run.offset - range.offset,
        into,
        to,
        length: run.length,
      }));
      this.scattered.push({ ...range, copies, ...checked });
      return;
    }
    const place = this.#take(range.length, range.offset);
    this.reads.push({ ...range, into: 'input', at: place, ...checked });
    for (const small of runs) {
      const { offset, length } = small.run;
      const from = place + offset - range.offset;
      if ('into' in small) this.copies.push({ from, into: small.into, to: small.to, length });
      else small.placed(from);
    }
  }

  /** Room in the input buffer for bytes that start at `offset` of a file: elements keep the alignment that they have there. */
  #take(length: number, offset: number): number {
    const at = this.inputLength + ((((offset - this.inputLength) % ALIGNMENT) + ALIGNMENT) % ALIGNMENT);
    this.inputLength = at + length;
    return at;
  }
}

/** A short run, and where it goes: to a place in a buffer, or wherever it is read to. */
type SmallRun = { readonly run: Run } & (
  | { readonly into: TileCopy['into']; readonly to: number }
  | { readonly placed: (place: number) => void }
);

/** The runs of a joined read, in its order, without the large gaps between them; nothing where there are none. */
function checkedOf({ source, offset, length }: SourceRange, runs: readonly SmallRun[]): { checked?: SourceRange[] } {
  const checked: SourceRange[] = [];
  let [start, end] = [offset, offset];
  for (const { run } of runs) {
    if (run.offset - end > CHECKED_GAP) {
      checked.push({ source, offset: start, length: end - start });
      start = run.offset;
    }
    end = Math.max(end, run.offset + run.length);
  }
  if (start === offset) return {};
  checked.push({ source, offset: start, length: offset + length - start });
  return { checked };
}

/**
 * The reads of each source in the order of its file, so that one can go on where another ended; of all sources by turns.
 */
export function inFileOrder<Read extends SourceRange>(reads: readonly Read[]): readonly Read[] {
  const bySource = new Map<number, Read[]>();
  for (const read of reads.toSorted((a, b) => a.offset - b.offset)) {
    const others = bySource.get(read.source);
    if (others) others.push(read);
    else bySource.set(read.source, [read]);
  }
  const ranked = [...bySource.values()].flatMap((ofSource) => ofSource.map((read, rank) => ({ read, rank })));
  return ranked.toSorted((a, b) => a.rank - b.rank).map(({ read }) => read);
}
