/**
 * What it takes to fill a tile: what to read, where to, what to convert, and what to compare. Pure: who follows it
 * decides nothing.
 *
 * @module
 */

import { bytesOf, type DType, type FloatDType, isFloat, isTarget, type TargetDType } from '../base/dtype.js';
import { assert } from '../base/errors.js';
import type { Piece } from '../base/extent.js';
import type { Proof } from '../checkpoints/inventory.js';
import type { Flip } from '../formats/torch/tensor.js';
import type { Compute, OutputPart, Plan } from '../plan/plan.js';
import type { JobPiece } from './backend.js';
import type { ElementRange } from './compute.js';
import {
  type Placed,
  ReadLayout,
  type ScatteredRead,
  type StridedRead,
  type TileCopy,
  type TileRead,
} from './reads.js';
import { plannedTensor, type Tile } from './tiles.js';

/** What it takes to fill a tile. */
export interface TileWork {
  readonly tile: Tile;
  /** Bytes of the input buffer that the reads and copies use. */
  readonly inputLength: number;
  readonly reads: readonly TileRead[];
  readonly strided: readonly StridedRead[];
  /** Reads of short runs that are copied to their places at once. */
  readonly scattered: readonly ScatteredRead[];
  /** Short runs that were read with those of jobs: from the input buffer to their place. */
  readonly copies: readonly TileCopy[];
  readonly literals: readonly TileLiteral[];
  readonly jobs: readonly TileJob[];
  /** Parts whose values are computed. */
  readonly computations: readonly Computation[];
  /** Bytes of the buffers of what is compared: the stored bits, and at the same places the rounded ones. */
  readonly proofLength: number;
  /** Conversions whose results are only compared. Their range is one of the rounded bits. */
  readonly proofJobs: readonly ProofJob[];
  readonly comparisons: readonly Comparison[];
}

/** Elements of a computed tensor. */
export interface Computation extends ElementRange {
  /** Index into the plan's tensors. */
  readonly tensor: number;
  /** Byte range of the tile. */
  readonly at: number;
  readonly length: number;
}

/** Bytes `[from, from + length)` of a literal, at byte `at` of the tile. */
export interface TileLiteral {
  readonly base64: string;
  readonly from: number;
  readonly at: number;
  readonly length: number;
}

/** One conversion: consecutive parts of a tile with the same pair of dtypes. */
export interface TileJob {
  readonly from: FloatDType;
  readonly to: TargetDType;
  /** Byte range of what the job makes. */
  readonly at: number;
  readonly length: number;
  readonly pieces: readonly JobPiece[];
  /** Index into the plan's tensors of each slot. */
  readonly tensors: readonly number[];
}

/** A conversion that reads what the tile's jobs read, or what they do not change. */
export interface ProofJob extends TileJob {
  readonly input: 'input' | 'output';
}

/** Stored bits of a tensor and what they must equal. */
export interface Comparison {
  /** Index into the plan's tensors. */
  readonly tensor: number;
  readonly proof: Proof;
  readonly dtype: DType;
  /** Index in the tensor of the first element. */
  readonly first: number;
  /** Byte range of the stored bits in their buffer. */
  readonly at: number;
  readonly length: number;
  /** Where the other side is. */
  readonly against: 'input' | 'output' | 'rounded';
  readonly againstAt: number;
  /** What is done to the signs of the stored bits first. */
  readonly flips: readonly Flip[];
}

/** Works out the reads, copies, jobs and comparisons of a tile. */
export function workOf(plan: Plan, tile: Tile): TileWork {
  const reads = new ReadLayout(plan.partitions);
  const literals: TileLiteral[] = [];
  const jobs = new JobList<'input'>();
  const computations: Computation[] = [];
  const proofs = new ProofLayout(plan, reads);
  for (const { part, from, length, at } of tile.parts) {
    if (part.kind === 'literal') {
      literals.push({ base64: part.base64, from, at, length });
      continue;
    }
    const bits = bitsOf(plan, part);
    const range = { first: from / bytesOf(bits.to), count: length / bytesOf(bits.to) };
    const [start, end] = bytesOfRange(range, bits.from);
    const tensor = part.kind === 'tensor' ? part.tensor : -1;
    if (bits.compute) {
      computations.push({ tensor, ...range, at, length });
      for (const proof of bits.proofs) proofs.add(proof, tensor, range, at);
      continue;
    }
    if (bits.from === bits.to) {
      reads.toBuffer(bits.pieces, start, end, 'output', at);
      for (const proof of bits.proofs) proofs.add(proof, tensor, range, at);
      continue;
    }
    const placed = [jobs.add('input', bits, at, range.count, tensor)];
    for (const proof of bits.proofs) placed.push(...proofs.add(proof, tensor, range, at));
    reads.toInput(bits.pieces, start, end, (run, place) => {
      for (const tell of placed) tell(run, place);
    });
  }
  reads.finish();
  return {
    tile,
    inputLength: reads.inputLength,
    reads: reads.reads,
    scattered: reads.scattered,
    strided: reads.strided,
    copies: reads.copies,
    literals,
    jobs: jobs.finished(),
    computations,
    proofLength: proofs.length,
    proofJobs: proofs.jobs.finished(),
    comparisons: proofs.comparisons,
  };
}

