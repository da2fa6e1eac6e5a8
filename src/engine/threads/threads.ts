/**
 * The side of a run: several threads, each filling tiles. Where they can write the output, they do it all by themselves;
 * else a tile's memory moves to its thread and back. Nothing is shared.
 *
 * @module
 */

import { type Endpoint, type Remote, releaseProxy, transfer, wrap } from 'comlink';
import { assert } from '../../base/errors.js';
import type { ByteSink } from '../../io/types.js';
import type { Plan } from '../../plan/plan.js';
import { roomFor } from '../buffers.js';
import { type FilledTile, type Filler, type FillerOptions, writeTo } from '../filler.js';
import type { PlanSources } from '../sources.js';
import { outputFile, type TileRange } from '../tiles.js';
import { registerErrorHandler } from './errors.js';
import type { ThreadApi } from './protocol.js';

/** A run that writes less than this, in bytes (64 MiB), is done before threads are there. */
const WORTH_BYTES = 2 ** 26;

/** More threads than this wait for the disk, whatever the machine. */
const MOST_THREADS = 4;

/** A port of a platform whose other things that can move with messages are not those of browsers. */
type MemoryPort = Pick<Endpoint, 'addEventListener' | 'removeEventListener' | 'start'> & {
  postMessage(message: unknown, transfer?: ArrayBuffer[]): void;
};

/** A thread as the platform starts it. */
export interface Thread {
  /** Where messages go: a worker or a port. */
  readonly endpoint: Endpoint | MemoryPort;
  /** Rejects when the thread has come to its end by itself. */
  readonly ended: Promise<never>;
  terminate(): void;
}

/** Threads that fill the tiles of a run. */
export interface Threads {
  readonly count: number;
  /** A filler for a run; undefined where a source can be read on the calling thread alone. */
  filler(run: ThreadedRun): Promise<Filler | undefined>;
  /** Ends the threads. */
  close(): void;
}

/** What threads need to know of a run. */
export interface ThreadedRun extends FillerOptions {
  readonly plan: Plan;
  readonly sources: PlanSources;
  readonly audit: boolean;
  readonly signal: AbortSignal | undefined;
}

/**
 * How many threads to start for a run that writes so many bytes, on a machine that has so many cores for them; 0 where the
 * calling thread does as well.
 */
export function threadsFor(outputBytes: number, cores: number): number {
  return cores < 2 || outputBytes < WORTH_BYTES ? 0 : Math.min(cores, MOST_THREADS);
}

/**
 * Starts `count` threads, at least one. `lanes` is how many tiles keep them busy where they write by themselves; by default
 * that is measured.
 */
export function startThreads(count: number, spawn: () => Thread, lanes?: number): Threads {
  registerErrorHandler();
  const workers = Array.from({ length: count }, () => new Worker(spawn()));
  return {
    count,
    async filler(run) {
      const filler = await openFiller(workers, run);
      return filler && lanes !== undefined ? { ...filler, lanes } : filler;
    },
    close() {
      for (const worker of workers) worker.terminate();
    },
  };
}

/** A thread and how many calls it has under way. */
class Worker {
  readonly #thread: Thread;
  readonly #api: Remote<ThreadApi>;
  busy = 0;

  constructor(thread: Thread) {
    this.#thread = thread;
    this.#api = wrap<ThreadApi>(thread.endpoint);
    // Whoever waits for a tile is told.
    thread.ended.catch(() => {});
  }

  /** Calls the thread. One that has ended rejects the call, which would stay open for ever. */
  async call<T>(work: (api: Remote<ThreadApi>) => Promise<T>): Promise<T> {
    this.busy++;
    try {
      return await Promise.race([work(this.#api), this.#thread.ended]);
    } finally {
      this.busy--;
    }
  }

  terminate(): void {
    this.#api[releaseProxy]();
    this.#thread.terminate();
  }
}

async function openFiller(
  workers: readonly Worker[],
  { sources, signal, ...job }: ThreadedRun,
): Promise<Filler | undefined> {
  const places = await sources.places();
  if (!places) return undefined;
  const { plan, readBack } = job;
  const closeAll = () => Promise.all(workers.map((worker) => worker.call((api) => api.close())));
  await Promise.all(workers.map((worker) => worker.call((api) => api.open({ ...job, places }))));
  const stop = () => void closeAll().catch(() => {});
  signal?.addEventListener('abort', stop, { once: true });
  const idle: ArrayBuffer[] = [];

  async function fillHere(worker: Worker, tile: TileRange, sink: ByteSink): Promise<FilledTile> {
    const free = idle.pop();
    const memory = free && free.byteLength >= tile.length ? free : new ArrayBuffer(roomFor(tile.length));
    const { memory: back, ...filled } = await worker.call((api) => api.fillMemory(tile, transfer(memory, [memory])));
    const bytes = new Uint8Array(back, 0, tile.length);
    const { path } = outputFile(plan, tile.file);
    await writeTo(sink, path, tile.at, bytes, readBack);
    idle.push(back);
    return filled;
  }

  return {
    async fill(tile, sink) {
      const worker = workers.toSorted((a, b) => a.busy - b.busy)[0];
      assert(worker, 'there are no threads');
      try {
        if (sink && sink.place === undefined) return await fillHere(worker, tile, sink);
        return await worker.call((api) => api.fill(tile, sink?.place));
      } catch (error) {
        signal?.throwIfAborted();
        throw error;
      }
    },
    async close() {
      signal?.removeEventListener('abort', stop);
      await closeAll();
    },
  };
}
