/**
 * Reads strided extents: rows of a shard, columns of a transposed matrix. The source is read in windows that span many
 * runs, in the order of the file, and each run is copied to its place.
 *
 * @module
 */

import { mapBounded } from '../base/concurrent.js';
import type { Repeat } from '../base/extent.js';
import { releaseBytes, reserveBytes } from '../base/kernel-memory.js';
import { copyRows } from '../base/rows.js';
import { roomFor } from './buffers.js';
import type { StridedRead } from './reads.js';

/** Bytes of a window at most (4 MiB); one run may be longer. */
const WINDOW_BYTES = 2 ** 22;

/** Windows of one tile under way at once: few large ones, which is what memory allows, or many small ones. */
const MIN_LANES = 2;
const MAX_LANES = 8;

/** Up to so many bytes between runs are read along (128 KiB): a read costs about as much as reading these. */
const MAX_GAP = 2 ** 17;

/** Shorter runs are copied word by word (512 bytes): a call costs more. */
const SHORT_RUN = 512;

/** Rows and columns of a block that is copied at once, so that both sides stay in the cache of the processor. */
const BLOCK = 16;

/** Reads bytes of a source, and takes note of them where they are to be checked. */
export interface WindowReader {
  read(source: number, offset: number, into: Uint8Array): Promise<void>;
  /** Called with windows whose every byte belongs to the tile. */
  audit(source: number, offset: number, bytes: Uint8Array): void;
}

/** Follows `reads`; `targetOf` gives the bytes that each is to fill, from the start of its range on. */
export async function readStrided(
  reads: readonly StridedRead[],
  targetOf: (read: StridedRead) => Uint8Array,
  reader: WindowReader,
): Promise<void> {
  const windows = allWindows(reads);
  let next = windows.next();
  if (next.done) return;
  // The windows of a tile are much alike.
  const fitting = Math.floor((MIN_LANES * WINDOW_BYTES) / (next.value.to - next.value.from));
  const lanes = Math.max(MIN_LANES, Math.min(MAX_LANES, fitting));
  const take = () => {
    const taken = next;
    next = windows.next();
    return taken;
  };
  await mapBounded([...Array(lanes).keys()], lanes, async () => {
    let memory = new Uint8Array(0);
    try {
      for (let window = take(); !window.done; window = take()) {
        const { read, from, to } = window.value;
        const { source } = read.extent;
        if (memory.length < to - from) {
          releaseBytes(memory);
          memory = reserveBytes(roomFor(to - from));
        }
        const bytes = memory.subarray(0, to - from);
        await reader.read(source, from, bytes);
        if (copyRuns(window.value, bytes, targetOf(read)) === bytes.length) reader.audit(source, from, bytes);
      }
    } finally {
      releaseBytes(memory);
    }
  });
}

/** A range of a source, and the runs of an extent in it: turns `[first, last)` of one loop, and all that is inside them. */
interface Window {
  readonly read: StridedRead;
  readonly from: number;
  readonly to: number;
  /** Loops in the order of the source, the outermost of this window first. */
  readonly loops: readonly Repeat[];
  /** Where the first run of turn 0 starts, in the source and in the tensor. */
  readonly offset: number;
  readonly at: number;
  readonly first: number;
  readonly last: number;
}

function* allWindows(reads: readonly StridedRead[]): Generator<Window> {
  for (const read of reads) {
    const { extent } = read;
    const loops = (extent.repeat ?? []).toSorted((a, b) => b.from - a.from);
    yield* windowsOf(read, loops, extent.offset, extent.at);
  }
}

/** Cuts loops into windows: all turns where they fit into one, else as many as do, else the turns of the next loop. */
function* windowsOf(read: StridedRead, loops: readonly Repeat[], offset: number, at: number): Generator<Window> {
  const [loop = ONCE, ...inner] = loops;
  if (inner.length === 0) {
    yield* windowsOfRuns(read, loop, offset, at);
    return;
  }
  const { first, last } = turnsOf(read, loop, inner, at);
  let open: { first: number; from: number; to: number } | undefined;
  const window = (last: number, { first, from, to }: { first: number; from: number; to: number }): Window => {
    return { read, from, to, loops: [loop, ...inner], offset, at, first, last };
  };
  for (let turn = first; turn < last; turn++) {
    const range = rangeOf(read, inner, offset + turn * loop.from, at + turn * loop.to);
    if (!range) continue;
    const { from, to } = range;
    if (open && (from - open.to > MAX_GAP || Math.max(to, open.to) - Math.min(from, open.from) > WINDOW_BYTES)) {
      yield window(turn, open);
      open = undefined;
    }
    if (!open && to - from > WINDOW_BYTES) {
      yield* windowsOf(read, inner, offset + turn * loop.from, at + turn * loop.to);
      continue;
    }
    open = {
      first: open?.first ?? turn,
      from: Math.min(from, open?.from ?? from),
      to: Math.max(to, open?.to ?? to),
    };
  }
  if (open) yield window(last, open);
}