/** The bits that a part is made of. */
interface PartBits {
  readonly from: DType;
  readonly to: DType;
  readonly pieces: readonly Piece[];
  readonly compute?: Compute;
  readonly proofs: readonly Proof[];
}

function bitsOf(plan: Plan, part: Exclude<OutputPart, { kind: 'literal' }>): PartBits {
  if (part.kind === 'tensor') return { proofs: [], ...plannedTensor(plan, part.tensor) };
  const pieces = [{ source: part.source, offset: 0, length: part.length, at: 0 }];
  return { from: 'U8', to: 'U8', pieces, proofs: [] };
}

function bytesOfRange({ first, count }: ElementRange, dtype: DType): [start: number, end: number] {
  return [first * bytesOf(dtype), (first + count) * bytesOf(dtype)];
}

interface OpenJob<Input> {
  readonly input: Input;
  readonly from: FloatDType;
  readonly to: TargetDType;
  readonly at: number;
  length: number;
  count: number;
  readonly pieces: JobPiece[];
  readonly tensors: number[];
}

/** Jobs that grow with each part that follows where they end and converts the same pair. */
class JobList<Input extends ProofJob['input']> {
  readonly #jobs: OpenJob<Input>[] = [];

  /** Adds `count` elements of a tensor, whose results go to byte `at`; what is given back wants to know where they lie. */
  add(input: Input, { from, to }: { from: DType; to: DType }, at: number, count: number, tensor: number): Placed {
    assert(isFloat(from) && isTarget(to), `no conversion from ${from} to ${to}`);
    const size = bytesOf(from);
    let job = this.#jobs.at(-1);
    if (!job || job.input !== input || job.from !== from || job.to !== to || job.at + job.length !== at) {
      job = { input, from, to, at, length: 0, count: 0, pieces: [], tensors: [] };
      this.#jobs.push(job);
    }
    const { pieces } = job;
    const first = job.count;
    const slot = job.tensors.push(tensor) - 1;
    job.length += count * bytesOf(to);
    job.count += count;
    return (run, place) => {
      pieces.push({ input: place, output: first + run.at / size, count: run.length / size, slot });
    };
  }

  finished(): (TileJob & { readonly input: Input })[] {
    return this.#jobs.map(({ count: _, pieces, ...job }) => ({
      ...job,
      pieces: pieces.toSorted((a, b) => a.output - b.output),
    }));
  }
}

/** Collects what a tile compares. */
class ProofLayout {
  readonly jobs = new JobList<'input' | 'output'>();
  readonly comparisons: Comparison[] = [];
  /** Bytes of the buffer of stored bits that are in use. */
  length = 0;
  readonly #plan: Plan;
  readonly #reads: ReadLayout;

  constructor(plan: Plan, reads: ReadLayout) {
    this.#plan = plan;
    this.#reads = reads;
  }

  /**
   * Compares elements of a tensor, which are written from byte `outputAt` of the tile on, with a proof. Gives what wants
   * to know where they lie in the input, for tensors that are converted.
   */
  add(proof: Proof, tensor: number, range: ElementRange, outputAt: number): Placed[] {
    const { from, to, flip, compute } = plannedTensor(this.#plan, tensor);
    const { dtype } = proof;
    const size = bytesOf(dtype);
    // Aligned, so that what is compared can be seen as words.
    const at = Math.ceil(this.length / size) * size;
    const length = range.count * size;
    this.length = at + length;
    this.#reads.toBuffer(proof.pieces, ...bytesOfRange(range, dtype), 'proof', at);

    const stored = proof.flip === undefined ? [] : [proof.flip];
    const whole = { tensor, proof, dtype, first: range.first, at, length };
    // With "clamp" the tile has other bits than rounding gives.
    const isInTile = dtype === to && (from === to || this.#plan.options.overflow !== 'clamp');
    if (isInTile) {
      this.comparisons.push({ ...whole, against: 'output', againstAt: outputAt, flips: stored });
      return [];
    }
    assert(!compute, 'a computed tensor can only be compared as it is written');
    if (from === to) {
      const placed = this.jobs.add('output', { from, to: dtype }, at, range.count, tensor);
      placed({ at: 0, length: range.count * bytesOf(from) }, outputAt);
      this.comparisons.push({ ...whole, against: 'rounded', againstAt: at, flips: stored });
      return [];
    }
    // The input is what is stored: signs are turned in the output alone.
    const flips = flip === undefined ? stored : [...stored, flip];
    if (from === dtype) {
      return [
        (run, place) => {
          const first = range.first + run.at / size;
          const part = { first, at: at + run.at, length: run.length };
          this.comparisons.push({ ...whole, ...part, against: 'input', againstAt: place, flips });
        },
      ];
    }
    this.comparisons.push({ ...whole, against: 'rounded', againstAt: at, flips });
    return [this.jobs.add('input', { from, to: dtype }, at, range.count, tensor)];
  }
}
