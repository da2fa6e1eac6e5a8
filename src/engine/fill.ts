/**
 * Fills one tile: reads, gathers, converts. Follows the tile's work to the letter.
 *
 * @module
 */

import { fromBase64 } from '../base/base64.js';
import { mapBounded } from '../base/concurrent.js';
import { isFloat } from '../base/dtype.js';
import { assert, isUnshardError } from '../base/errors.js';
import { forEachRun } from '../base/slice.js';
import type { Plan } from '../plan/plan.js';
import type { CrcAudit } from './audit.js';
import type { Backend, ConvertStats } from './backend.js';
import { cpuBackend, scanBytes } from './cpu.js';
import { flipSigns } from './flip.js';
import type { PlanSources } from './sources.js';
import type { StridedRead, TileWork } from './tiles.js';

/** Reads of one tile that are under way at once. */
const READ_LANES = 4;

/** Strided runs are read through a window of at most this (8 MiB). */
const WINDOW_BYTES = 2 ** 23;

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

/** Fills `output` (the tile, exactly as long) with the help of `input` (at least the work's input length). */
export async function fillTile(
  context: FillContext,
  work: TileWork,
  input: Uint8Array,
  output: Uint8Array,
): Promise<TensorStats[]> {
  const { plan, sources, audit, signal } = context;
  const buffers = { input, output };
  const covered = work.tile.parts.reduce((sum, part) => sum + part.length, 0);
  if (covered < output.length) output.fill(0);
  for (const { base64, from, at, length } of work.literals) {
    output.set(fromBase64(base64).subarray(from, from + length), at);
  }
  await mapBounded(work.reads, READ_LANES, async (read) => {
    const bytes = buffers[read.into].subarray(read.at, read.at + read.length);
    await sources.read(read.source, read.offset, bytes, signal);
    audit?.add(read.source, read.offset, bytes);
  });
  for (const read of work.strided) await readStrided(context, read, buffers[read.into]);
  for (const { from, to, length } of work.copies) output.set(input.subarray(from, from + length), to);
  const stats: TensorStats[] = [];
  for (const job of work.jobs) {
    const results = await context.backend.convert({
      from: job.from,
      to: job.to,
      overflow: plan.options.overflow === 'clamp' ? 'clamp' : 'inf',
      input: input.subarray(0, work.inputLength),
      pieces: job.pieces,
      output: output.subarray(job.at, job.at + job.length),
      slots: job.tensors.length,
    });
    for (const [slot, result] of results.entries()) stats.push({ tensor: job.tensors[slot] ?? -1, stats: result });
  }
  return [...stats, ...finishParts(plan, work, output)];
}

/** Turns signs where a tensor is a lazy view, and counts over tensors that were copied. */
function finishParts(plan: Plan, work: TileWork, output: Uint8Array): TensorStats[] {
  return work.tile.parts.flatMap(({ part, at, length }) => {
    if (part.kind !== 'tensor') return [];
    const tensor = plan.tensors[part.tensor];
    assert(tensor, `the plan has no tensor ${part.tensor}`);
    const bytes = output.subarray(at, at + length);
    if (tensor.flip) flipSigns(bytes, tensor.to, tensor.flip);
    const copied = tensor.from === tensor.to && isFloat(tensor.to);
    return copied && isFloat(tensor.to) ? [{ tensor: part.tensor, stats: scanBytes(tensor.to, bytes) }] : [];
  });
}

/**
 * Reads the source range that the runs span, window by window, and copies each run to its place. One read serves many
 * rows; where the runs span more than a window, bytes between them are read too, which costs time and no memory.
 */
async function readStrided(context: FillContext, read: StridedRead, target: Uint8Array): Promise<void> {
  const { extent, start, end, at } = read;
  let first = Number.POSITIVE_INFINITY;
  let last = 0;
  forEachRun(extent, start, end, (offset, _, length) => {
    first = Math.min(first, offset);
    last = Math.max(last, offset + length);
  });
  for (let from = first; from < last; from += WINDOW_BYTES) {
    const window = new Uint8Array(Math.min(WINDOW_BYTES, last - from));
    await context.sources.read(extent.source, from, window, context.signal);
    forEachRun(extent, start, end, (offset, to, length) => {
      const begin = Math.max(offset, from);
      const stop = Math.min(offset + length, from + window.length);
      if (begin < stop) target.set(window.subarray(begin - from, stop - from), at + to + begin - offset);
    });
  }
}