/** Windows of runs at equal distances: there may be millions, so they are not looked at one by one. */
function* windowsOfRuns(read: StridedRead, loop: Repeat, offset: number, at: number): Generator<Window> {
  const { length } = read.extent;
  const { first, last } = turnsOf(read, loop, [], at);
  const fitting = Math.floor((WINDOW_BYTES - length) / Math.max(1, loop.from)) + 1;
  const turns = loop.from - length > MAX_GAP ? 1 : Math.max(1, fitting);
  for (let turn = first; turn < last; turn += turns) {
    const end = Math.min(last, turn + turns);
    const from = rangeOf(read, [], offset + turn * loop.from, at + turn * loop.to)?.from;
    const to = rangeOf(read, [], offset + (end - 1) * loop.from, at + (end - 1) * loop.to)?.to;
    if (from !== undefined && to !== undefined)
      yield { read, from, to, loops: [loop], offset, at, first: turn, last: end };
  }
}

const ONCE: Repeat = { count: 1, from: 0, to: 0 };

/** The turns of a loop that can touch the range of a read. `inner` are the loops inside of it. */
function turnsOf(
  { extent, start, end }: StridedRead,
  { count, to }: Repeat,
  inner: readonly Repeat[],
  at: number,
): { first: number; last: number } {
  if (to === 0) return { first: 0, last: count };
  let span = extent.length;
  for (const loop of inner) span += (loop.count - 1) * loop.to;
  return {
    first: Math.max(0, Math.ceil((start - at - span + 1) / to)),
    last: Math.min(count, Math.ceil((end - at) / to)),
  };
}

/** The bytes of the source that the runs below span, as far as they touch the range of the read. */
function rangeOf(
  read: StridedRead,
  loops: readonly Repeat[],
  offset: number,
  at: number,
): { readonly from: number; readonly to: number } | undefined {
  const { extent, start, end } = read;
  const [loop, ...inner] = loops;
  if (!loop) {
    const from = offset + Math.max(0, start - at);
    const to = offset + Math.min(extent.length, end - at);
    return from < to ? { from, to } : undefined;
  }
  const { first, last } = turnsOf(read, loop, inner, at);
  if (first >= last) return undefined;
  // What the first and the last turn leave out is little; that it is read along does no harm.
  let span = extent.length;
  for (const { count, from } of inner) span += (count - 1) * from;
  return { from: offset + first * loop.from, to: offset + (last - 1) * loop.from + span };
}

