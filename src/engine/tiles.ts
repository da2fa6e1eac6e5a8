/**
 * Cuts an output file into tiles of bounded size, and says for each what to read, where to, and what to convert. Pure:
 * the loop that follows it decides nothing.
 *
 * @module
 */

import { bytesOf, type DType, type FloatDType, isFloat, type TargetDType } from '../base/dtype.js';
import { assert } from '../base/errors.js';
import type { Extent } from '../base/extent.js';
import { type Run, slicePieces } from '../base/slice.js';
import type { OutputFile, OutputPart, Plan, PlannedTensor } from '../plan/plan.js';
import type { JobPiece } from './backend.js';

/** Bytes of a tile, read or written, whichever is more: large enough that a call's overhead vanishes (16 MiB). */
export const TILE_BYTES = 2 ** 24;

/** Shorter runs are read together with their neighbours and copied; longer ones are read straight to their place (64 KiB). */
const SMALL_RUN = 2 ** 16;
/** Reads of small runs are joined over a gap of at most this (16 KiB) … */
const MAX_GAP = 2 ** 14;
/** … up to this length (1 MiB). */
const MAX_JOINED = 2 ** 20;

/** The largest alignment of an element. */
const ALIGNMENT = 8;

/** A range of one output file. */
export interface Tile {
  /** Index of the file in the plan. */
  readonly file: number;
  /** Byte range of the file. Bytes that no part covers are zeros. */
  readonly at: number;
  readonly length: number;
  readonly parts: readonly TilePart[];
}

/** The part of an output part that lies in a tile: bytes `[from, from + length)` of it, at byte `at` of the tile. */
export interface TilePart {
  readonly part: OutputPart;
  readonly from: number;
  readonly length: number;
  readonly at: number;
}

/** What it takes to fill a tile. */
export interface TileWork {
  readonly tile: Tile;
  /** Bytes of the input buffer that the reads and copies use. */
  readonly inputLength: number;
  readonly reads: readonly TileRead[];
  readonly strided: readonly StridedRead[];
  /** Small runs of parts that are not converted: from the input buffer to the tile. */
  readonly copies: readonly { readonly from: number; readonly to: number; readonly length: number }[];
  readonly literals: readonly {
    readonly base64: string;
    readonly from: number;
    readonly at: number;
    readonly length: number;
  }[];
  readonly jobs: readonly TileJob[];
}

/** A read of one range of a source into one of the tile's buffers. */
export interface TileRead {
  readonly source: number;
  readonly offset: number;
  readonly length: number;
  readonly into: 'input' | 'output';
  readonly at: number;
}

/** A strided extent, of which bytes `[start, end)` of the tensor go to byte `at` of a buffer. */
export interface StridedRead {
  readonly extent: Extent;
  readonly start: number;
  readonly end: number;
  readonly into: 'input' | 'output';
  readonly at: number;
}

/** One conversion: consecutive parts of a tile with the same pair of dtypes. */
export interface TileJob {
  readonly from: FloatDType;
  readonly to: TargetDType;
  /** Byte range of the tile. */
  readonly at: number;
  readonly length: number;
  readonly pieces: readonly JobPiece[];
  /** Index into the plan's tensors of each slot. */
  readonly tensors: readonly number[];
}

/** The tiles of a file, in order. */
export function* tilesOf(plan: Plan, file: number): Generator<Tile> {
  let parts: TilePart[] = [];
  let start = 0;
  let spent = 0;
  for (const part of outputFile(plan, file).parts) {
    const density = densityOf(plan, part);
    const unit = unitOf(plan, part);
    for (let from = 0; from < part.length; ) {
      if (parts.length === 0) {
        start = part.at + from;
        spent = 0;
      }
      const room = Math.floor((TILE_BYTES - spent) / density / unit) * unit;
      if (room <= 0) {
        yield tile(file, start, parts);
        parts = [];
        continue;
      }
      const length = Math.min(room, part.length - from);
      parts.push({ part, from, length, at: part.at + from - start });
      spent += length * density;
      from += length;
    }
  }
  if (parts.length > 0) yield tile(file, start, parts);
}

