/**
 * The files of a run: opens each with its first tile, closes it after its last one and reads it back, both while the
 * next ones are written, and removes all when told to.
 *
 * @module
 */

import { takeTurns } from '../base/concurrent.js';
import { crc32 } from '../base/crc32.js';
import type { CheckReport } from '../checkpoints/inventory.js';
import { emitZipTail } from '../formats/zip/write.js';
import type { ByteSink, OutputTree } from '../io/types.js';
import type { OutputFile, Plan } from '../plan/plan.js';
import { writeTo } from './filler.js';
import { readBack, readBackDetail } from './read-back.js';
import type { FileReport, RunProgress } from './report.js';
import { outputFile, type Tile } from './tiles.js';
import { crcOfFile, type WrittenRange } from './written.js';
import { withCrcs } from './zip-records.js';

/** What a run's output needs to know. */
export interface OutputOptions {
  readonly output: OutputTree;
  readonly signal?: AbortSignal;
  readonly sha256?: boolean;
  readonly onProgress?: (progress: RunProgress) => void;
  readonly onFile?: (path: string) => void;
  /** Files that may be closed at once. Default 1. */
  readonly filesInFlight?: number;
}

/** Files that are read back at once: while one is waited for, another is compared. */
const READ_AT_ONCE = 2;

/** An output file that is being written. */
interface OpenFile {
  readonly plan: OutputFile;
  readonly sink: ByteSink;
  readonly written: WrittenRange[];
  left: number;
}

function isIndex({ plan }: OpenFile): boolean {
  return plan.afterOthers ?? false;
}

function isNoIndex(file: OpenFile): boolean {
  return !isIndex(file);
}

/** True for what makes a folder look like a model while the weights are not there: all that holds none of them. */
function isLast({ afterOthers, parts }: OutputFile): boolean {
  return afterOthers ?? !parts.some(({ kind }) => kind === 'tensor');
}

/** The sinks of a run. */
export class RunOutput {
  readonly #plan: Plan;
  readonly #options: OutputOptions;
  readonly #verify: boolean;
  readonly #sha256: boolean;
  readonly #digests = new Map<string, string>();
  readonly #open = new Map<number, Promise<OpenFile>>();
  readonly #finished: string[] = [];
  /** CRC-32s of files that were verified, by path. */
  readonly #crcs = new Map<string, number>();
  readonly #last: OpenFile[] = [];
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  /** Files that are closed and read back. These never reject: the first failure is kept, and thrown by who comes next. */
  readonly #ending = new Set<Promise<void>>();
  readonly #closings: ReturnType<typeof takeTurns>;
  readonly #readings = takeTurns(READ_AT_ONCE);
  #failure: { readonly error: unknown } | undefined;
  #written = 0;

  /** The outputs of a plan; nothing is created yet. With `verify` each finished file is read back. */
  constructor(plan: Plan, options: OutputOptions & { readonly verify: boolean }) {
    this.#plan = plan;
    this.#options = options;
    this.#verify = options.verify;
    this.#sha256 = options.sha256 ?? false;
    this.#closings = takeTurns(options.filesInFlight ?? 1);
    this.#signal = AbortSignal.any([this.#stop.signal, ...(options.signal ? [options.signal] : [])]);
  }

  /** Has a tile written: `write` gets the sink of its file, and gives what was written. */
  async write(tile: Tile, write: (sink: ByteSink) => Promise<readonly WrittenRange[]>): Promise<void> {
    this.#throwFailure();
    let opening = this.#open.get(tile.file);
    if (!opening) {
      opening = this.#create(tile.file);
      this.#open.set(tile.file, opening);
    }
    const file = await opening;
    for (const range of await write(file.sink)) file.written.push(range);
    this.#tell(file.plan, tile.length, 'write');
    file.left -= tile.parts.reduce((sum, part) => sum + part.length, 0);
    if (file.left > 0) return;
    if (isLast(file.plan)) this.#last.push(file);
    else await this.#end(tile.file, file);
  }

