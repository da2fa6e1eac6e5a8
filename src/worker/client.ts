/**
 * The page's side of the engine worker: the verbs of the library, with `AbortSignal`s. A cancel is cooperative first;
 * a worker that does not come to an end within a grace period is ended, and a fresh one takes its place.
 *
 * @module
 */

import { proxy, type Remote, wrap } from 'comlink';
import { registerErrorHandler } from '../engine/threads/errors.js';
import type { InspectProgress, PlanOptions } from '../index.js';
import type {
  BackendChoice,
  CheckpointView,
  Collisions,
  Converter,
  ConvertProgress,
  EngineApi,
  InputRef,
  InspectChoice,
  Outcome,
  OutputRef,
  PlanView,
  RunListener,
  RunRequest,
} from './protocol.js';

/** How a job is stopped and watched. */
export interface JobOptions<P> {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: P) => void;
}

/** The engine, as the page sees it. Failures are `UnshardError`s, a cancel is an `AbortError`. */
export interface Engine {
  /** Looks into a folder. `plan`, `collisions` and `run` speak of the checkpoint inspected last. */
  inspect(input: InputRef, options?: JobOptions<InspectProgress> & InspectChoice): Promise<CheckpointView>;
  plan(options: PlanOptions): Promise<PlanView>;
  collisions(options: PlanOptions, output: OutputRef): Promise<Collisions>;
  /** What a choice of backend comes to here, measured with the conversion of the last plan; undefined where it cannot be had. */
  converter(choice: BackendChoice): Promise<Converter | undefined>;
  run(request: RunRequest, options?: JobOptions<ConvertProgress> & Partial<RunListener>): Promise<Outcome>;
  downloadSpace(wanted: number): Promise<number | undefined>;
  letGoDownloads(paths: readonly string[]): Promise<void>;
}

/** The part of a `Worker` that the client uses. */
export type EngineWorker = Pick<Worker, 'postMessage' | 'addEventListener' | 'removeEventListener' | 'terminate'>;

/**
 * How long a cancelled worker may take, in milliseconds. Long, because a browser that is checking a finished file cannot
 * be interrupted, and ending the worker then leaves it open whether the file appears.
 */
export const CANCEL_GRACE_MS = 30_000;

/** Starts the engine. `spawn` makes its worker: now, and for the next call after a worker came to its end. */
export function openEngine(spawn: () => EngineWorker): Engine {
  registerErrorHandler();
  let live: Live | undefined = start(spawn());
  let inspected: { readonly input: InputRef; readonly choice: InspectChoice; readonly by: Live } | undefined;

  function worker(): Live {
    if (!live || live.dead) live = start(spawn());
    return live;
  }

  /** Calls the worker. A dead worker rejects the call; comlink alone would leave it open for ever. */
  async function call<T>(work: (api: Remote<EngineApi>) => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    const { api, ended, end } = worker();
    let grace: ReturnType<typeof setTimeout> | undefined;
    const cancel = (): void => {
      void api.cancel();
      grace = setTimeout(() => end(new DOMException('Cancelled.', 'AbortError')), CANCEL_GRACE_MS);
    };
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      return await Promise.race([work(api), ended]);
    } finally {
      clearTimeout(grace);
      signal?.removeEventListener('abort', cancel);
    }
  }

  async function inspect(
    input: InputRef,
    { signal, onProgress = ignore, ...choice }: JobOptions<InspectProgress> & InspectChoice = {},
  ): Promise<CheckpointView> {
    const by = worker();
    const view = await call((api) => api.inspect(input, choice, proxy(onProgress)), signal);
    inspected = { input, choice, by };
    return view;
  }

  /** A fresh worker knows of no checkpoint: it inspects the last one again. */
  async function ready(): Promise<void> {
    if (!inspected || inspected.by === worker()) return;
    const { input, choice } = inspected;
    await inspect(input, choice);
  }

  return {
    inspect,
    async plan(options) {
      await ready();
      return call((api) => api.plan(options));
    },
    async collisions(options, output) {
      await ready();
      return call((api) => api.collisions(options, output));
    },
    async converter(choice) {
      await ready();
      return call((api) => api.converter(choice));
    },
    async run(request, { signal, onProgress = ignore, onDownload = ignore } = {}) {
      await ready();
      return call((api) => api.run(request, proxy({ onProgress, onDownload })), signal);
    },
    downloadSpace: (wanted) => call((api) => api.downloadSpace(wanted)),
    letGoDownloads: (paths) => call((api) => api.letGoDownloads(paths)),
  };
}

/** The worker of the page. */
export function spawnEngineWorker(): Worker {
  return new Worker(new URL('./engine.worker.ts', import.meta.url), { type: 'module', name: 'unshard engine' });
}

/** A worker and its end. */
interface Live {
  readonly api: Remote<EngineApi>;
  /** Rejects when the worker has come to its end. */
  readonly ended: Promise<never>;
  end(reason: Error): void;
  readonly dead: boolean;
}

function start(worker: EngineWorker): Live {
  let fail: (reason: Error) => void = ignore;
  let dead = false;
  const ended = new Promise<never>((_, reject) => {
    fail = reject;
  });
  // Nobody listens while no call is under way.
  ended.catch(ignore);

  function end(reason: Error): void {
    dead = true;
    worker.terminate();
    fail(reason);
  }

  worker.addEventListener('error', (event) => {
    event.preventDefault();
    end(new Error(event.message || 'The worker could not be started.'));
  });
  return {
    api: wrap<EngineApi>(worker),
    ended,
    end,
    get dead() {
      return dead;
    },
  };
}

function ignore(): void {}
