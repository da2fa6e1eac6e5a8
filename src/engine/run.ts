/**
 * Runs a plan: lanes take tiles in order, fill them, and write them. A file appears when its last tile was written, the
 * index of a sharded model after all others; when anything fails, nothing of this run is left.
 *
 * @module
 */

import { mapBounded } from '../base/concurrent.js';
import { isFloat } from '../base/dtype.js';
import { assert, UnshardError } from '../base/errors.js';
import { emitZipTail } from '../formats/zip/write.js';
import type { ByteSink, FileTree, OutputTree } from '../io/types.js';
import { addStats, emptyStats } from '../numeric/stats.js';
import { checkPlan } from '../plan/check.js';
import type { OutputFile, Plan } from '../plan/plan.js';
import { CrcAudit } from './audit.js';
import type { Backend, ConvertStats } from './backend.js';
import { cpuBackend } from './cpu.js';
import { ConverterSwitch, type FillContext, fillTile, type TensorStats } from './fill.js';
import { assertNoOverflow } from './overflow.js';
import type { CheckReport, Report, RunProgress, TensorReport } from './report.js';
import { PlanSources } from './sources.js';
import { TILE_BYTES, type Tile, tilesOf, workOf } from './tiles.js';
import { ZipCrcs } from './zip-crcs.js';

/** Options of `run`. */
export interface RunOptions {
  /** The folder that was inspected. */
  readonly input: FileTree;
  /** Where the files of the plan are written. */
  readonly output: OutputTree;
  /** What converts. Default: the CPU. It stays open: the caller closes it. */
  readonly backend?: Backend;
  /** Replace files that are there already. Default false: they are an error. */
  readonly overwrite?: boolean;
  /** Compare the CRC-32s that the input files record with what is read. Default true. */
  readonly verify?: boolean;
  /** Bytes that tiles may hold in memory at once. Default 128 MiB; at least one tile is used. */
  readonly memory?: number;
  readonly signal?: AbortSignal;
  /** Called after every write and before a file is closed. */
  readonly onProgress?: (progress: RunProgress) => void;
}

/** Default of `RunOptions.memory`. */
const DEFAULT_MEMORY = 2 ** 27;

/** A tile holds what is read and what is written. */
const LANE_BYTES = 2 * TILE_BYTES;

/**
 * Writes the files of a plan.
 *
 * @throws UnshardError of kind `sink` (`output-exists` where files are there already), `source`, `bad-file` (a CRC does not
 * match), `overflow`. Cancelling rejects with the signal's reason. In every case the files of this run are removed.
 */
export async function run(plan: Plan, options: RunOptions): Promise<Report> {
  checkPlan(plan);
  if (options.overwrite !== true) await refuseExisting(plan, options.output);
  const started = performance.now();
  const backend = options.backend ?? cpuBackend();
  const verify = options.verify ?? true;
  const context: FillContext = {
    plan,
    sources: new PlanSources(options.input, plan.sources),
    audit: verify ? new CrcAudit(plan.crcs) : undefined,
    backend: new ConverterSwitch(backend),
    signal: options.signal,
  };
  const output = new RunOutput(plan, options);
  const stats = plan.tensors.map(() => emptyStats());
  try {
    await fillAndWrite(context, output, stats, options.memory ?? DEFAULT_MEMORY);
    const checks: CheckReport[] = [];
    if (context.audit) checks.push(await context.audit.finish(context.sources, plan.sources, options.signal));
    options.signal?.throwIfAborted();
    await output.closeLast();
    return reportOf(plan, context, backend, stats, checks, (performance.now() - started) / 1000);
  } catch (error) {
    await output.removeAll();
    throw error;
  } finally {
    await context.sources.close();
  }
}

/** The lanes: each takes the next tile, fills its buffers, writes, and takes the next. */
async function fillAndWrite(
  context: FillContext,
  output: RunOutput,
  stats: readonly ConvertStats[],
  memory: number,
): Promise<void> {
  const { plan, signal } = context;
  const tiles = allTiles(plan);
  const lanes = Math.max(1, Math.floor(memory / LANE_BYTES));
  await mapBounded([...Array(lanes).keys()], lanes, async () => {
    let input = new Uint8Array(0);
    let tileBytes = new Uint8Array(0);
    for (let next = tiles.next(); !next.done; next = tiles.next()) {
      const tile = next.value;
      signal?.throwIfAborted();
      const work = workOf(plan, tile);
      input = atLeast(input, work.inputLength);
      tileBytes = atLeast(tileBytes, tile.length);
      const bytes = tileBytes.subarray(0, tile.length);
      const results = await fillTile(context, work, input, bytes);
      await collect(context, results, stats);
      await output.write(tile, bytes);
    }
  });
}

/** Buffers grow in steps of this (1 MiB), so that tiles of nearly the same size use the same one. */
const BUFFER_STEP = 2 ** 20;

/** The buffer itself where it is long enough, else a longer one. */
function atLeast(buffer: Uint8Array<ArrayBuffer>, length: number): Uint8Array<ArrayBuffer> {
  return buffer.length >= length ? buffer : new Uint8Array(Math.ceil(length / BUFFER_STEP) * BUFFER_STEP);
}

async function collect(
  context: FillContext,
  results: readonly TensorStats[],
  stats: readonly ConvertStats[],
): Promise<void> {
  for (const { tensor, stats: more } of results) {
    const sum = stats[tensor];
    assert(sum, `the plan has no tensor ${tensor}`);
    addStats(sum, more);
    if (context.plan.options.overflow === 'error') await assertNoOverflow(context, tensor, more);
  }
}

