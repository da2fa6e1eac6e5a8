/**
 * Runs a plan: lanes take tiles in order, fill them, compare them, and write them. A file appears when its last tile was
 * written, the index of a sharded model after all others; when anything fails, nothing of this run is left.
 *
 * @module
 */

import { assert } from '../base/errors.js';
import type { CheckReport } from '../checkpoints/inventory.js';
import type { FileTree, OutputTree } from '../io/types.js';
import { addStats, emptyStats } from '../numeric/stats.js';
import { checkPlan } from '../plan/check.js';
import type { Plan } from '../plan/plan.js';
import { CrcAudit } from './audit.js';
import type { Backend, ConvertStats } from './backend.js';
import type { BackendDecision } from './calibrate.js';
import { cpuBackend } from './cpu.js';
import { refuseExisting } from './existing.js';
import { ConverterSwitch, type FillContext, type TensorStats } from './fill.js';
import { type Filler, localFiller } from './filler.js';
import { DEFAULT_MEMORY, eachTile, lanesOf } from './lanes.js';
import { reportOf } from './make-report.js';
import { RunOutput } from './output.js';
import { assertNoOverflow } from './overflow.js';
import type { Part } from './parts/parts.js';
import { runPart } from './parts/run.js';
import { assertProven, proofReports, withoutProofs } from './prove.js';
import type { BackendReport, Report, RunProgress } from './report.js';
import { PlanSources } from './sources.js';
import type { Threads } from './threads/threads.js';
import { TILE_BYTES, tileBytesFor, tilesInTurn } from './tiles.js';

/** Options of `run`. */
export interface RunOptions {
  /** The folder that was inspected. */
  readonly input: FileTree;
  /** Where the files of the plan are written. */
  readonly output: OutputTree;
  /** What converts. Default: the CPU. It stays open: the caller closes it. */
  readonly backend?: Backend;
  /** Why that backend, for the report. */
  readonly choice?: BackendDecision;
  /** Fill tiles on these threads, unless the backend is a GPU. They stay open: the caller closes them. Default: on this one. */
  readonly threads?: Threads;
  /** Replace files that are there already. Default false: they are an error. */
  readonly overwrite?: boolean;
  /**
   * Write the files of this part alone, and none of those that come after all others: `finish` does that when every part
   * was run, on whatever machine and in whatever order. Files of this part that are there already, with proof beside them,
   * stay as they are; what fails or is stopped can be run again, and keeps the files that are finished.
   */
  readonly part?: Part;
  /** With `part`: read the files that are there already back, and write again those that are not what was written. Default false. */
  readonly recheck?: boolean;
  /**
   * Compare what is read with the CRC-32s that the input files record, masters with their copies, and every finished
   * file, read back, with what was written. Default true.
   */
  readonly verify?: boolean;
  /** Take the SHA-256 of every file, for the report: each is read once more. Default false. */
  readonly sha256?: boolean;
  /** Bytes that tiles may hold in memory at once. Default 128 MiB; at least one tile is used. Reading back takes 16 MiB more. */
  readonly memory?: number;
  /**
   * Bytes of a tile, read or written, whichever is more. Default 16 MiB; more, within `memory`, where threads read tensors that
   * are cut into short runs. Larger ones read more of each rank at once: where
   * to begin a read costs as much as to read some megabytes.
   */
  readonly tileBytes?: number;
  readonly signal?: AbortSignal;
  /** Called after every write and before a file is closed. */
  readonly onProgress?: (progress: RunProgress) => void;
  /**
   * Output files that are written at once, where there are several. Default 1. A browser checks each finished file before
   * it appears, which takes longer than writing it; several are checked side by side.
   */
  readonly filesInFlight?: number;
  /**
   * Tiles that are under way at least, as far as `memory` allows. Default 1: one disk may do best with that. A browser
   * answers late, however fast the disk.
   */
  readonly tilesInFlight?: number;
  /** Called with the path of each file once it is complete and, with `verify`, was read back. A run that fails later removes it. */
  readonly onFile?: (path: string) => void;
}

/** Checks of a run that was asked to make none. */
const SWITCHED_OFF: readonly CheckReport[] = [
  {
    id: 'input-crc32',
    status: 'not-checkable',
    detail: 'Recorded CRC-32s were not compared: verification is switched off.',
  },
  {
    id: 'master-copy',
    status: 'not-checkable',
    detail: 'Masters were not compared with their copies: verification is switched off.',
  },
];

