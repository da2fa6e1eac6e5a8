/**
 * The side of a run: several threads, each filling tiles. A tile's memory moves to its thread and back, nothing is
 * shared.
 *
 * @module
 */

import { type Endpoint, type Remote, releaseProxy, wrap } from 'comlink';
import { assert } from '../../base/errors.js';
import type { Plan } from '../../plan/plan.js';
import type { CrcsWanted, Filler } from '../filler.js';
import type { PlanSources } from '../sources.js';
import { registerErrorHandler } from './errors.js';
import { moved, type ThreadApi } from './protocol.js';

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
export interface ThreadedRun {
  readonly plan: Plan;
  readonly sources: PlanSources;
  readonly audit: boolean;
  readonly crcs: CrcsWanted;
  readonly signal: AbortSignal | undefined;
}

/**
 * How many threads to start for a plan on a machine of so many cores; 0 where the calling thread does as well. It and the
 * reading and writing of files, which are threads of their own, keep two cores busy.
 */
export function threadsFor(plan: Plan, cores: number): number {
  return cores < 3 || plan.totals.outputBytes < WORTH_BYTES ? 0 : Math.min(cores - 1, MOST_THREADS);
}

/**
 * Starts `count` threads, at least one. The memory of tiles moves between them and the calling thread, which every browser
 * can do. Where it may be shared, that takes less: each move makes the engine look for garbage.
 */
export function startThreads(count: number, spawn: () => Thread, memory: 'moves' | 'shared' = 'moves'): Threads {
  registerErrorHandler();
  const workers = Array.from({ length: count }, () => new Worker(spawn()));
  return {
    count,
    filler: (run) => openFiller(workers, memory, run),
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
  memory: 'moves' | 'shared',
  { plan, sources, audit, crcs, signal }: ThreadedRun,
): Promise<Filler | undefined> {
  const places = await sources.places();
  if (!places) return undefined;
  const closeAll = () => Promise.all(workers.map((worker) => worker.call((api) => api.close())));
  await Promise.all(workers.map((worker) => worker.call((api) => api.open({ plan, places, audit, crcs }))));
  const stop = () => void closeAll().catch(() => {});
  signal?.addEventListener('abort', stop, { once: true });
  return {
    newMemory: (length) => (memory === 'shared' ? new SharedArrayBuffer(length) : new ArrayBuffer(length)),
    async fill(tile, memory) {
      const worker = workers.toSorted((a, b) => a.busy - b.busy)[0];
      assert(worker, 'there are no threads');
      try {
        return await worker.call((api) => api.fill(tile, moved(memory, memory)));
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
