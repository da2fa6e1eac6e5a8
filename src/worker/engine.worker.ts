/**
 * The engine worker: owns the checkpoint that is open, the sources, the sinks and the backend. The page talks to it
 * through `client.ts`.
 *
 * @module
 */

import { expose } from 'comlink';
import { registerErrorHandler } from '../engine/threads/errors.js';
import {
  type FileTree,
  type InspectProgress,
  type Inventory,
  inspect,
  isUnshardError,
  type Plan,
  plan,
  type RunProgress,
  run,
  UnshardError,
} from '../index.js';
import { openBackend } from './backends.js';
import { watchClosing } from './closing.js';
import { findCollisions } from './collisions.js';
import { downloadSpace, letGoDownloads } from './downloads.js';
import { listedOnce, openInput, openOutput } from './places.js';
import {
  type ConvertProgress,
  type EngineApi,
  FILES_IN_FLIGHT,
  type InputRef,
  type InspectChoice,
} from './protocol.js';
import type { SpaceWait } from './space.js';
import { startStopwatch } from './stopwatch.js';
import { openThreads } from './threads.js';
import { throttle } from './throttle.js';
import { viewCheckpoint, viewPlan } from './views.js';

/** Time between two messages of progress, in milliseconds: as often as an eye can follow a figure. */
const PROGRESS_MS = 100;

/** Tiles that are under way at least: with fewer the browser and this worker wait for each other. */
const TILES_IN_FLIGHT = 3;

/**
 * Bytes of a tile that the CPU converts (64 MiB). Of a tensor that is cut over all ranks each has a part, and to begin to
 * read one costs a browser as much as to read four megabytes.
 */
const LARGE_TILE = 2 ** 26;

/** Bytes that such tiles hold at once (288 MiB): three of them, for the browser takes as much again to write them. */
const LARGE_MEMORY = 9 * 2 ** 25;

/** The checkpoint that was inspected last. */
interface OpenCheckpoint {
  readonly input: InputRef;
  readonly tree: FileTree;
  readonly inventory: Inventory;
}

let open: OpenCheckpoint | undefined;
/** The plan that was made last. */
let planned: Plan | undefined;
let job = new AbortController();

/** A new job ends the one before it. */
function startJob(): AbortSignal {
  job.abort();
  job = new AbortController();
  return job.signal;
}

function checkpoint(): OpenCheckpoint {
  if (!open) throw new Error('No checkpoint was inspected.');
  return open;
}

const api: EngineApi = {
  async inspect(input, choice, onProgress) {
    const signal = startJob();
    const progress = throttle(onProgress, PROGRESS_MS);
    try {
      const tree = listedOnce(await openInput(input, signal));
      let isTold = false;
      const tell = (step: InspectProgress): void => {
        progress.push(step);
        // The first facts do not wait for the rest.
        if (step.facts && !isTold) progress.flush();
        isTold ||= step.facts !== undefined;
      };
      const read = (wanted: InspectChoice) => inspect(tree, { signal, onProgress: tell, ...wanted });
      const inventory = await read(choice).catch((error: unknown) => {
        // A tag folder of a name of its own has been laid over the only tag of a folder that was added.
        if (input.kind !== 'several' || !isTagNotFound(error)) throw error;
        const { tag: _, ...anyTag } = choice;
        return read(anyTag);
      });
      open = { input, tree, inventory };
      return viewCheckpoint(inventory);
    } finally {
      progress.stop();
    }
  },

  async plan(options) {
    planned = plan(checkpoint().inventory, options);
    return viewPlan(planned);
  },

  async collisions(options, output) {
    const { input, inventory } = checkpoint();
    return findCollisions(plan(inventory, options), input, output);
  },

  async converter(choice) {
    const opened = await openBackend(choice, planned);
    if (!opened) return undefined;
    const { name, description } = opened.backend;
    await opened.backend.close();
    return { name, description, choice: opened.choice };
  },

  async run({ options, output: place, backend: choice, overwrite, verify, sha256 }, listener) {
    const signal = startJob();
    const { tree, inventory } = checkpoint();
    const made = plan(inventory, options);
    const opened = await openBackend(choice, made);
    if (!opened) throw noGpu();
    const threads = opened.backend.name === 'cpu' ? openThreads(made) : undefined;
    const handing: Promise<void>[] = [];
    const progress = throttle((step: ConvertProgress) => listener.onProgress(step), PROGRESS_MS);
    try {
      let last: RunProgress = {
        written: 0,
        total: made.totals.outputBytes,
        file: '',
        filesDone: 0,
        files: made.files.length,
        phase: 'write',
      };
      let wait: SpaceWait | undefined;
      let hasWaited = false;
      const tell = (): void => progress.push({ ...last, ...watch(), ...(wait ? { wait } : {}) });
      const onWait = (now: SpaceWait | undefined): void => {
        wait = now;
        hasWaited = true;
        tell();
      };
      const destination = await openOutput(place, { signal, onWait });
      const stopwatch = startStopwatch();
      const { output, watch } = watchClosing(stopwatch.watch(destination.tree), tell);
      const hand = async (path: string): Promise<void> => {
        if (destination.file) await listener.onDownload({ path, file: await destination.file(path) });
      };
      const report = await run(made, {
        input: tree,
        output,
        ...opened,
        ...(threads ? { threads } : {}),
        // Downloads are not checked, and may have to wait for each other's space.
        filesInFlight: place.kind === 'directory' ? FILES_IN_FLIGHT : 1,
        tilesInFlight: TILES_IN_FLIGHT,
        // A GPU has buffers of its own for each tile, which are not counted.
        ...(opened.backend.name === 'cpu' ? { tileBytes: LARGE_TILE, memory: LARGE_MEMORY } : {}),
        overwrite,
        verify,
        sha256,
        signal,
        onFile: (path) => handing.push(hand(path)),
        onProgress: (step) => {
          last = step;
          tell();
        },
      });
      await Promise.all(handing);
      return { report, ...(hasWaited ? {} : { costs: stopwatch.costs(made.totals.inputBytes) }) };
    } finally {
      progress.stop();
      threads?.close();
      await Promise.allSettled(handing);
      await opened.backend.close();
    }
  },

  downloadSpace,
  letGoDownloads,

  async cancel() {
    job.abort(new DOMException('Cancelled.', 'AbortError'));
  },
};

function isTagNotFound(error: unknown): boolean {
  return isUnshardError(error, 'usage') && error.detail.code === 'tag-not-found';
}

function noGpu(): UnshardError {
  return new UnshardError({
    kind: 'gpu',
    code: 'no-adapter',
    message: 'This browser offers no GPU.',
    advice: 'Choose another converter.',
    facts: {},
  });
}

registerErrorHandler();
expose(api);