function* allTiles(plan: Plan): Generator<Tile> {
  for (const file of plan.files.keys()) yield* tilesOf(plan, file);
}

/** An output file that is being written. */
interface OpenFile {
  readonly plan: OutputFile;
  readonly sink: ByteSink;
  readonly crcs: ZipCrcs | undefined;
  left: number;
}

/** The sinks of a run: opens each with its first tile, closes it after its last one, removes all when told to. */
class RunOutput {
  readonly #plan: Plan;
  readonly #options: RunOptions;
  readonly #open = new Map<number, Promise<OpenFile>>();
  readonly #finished: string[] = [];
  readonly #last: OpenFile[] = [];
  #written = 0;

  constructor(plan: Plan, options: RunOptions) {
    this.#plan = plan;
    this.#options = options;
  }

  async write(tile: Tile, bytes: Uint8Array): Promise<void> {
    let opening = this.#open.get(tile.file);
    if (!opening) {
      opening = this.#create(tile.file);
      this.#open.set(tile.file, opening);
    }
    const file = await opening;
    file.crcs?.add(tile, bytes);
    await file.sink.write(tile.at, bytes);
    this.#tell(file.plan, bytes.length, 'write');
    file.left -= tile.parts.reduce((sum, part) => sum + part.length, 0);
    if (file.left > 0) return;
    if (file.plan.afterOthers) this.#last.push(file);
    else await this.#close(tile.file, file);
  }

  /** Writes files without any bytes, and closes what had to wait for the others. */
  async closeLast(): Promise<void> {
    for (const [index, file] of this.#plan.files.entries()) {
      if (file.byteLength === 0) await this.#close(index, await this.#create(index));
    }
    for (const file of this.#last) await this.#close(this.#plan.files.indexOf(file.plan), file);
  }

  /** Drops open files and removes finished ones. */
  async removeAll(): Promise<void> {
    const open = await Promise.allSettled(this.#open.values());
    await Promise.all(open.map((result) => (result.status === 'fulfilled' ? result.value.sink.abort() : undefined)));
    await Promise.allSettled(this.#finished.map((path) => this.#options.output.remove(path)));
  }

  async #create(index: number): Promise<OpenFile> {
    const plan = this.#plan.files[index];
    assert(plan, `the plan has no file ${index}`);
    const sink = await this.#options.output.create(plan.path, plan.byteLength);
    const left = plan.parts.reduce((sum, part) => sum + part.length, 0);
    return { plan, sink, crcs: plan.zip ? new ZipCrcs() : undefined, left };
  }

  async #close(index: number, file: OpenFile): Promise<void> {
    if (file.plan.zip && file.crcs) {
      for (const part of emitZipTail(file.crcs.complete(file.plan.zip.records))) {
        await file.sink.write(part.at, part.bytes);
        this.#tell(file.plan, part.bytes.length, 'write');
      }
    }
    this.#options.signal?.throwIfAborted();
    this.#tell(file.plan, 0, 'close');
    await file.sink.close();
    this.#finished.push(file.plan.path);
    this.#open.delete(index);
    this.#tell(file.plan, 0, 'write');
  }

  #tell(file: OutputFile, written: number, phase: RunProgress['phase']): void {
    this.#written = Math.min(this.#written + written, this.#plan.totals.outputBytes);
    this.#options.onProgress?.({
      written: this.#written,
      total: this.#plan.totals.outputBytes,
      file: file.path,
      filesDone: this.#finished.length,
      files: this.#plan.files.length,
      phase,
    });
  }
}

async function refuseExisting(plan: Plan, output: OutputTree): Promise<void> {
  const there: string[] = [];
  for (const file of plan.files) {
    if (await output.has(file.path)) there.push(file.path);
  }
  if (there.length === 0) return;
  throw new UnshardError({
    kind: 'sink',
    code: 'output-exists',
    message: `${output.name} already holds ${there.length} of the ${plan.files.length} files to write: ${there.slice(0, 5).join(', ')}.`,
    advice: 'Choose another folder, or ask to replace them.',
    facts: { file: there.join(', '), expected: 0, found: there.length },
  });
}

function reportOf(
  plan: Plan,
  context: FillContext,
  backend: Backend,
  stats: readonly ConvertStats[],
  checks: readonly CheckReport[],
  seconds: number,
): Report {
  const files = new Map(
    plan.files.flatMap((file) =>
      file.parts.flatMap((part) => (part.kind === 'tensor' ? [[part.tensor, file.path]] : [])),
    ),
  );
  return {
    version: 1,
    options: plan.options,
    backend: {
      name: backend.name,
      description: backend.description,
      jobsOnCpu: backend.name === 'cpu' ? 0 : context.backend.jobsOnCpu,
    },
    files: plan.files.map(({ path, byteLength }) => ({ path, byteLength })),
    tensors: plan.tensors.map((tensor, index): TensorReport => {
      const { name, shape, origin, from, to, fromCopy } = tensor;
      const counted = isFloat(from) ? { stats: stats[index] ?? emptyStats() } : {};
      return { name, shape, file: files.get(index) ?? '', origin, from, to, fromCopy, ...counted };
    }),
    aliases: plan.aliases,
    skipped: plan.skipped,
    warnings: plan.warnings,
    checks,
    bytesRead: plan.totals.inputBytes,
    bytesWritten: plan.totals.outputBytes,
    seconds,
  };
}
