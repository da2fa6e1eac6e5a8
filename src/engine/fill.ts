/**
 * Fills one tile: reads, gathers, converts, compares. Follows the tile's work to the letter.
 *
 * @module
 */

import { fromBase64 } from '../base/base64.js';
import { mapBounded } from '../base/concurrent.js';
import { bytesOf, type DType, isFloat, isTarget } from '../base/dtype.js';
import { assert, isUnshardError } from '../base/errors.js';
import type { Proof } from '../checkpoints/inventory.js';
import { compareElements, elementText } from '../numeric/compare.js';
import type { Plan, PlannedTensor } from '../plan/plan.js';
import type { CrcAudit } from './audit.js';
import type { Backend, ConvertStats } from './backend.js';
import { LaneBuffers, Scratch, type TileBuffers } from './buffers.js';
import { computeElements, type ReadFloats } from './compute.js';
import { cpuBackend, scanBytes } from './cpu.js';
import { flipSigns } from './flip.js';
import { inFileOrder, type ScatteredRead, type StridedRead, type TileRead } from './reads.js';
import type { PlanSources } from './sources.js';
import { readStrided } from './strided.js';
import { plannedTensor } from './tiles.js';
import { type Comparison, type Computation, type TileJob, type TileWork, workOf } from './work.js';
import type { WrittenRange } from './written.js';

/** Reads of one tile that are under way at once. */
const READ_LANES = 4;

/** What a run needs to fill tiles. */
export interface FillContext {
  readonly plan: Plan;
  readonly sources: PlanSources;
  /** Absent where recorded CRCs are not checked. */
  readonly audit: CrcAudit | undefined;
  readonly backend: ConverterSwitch;
  readonly signal: AbortSignal | undefined;
}

/** A backend, and the CPU for the jobs that it fails on. After a failure the CPU does the rest. */
export class ConverterSwitch {
  readonly #first: Backend;
  readonly #cpu = cpuBackend();
  #failed = false;
  /** Jobs that the CPU did in place of the first backend. */
  jobsOnCpu = 0;

  constructor(first: Backend) {
    this.#first = first;
  }

  /** Runs a job. */
  async convert(job: Parameters<Backend['convert']>[0]): Promise<ConvertStats[]> {
    if (!this.#failed) {
      try {
        return await this.#first.convert(job);
      } catch (error) {
        if (!isUnshardError(error, 'gpu')) throw error;
        this.#failed = true;
      }
    }
    this.jobsOnCpu++;
    return this.#cpu.convert(job);
  }
}

/** Statistics of one tensor in one tile. */
export interface TensorStats {
  /** Index into the plan's tensors. */
  readonly tensor: number;
  readonly stats: ConvertStats;
}

/** Bits on disk that are not what a tensor's round to. */
export interface Difference {
  /** Index into the plan's tensors. */
  readonly tensor: number;
  readonly proof: Proof;
  readonly dtype: DType;
  /** Index in the tensor of the first element that differs. */
  readonly index: number;
  /** Elements that differ, of those that this tile compared. */
  readonly count: number;
  /** The first such element as it is stored, and what it should be. */
  readonly stored: string;
  readonly rounded: string;
}

/** What filling a tile showed. */
export interface Filled {
  readonly stats: readonly TensorStats[];
  readonly differences: readonly Difference[];
}

/** What filling a tile showed to who did it. */
export interface FilledHere extends Filled {
  /** CRC-32s of bytes of the tile that are as they were read, in no particular order. */
  readonly copied: readonly WrittenRange[];
}

/** Fills the output buffer of a tile with the help of the others, and compares what is to be compared. */
export async function fillTile(context: FillContext, work: TileWork, buffers: TileBuffers): Promise<FilledHere> {
  const { plan, sources, audit, signal } = context;
  const { input, output } = buffers;
  const covered = work.tile.parts.reduce((sum, part) => sum + part.length, 0);
  if (covered < output.length) output.fill(0);
  for (const { base64, from, at, length } of work.literals) {
    output.set(fromBase64(base64).subarray(from, from + length), at);
  }
  const copied: WrittenRange[] = [];
  const readInto = async (read: TileRead): Promise<void> => {
    const bytes = buffers[read.into].subarray(read.at, read.at + read.length);
    await sources.read(read.source, read.offset, bytes, signal);
    const noted = noteRead(audit, read, bytes);
    if (read.into !== 'output') return;
    for (const { at, ...range } of noted) copied.push({ at: work.tile.at + read.at + at, ...range });
  };
  const scratch = new Scratch();
  const readScattered = async (read: ScatteredRead): Promise<void> => {
    const memory = scratch.take(read.length);
    const bytes = memory.subarray(0, read.length);
    try {
      await sources.read(read.source, read.offset, bytes, signal);
      noteRead(audit, read, bytes);
      for (const { from, into, to, length } of read.copies) buffers[into].set(bytes.subarray(from, from + length), to);
    } finally {
      scratch.give(memory);
    }
  };
  try {
    await mapBounded(inFileOrder([...work.reads, ...work.scattered]), READ_LANES, (read) =>
      'copies' in read ? readScattered(read) : readInto(read),
    );
  } finally {
    scratch.release();
  }
  const targetOf = ({ into, at, start, end }: StridedRead) => buffers[into].subarray(at, at + end - start);
  await readStrided(work.strided, targetOf, {
    read: (source, offset, bytes) => sources.read(source, offset, bytes, signal),
    audit: (source, offset, bytes) => void audit?.add(source, offset, bytes),
  });
  for (const { from, into, to, length } of work.copies) buffers[into].set(input.subarray(from, from + length), to);
  const stats: TensorStats[] = [];
  for (const job of work.jobs) {
    const overflow = plan.options.overflow === 'clamp' ? 'clamp' : 'inf';
    const results = await convert(context, job, overflow, input, output);
    for (const [slot, result] of results.entries()) stats.push({ tensor: job.tensors[slot] ?? -1, stats: result });
  }
  for (const computation of work.computations) stats.push(await compute(context, computation, output));
  stats.push(...finishParts(plan, work, output));
  for (const job of work.proofJobs) await convert(context, job, 'inf', buffers[job.input], buffers.rounded);
  const isTurned = work.tile.parts.some(({ part }) => part.kind === 'tensor' && plannedTensor(plan, part.tensor).flip);
  const differences = work.comparisons.flatMap((comparison) => compare(comparison, buffers));
  return { stats, differences, copied: isTurned ? [] : copied };
}