  /** Writes files without any bytes, and closes what had to wait for the others to be there and read back. */
  async closeLast(): Promise<CheckReport> {
    await this.#allEnded();
    for (const [index, file] of this.#plan.files.entries()) {
      if (file.byteLength === 0) await this.#end(index, await this.#create(index));
    }
    // The index at the very end: it says that all others are there.
    for (const files of [this.#last.filter(isNoIndex), this.#last.filter(isIndex)]) {
      for (const file of files) await this.#end(this.#plan.files.indexOf(file.plan), file);
      await this.#allEnded();
    }
    const { files, totals } = this.#plan;
    return {
      id: 'read-back',
      status: this.#verify ? 'passed' : 'not-checkable',
      detail: this.#verify
        ? readBackDetail(files.length, totals.outputBytes)
        : 'Not read back, since verification is switched off: the output.',
    };
  }

  /** The files of the plan, with what was found of them. */
  reports(): FileReport[] {
    return this.#plan.files.map(({ path, byteLength }) => {
      const [crc32, sha256] = [this.#crcs.get(path), this.#digests.get(path)];
      return {
        path,
        byteLength,
        ...(crc32 === undefined ? {} : { crc32: crc32.toString(16).padStart(8, '0') }),
        ...(sha256 === undefined ? {} : { sha256 }),
      };
    });
  }

  /** Drops open files. Finished ones stay. */
  async drop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#ending);
    const open = await Promise.allSettled(this.#open.values());
    await Promise.all(open.map((result) => (result.status === 'fulfilled' ? result.value.sink.abort() : undefined)));
  }

  /** Drops open files and removes finished ones. */
  async removeAll(): Promise<void> {
    await this.drop();
    await Promise.allSettled(this.#finished.map((path) => this.#options.output.remove(path)));
  }

  async #create(index: number): Promise<OpenFile> {
    const plan = outputFile(this.#plan, index);
    const sink = await this.#options.output.create(plan.path, plan.byteLength);
    const left = plan.parts.reduce((sum, part) => sum + part.length, 0);
    return { plan, sink, written: [], left };
  }

  /** Begins to close a file, which is read back after that. Waits while as many are being closed as may be at once. */
  async #end(index: number, file: OpenFile): Promise<void> {
    await new Promise<void>((begun) => {
      const closing = this.#closings(async () => {
        begun();
        await this.#close(index, file);
      });
      const ending: Promise<void> = closing
        .then(() => this.#readings(() => this.#read(file)))
        .catch((error: unknown) => {
          this.#failure ??= { error };
        })
        .finally(() => this.#ending.delete(ending));
      this.#ending.add(ending);
    });
  }

  async #close(index: number, file: OpenFile): Promise<void> {
    this.#throwFailure();
    if (file.plan.zip) {
      const there = new Set(file.written.map(({ at }) => at));
      for (const { at, bytes } of emitZipTail(withCrcs(file.plan.zip.records, file.written))) {
        if (there.has(at)) continue;
        file.written.push({ at, length: bytes.length, crc32: crc32(bytes) });
        await writeTo(file.sink, file.plan.path, at, bytes, this.#verify);
        this.#tell(file.plan, bytes.length, 'write');
      }
    }
    this.#options.signal?.throwIfAborted();
    this.#tell(file.plan, 0, 'close');
    await file.sink.close();
    this.#finished.push(file.plan.path);
    this.#open.delete(index);
    this.#tell(file.plan, 0, 'write');
  }

  async #read(file: OpenFile): Promise<void> {
    this.#throwFailure();
    if (this.#verify || this.#sha256) {
      const context = { plan: this.#plan, output: this.#options.output, signal: this.#signal };
      this.#tell(file.plan, 0, 'check');
      const sha256 = await readBack(context, file.plan, {
        // What can be read before it is closed was.
        ...(this.#verify && !file.sink.read ? { written: file.written } : {}),
        header: this.#verify,
        sha256: this.#sha256,
      });
      if (this.#verify) this.#crcs.set(file.plan.path, crcOfFile(file.plan.byteLength, file.written));
      if (sha256 !== undefined) this.#digests.set(file.plan.path, sha256);
    }
    this.#options.onFile?.(file.plan.path);
  }

  async #allEnded(): Promise<void> {
    await Promise.all(this.#ending);
    this.#throwFailure();
  }

  #throwFailure(): void {
    if (this.#failure) throw this.#failure.error;
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