/**
 * Writes the files of a plan.
 *
 * @throws UnshardError of kind `sink` (`output-exists` where files are there already), `source`, `bad-file` (a CRC does not
 * match), `inconsistent` (a master is not its copy), `overflow`. Cancelling rejects with the signal's reason. In every
 * case the files of this run are removed; of a part, those that are not finished. Of a part also `part-bad` of kind `usage`,
 * `parts-of-other-plan` of kind `sink`.
 */
export async function run(plan: Plan, options: RunOptions): Promise<Report> {
  return options.part ? runPart(plan, options.part, options, writeFiles) : writeFiles(plan, options);
}

/**
 * Writes the files of a plan. With `audit` they are some files of a larger plan: what is read is noted there, and not
 * compared with what the files record; and finished files stay when the rest fails.
 */
export async function writeFiles(asked: Plan, options: RunOptions, audit?: CrcAudit): Promise<Report> {
  checkPlan(asked);
  const verify = options.verify ?? true;
  const plan = verify ? asked : withoutProofs(asked);
  if (options.overwrite !== true)
    await refuseExisting(
      options.output,
      plan.files.map(({ path }) => path),
    );
  const started = performance.now();
  const { signal } = options;
  const backend = options.backend ?? cpuBackend();
  const waitedBefore = backend.waitedSeconds ?? 0;
  const context: FillContext = {
    plan,
    sources: new PlanSources((path) => options.input.open(path), plan.sources),
    audit: verify ? (audit ?? new CrcAudit(plan.crcs)) : undefined,
    backend: new ConverterSwitch(backend),
    signal,
  };
  const output = new RunOutput(plan, { ...options, verify });
  const stats = plan.tensors.map(() => emptyStats());
  // What a GPU converts, the thread that has it fills.
  const threads = backend.name === 'cpu' ? options.threads : undefined;
  let filler: Filler | undefined;
  try {
    const wanted = { crcs: verify ? 'all' : 'zip', readBack: verify } as const;
    const others = await threads?.filler({ plan, sources: context.sources, ...wanted, audit: verify, signal });
    const using = others ?? localFiller(context, wanted);
    filler = using;
    // Threads that do all by themselves have a tile each: it may be large.
    const memoryOfThread = others?.lanes && threads ? (options.memory ?? DEFAULT_MEMORY) / threads.count : 0;
    const tileBytes = options.tileBytes ?? (memoryOfThread > 0 ? tileBytesFor(plan, memoryOfThread) : TILE_BYTES);
    const tiles = tilesInTurn(plan, options.filesInFlight ?? 1, tileBytes);
    await eachTile(tiles, { lanes: lanesOf(using, { ...options, tileBytes }), signal }, (tile) =>
      output.write(tile, async (sink) => {
        const filled = await using.fill(tile, sink);
        await assertProven(context, filled.differences);
        await collect(context, filled.stats, stats);
        context.audit?.note(filled.audited);
        return filled.written;
      }),
    );
    // The threads are free for the next run while this one reads back.
    await filler.close();
    filler = undefined;
    const crcs = audit ? undefined : await context.audit?.finish(context.sources, plan.sources, signal);
    signal?.throwIfAborted();
    const proven = verify ? [...(crcs ? [crcs] : []), ...proofReports(plan)] : SWITCHED_OFF;
    const checks = [...plan.checks, ...proven, await output.closeLast()];
    const converted: BackendReport = {
      name: backend.name,
      description: backend.description,
      threads: (others && threads?.count) ?? 1,
      jobsOnCpu: backend.name === 'cpu' ? 0 : context.backend.jobsOnCpu,
      ...(backend.waitedSeconds === undefined ? {} : { waitedSeconds: backend.waitedSeconds - waitedBefore }),
      ...(options.choice ? { choice: options.choice } : {}),
    };
    const seconds = (performance.now() - started) / 1000;
    return reportOf(plan, { backend: converted, files: output.reports(), stats, checks, seconds });
  } catch (error) {
    await (audit ? output.drop() : output.removeAll());
    throw error;
  } finally {
    await filler?.close().catch(() => {});
    await context.sources.close();
  }
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