/** Works out the reads, copies and jobs of a tile. */
export function workOf(plan: Plan, tile: Tile): TileWork {
  const input = new InputLayout();
  const reads: TileRead[] = [];
  const strided: StridedRead[] = [];
  const small: { run: Run; done: (at: number) => void }[] = [];
  const copies: { from: number; to: number; length: number }[] = [];
  const literals: { base64: string; from: number; at: number; length: number }[] = [];
  const jobs: OpenJob[] = [];

  for (const { part, from, length, at } of tile.parts) {
    if (part.kind === 'literal') {
      literals.push({ base64: part.base64, from, at, length });
      continue;
    }
    const bits = bitsOf(plan, part);
    const ratio = bytesOf(bits.from) / bytesOf(bits.to);
    const start = from * ratio;
    const end = start + length * ratio;
    const slices = slicePieces(bits.pieces, plan.partitions, start, end);
    if (bits.from === bits.to) {
      for (const run of slices.runs) {
        const to = at + run.at;
        if (run.length < SMALL_RUN)
          small.push({ run, done: (copied) => copies.push({ from: copied, to, length: run.length }) });
        else reads.push({ source: run.source, offset: run.offset, length: run.length, into: 'output', at: to });
      }
      for (const extent of slices.strided) strided.push({ extent, start, end, into: 'output', at });
      continue;
    }
    assert(part.kind === 'tensor', 'only tensors are converted');
    const job = jobFor(jobs, bits, at, length, part.tensor);
    const size = bytesOf(bits.from);
    const first = job.count;
    const slot = job.tensors.length - 1;
    const add = (run: { at: number; length: number }, place: number): void => {
      job.pieces.push({
        input: place,
        output: first + run.at / size,
        count: run.length / size,
        slot,
      });
    };
    for (const run of slices.runs) {
      if (run.length < SMALL_RUN) {
        small.push({ run, done: (place) => add(run, place) });
        continue;
      }
      const place = input.take(run.length, run.offset);
      reads.push({ source: run.source, offset: run.offset, length: run.length, into: 'input', at: place });
      add(run, place);
    }
    if (slices.strided.length > 0) {
      // Strided runs are put into tensor order as they are read, so that they are one piece here.
      const place = input.take(end - start, 0);
      for (const extent of slices.strided) strided.push({ extent, start, end, into: 'input', at: place });
      add({ at: 0, length: end - start }, place);
    }
    job.count += (end - start) / size;
  }

  reads.push(...joinSmallRuns(small, input));
  return {
    tile,
    inputLength: input.length,
    reads,
    strided,
    copies,
    literals,
    jobs: jobs.map(({ count: _, pieces, ...job }) => ({
      ...job,
      pieces: pieces.toSorted((a, b) => a.output - b.output),
    })),
  };
}

interface OpenJob {
  from: FloatDType;
  to: TargetDType;
  at: number;
  length: number;
  count: number;
  pieces: JobPiece[];
  tensors: number[];
}

/** The job that ends where the part starts and converts the same pair, extended by the part; else a new one. */
function jobFor(jobs: OpenJob[], bits: PartBits, at: number, length: number, tensor: number): OpenJob {
  assert(isFloat(bits.from) && isTarget(bits.to), `no conversion from ${bits.from} to ${bits.to}`);
  const last = jobs.at(-1);
  if (last && last.from === bits.from && last.to === bits.to && last.at + last.length === at) {
    last.length += length;
    last.tensors.push(tensor);
    return last;
  }
  const job: OpenJob = { from: bits.from, to: bits.to, at, length, count: 0, pieces: [], tensors: [tensor] };
  jobs.push(job);
  return job;
}

/** Joins small runs that are near each other in their source, and tells each where its bytes will be. */
function joinSmallRuns(small: readonly { run: Run; done: (at: number) => void }[], input: InputLayout): TileRead[] {
  const sorted = small.toSorted((a, b) => a.run.source - b.run.source || a.run.offset - b.run.offset);
  const reads: TileRead[] = [];
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
    const place = input.take(end - start.offset, start.offset);
    reads.push({ source: start.source, offset: start.offset, length: end - start.offset, into: 'input', at: place });
    for (const { run, done } of sorted.slice(first, next)) done(place + run.offset - start.offset);
    first = next;
  }
  return reads;
}

/** Hands out room in the input buffer. */
class InputLayout {
  length = 0;

  /** Room for bytes that start at `offset` of a file: elements keep the alignment that they have there. */
  take(length: number, offset: number): number {
    const at = this.length + ((((offset - this.length) % ALIGNMENT) + ALIGNMENT) % ALIGNMENT);
    this.length = at + length;
    return at;
  }
}

interface PartBits extends Pick<PlannedTensor, 'pieces'> {
  readonly from: DType;
  readonly to: DType;
}

function bitsOf(plan: Plan, part: Exclude<OutputPart, { kind: 'literal' }>): PartBits {
  if (part.kind === 'tensor') return plannedTensor(plan, part.tensor);
  return { from: 'U8', to: 'U8', pieces: [{ source: part.source, offset: 0, length: part.length, at: 0 }] };
}

/** Bytes that are read or written, whichever is more, per byte that is written. */
function densityOf(plan: Plan, part: OutputPart): number {
  if (part.kind === 'literal') return 1;
  const { from, to } = bitsOf(plan, part);
  return Math.max(1, bytesOf(from) / bytesOf(to));
}

/** A tile ends at the end of an element. */
function unitOf(plan: Plan, part: OutputPart): number {
  return part.kind === 'tensor' ? bytesOf(plannedTensor(plan, part.tensor).to) : 1;
}

function tile(file: number, at: number, parts: readonly TilePart[]): Tile {
  const last = parts.at(-1);
  return { file, at, length: last ? last.at + last.length : 0, parts };
}

function isTarget(dtype: DType): dtype is TargetDType {
  return dtype === 'F32' || dtype === 'F16' || dtype === 'BF16';
}

function plannedTensor(plan: Plan, index: number): PlannedTensor {
  const tensor = plan.tensors[index];
  assert(tensor, `the plan has no tensor ${index}`);
  return tensor;
}

function outputFile(plan: Plan, index: number): OutputFile {
  const file = plan.files[index];
  assert(file, `the plan has no file ${index}`);
  return file;
}