/** Notes what was read for the audit. Gives the CRC-32s of its ranges, whose places are those in the read; none without an audit. */
function noteRead(audit: CrcAudit | undefined, read: TileRead | ScatteredRead, bytes: Uint8Array): WrittenRange[] {
  return (read.checked ?? [read]).flatMap(({ source, offset, length }) => {
    const at = offset - read.offset;
    const crc32 = audit?.add(source, offset, bytes.subarray(at, at + length));
    return crc32 === undefined ? [] : [{ at, length, crc32 }];
  });
}

function convert(
  { backend }: FillContext,
  { from, to, at, length, pieces, tensors }: TileJob,
  overflow: 'inf' | 'clamp',
  input: Uint8Array,
  output: Uint8Array,
): Promise<ConvertStats[]> {
  const made = output.subarray(at, at + length);
  return backend.convert({ from, to, overflow, input, pieces, output: made, slots: tensors.length });
}

/** Computes a part of the tile and rounds it to the dtype of the output. On the CPU: WGSL does not say how it rounds floats. */
async function compute(context: FillContext, computation: Computation, output: Uint8Array): Promise<TensorStats> {
  const { tensor: index, at, length } = computation;
  const tensor = plannedTensor(context.plan, index);
  const values = await computeElements(tensor, computation, floatReader(context));
  const [input, made] = [new Uint8Array(values.buffer), output.subarray(at, at + length)];
  if (tensor.to === 'F32') {
    made.set(input);
    return { tensor: index, stats: scanBytes('F32', input) };
  }
  assert(isTarget(tensor.to), `${tensor.to} cannot be computed`);
  const overflow = context.plan.options.overflow === 'clamp' ? 'clamp' : 'inf';
  const pieces = [{ input: 0, output: 0, count: values.length, slot: 0 }];
  const [stats] = await cpuBackend().convert({
    from: 'F32',
    to: tensor.to,
    overflow,
    input,
    pieces,
    output: made,
    slots: 1,
  });
  assert(stats, 'the backend gave no statistics');
  return { tensor: index, stats };
}

/** Reads stored tensors as fp32, as a tile of a plan that writes them so. */
function floatReader(context: FillContext): ReadFloats {
  const buffers = new LaneBuffers();
  return async (bits, size, { first, count }) => {
    const operand: PlannedTensor = {
      ...bits,
      name: '',
      shape: [size],
      origin: 'master',
      from: bits.dtype,
      to: 'F32',
      fromCopy: false,
    };
    const plan = { ...context.plan, tensors: [operand] };
    const part = { kind: 'tensor', at: 0, length: 4 * size, tensor: 0 } as const;
    const parts = [{ part, from: 4 * first, length: 4 * count, at: 0 }];
    const work = workOf(plan, { file: 0, at: 0, length: 4 * count, parts });
    const values = new Float32Array(count);
    const fitted = buffers.fit(work, new Uint8Array(values.buffer));
    await fillTile({ ...context, plan, backend: new ConverterSwitch(cpuBackend()) }, work, fitted);
    return values;
  };
}

function compare(comparison: Comparison, buffers: TileBuffers): Difference[] {
  const { tensor, proof, dtype, first, at, length, against, againstAt, flips } = comparison;
  const stored = buffers.proof.subarray(at, at + length);
  for (const flip of flips) flipSigns(stored, dtype, flip);
  const made = buffers[against].subarray(againstAt, againstAt + length);
  const mismatch = compareElements(dtype, stored, made);
  if (!mismatch) return [];
  const offset = mismatch.first * bytesOf(dtype);
  return [
    {
      tensor,
      proof,
      dtype,
      index: first + mismatch.first,
      count: mismatch.count,
      stored: elementText(dtype, stored, offset),
      rounded: elementText(dtype, made, offset),
    },
  ];
}

/** Turns signs where a tensor is a lazy view, and counts over tensors that were copied. */
function finishParts(plan: Plan, work: TileWork, output: Uint8Array): TensorStats[] {
  return work.tile.parts.flatMap(({ part, at, length }) => {
    if (part.kind !== 'tensor') return [];
    const tensor = plan.tensors[part.tensor];
    assert(tensor, `the plan has no tensor ${part.tensor}`);
    if (tensor.compute) return [];
    const bytes = output.subarray(at, at + length);
    if (tensor.flip) flipSigns(bytes, tensor.to, tensor.flip);
    const copied = tensor.from === tensor.to && isFloat(tensor.to);
    return copied && isFloat(tensor.to) ? [{ tensor: part.tensor, stats: scanBytes(tensor.to, bytes) }] : [];
  });
}