/** Copies the runs of a window to their places, and gives the number of bytes that were copied. */
function copyRuns(window: Window, bytes: Uint8Array, target: Uint8Array): number {
  const { read, loops, offset, at, first, last } = window;
  const { extent, start, end } = read;
  const unit = unitOf(window, bytes, target);
  const [source, into] = [wordsOf(bytes, unit), wordsOf(target, unit)];
  let copied = 0;

  const copyRun = (from: number, to: number): void => {
    const begin = Math.max(start - to, 0);
    const length = Math.min(end - to, extent.length) - begin;
    if (length <= 0) return;
    copied += length;
    const [a, b] = [from + begin - window.from, to + begin - start];
    if (length > SHORT_RUN) {
      target.set(bytes.subarray(a, a + length), b);
      return;
    }
    const [read, put, words] = [a / unit, b / unit, length / unit];
    for (let i = 0; i < words; i++) into[put + i] = source[read + i] ?? 0;
  };

  /** Runs of one loop. Only the first and the last may be cut by the ends of the range. */
  const copyRow = (loop: Repeat, from: number, to: number, first: number, last: number): void => {
    for (let turn = first; turn < last; turn += Math.max(1, last - 1 - first)) {
      copyRun(from + turn * loop.from, to + turn * loop.to);
    }
    const turns = last - first - 2;
    if (turns <= 0) return;
    const { length } = extent;
    copied += turns * length;
    const read = from + (first + 1) * loop.from - window.from;
    const put = to + (first + 1) * loop.to - start;
    if (length > SHORT_RUN) {
      copyRows({ bytes, at: read, step: loop.from }, { bytes: target, at: put, step: loop.to }, length, turns);
      return;
    }
    const [steps, words] = [[loop.from / unit, loop.to / unit] as const, length / unit];
    copyWords(source, read / unit, steps[0], into, put / unit, steps[1], words, turns);
  };

  /** Runs of one word in two loops, by blocks that the cache holds. */
  const copyGrid = (outer: Repeat, inner: Repeat, from: number, to: number, first: number, last: number): void => {
    const lowest = turnsOf(read, inner, [], to + (last - 1) * outer.to).first;
    const highest = turnsOf(read, inner, [], to + first * outer.to).last;
    const [fromOuter, toOuter] = [outer.from / unit, outer.to / unit];
    const [fromInner, toInner] = [inner.from / unit, inner.to / unit];
    const [base, begin, count] = [(from - window.from) / unit, (to - start) / unit, (end - start) / unit];
    let words = 0;
    for (let i0 = first; i0 < last; i0 += BLOCK) {
      const i1 = Math.min(last, i0 + BLOCK);
      for (let j0 = lowest; j0 < highest; j0 += BLOCK) {
        const j1 = Math.min(highest, j0 + BLOCK);
        for (let i = i0; i < i1; i++) {
          for (let j = j0; j < j1; j++) {
            const put = begin + i * toOuter + j * toInner;
            if (put < 0 || put >= count) continue;
            into[put] = source[base + i * fromOuter + j * fromInner] ?? 0;
            words++;
          }
        }
      }
    }
    copied += words * unit;
  };

  const walk = (depth: number, from: number, to: number, first: number, last: number): void => {
    const [loop, inner] = [loops[depth], loops[depth + 1]];
    if (!loop) copyRun(from, to);
    else if (!inner) copyRow(loop, from, to, first, last);
    else if (depth + 2 === loops.length && extent.length === unit) copyGrid(loop, inner, from, to, first, last);
    else {
      const within = loops.slice(depth + 2);
      for (let turn = first; turn < last; turn++) {
        const [nextFrom, nextTo] = [from + turn * loop.from, to + turn * loop.to];
        const turns = turnsOf(read, inner, within, nextTo);
        walk(depth + 1, nextFrom, nextTo, turns.first, turns.last);
      }
    }
  };
  walk(0, offset, at, first, last);
  return copied;
}

type Words = Uint8Array | Uint16Array | Uint32Array;

/** Copies `turns` runs of so many words, each a step further on both sides. */
function copyWords(
  source: Words,
  from: number,
  stepFrom: number,
  into: Words,
  to: number,
  stepTo: number,
  words: number,
  turns: number,
): void {
  for (let turn = 0, read = from, put = to; turn < turns; turn++, read += stepFrom, put += stepTo) {
    for (let i = 0; i < words; i++) into[put + i] = source[read + i] ?? 0;
  }
}

/** The longest word, of up to four bytes, that every run consists of and is aligned to on both sides. */
function unitOf(
  { read: { extent, start, end }, from, loops, offset }: Window,
  bytes: Uint8Array,
  target: Uint8Array,
): 1 | 2 | 4 {
  const steps = loops.flatMap((loop) => [loop.from, loop.to]);
  const all = [extent.length, extent.at, start, end, offset - from, bytes.byteOffset, target.byteOffset, ...steps];
  for (const unit of [4, 2] as const) if (all.every((value) => value % unit === 0)) return unit;
  return 1;
}

function wordsOf(bytes: Uint8Array, unit: 1 | 2 | 4): Words {
  const { buffer, byteOffset, length } = bytes;
  if (unit === 4) return new Uint32Array(buffer, byteOffset, Math.floor(length / 4));
  return unit === 2 ? new Uint16Array(buffer, byteOffset, Math.floor(length / 2)) : bytes;
}
