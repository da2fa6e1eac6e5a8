/**
 * Writes to a place of little space: a file that does not fit has to wait until copies of earlier files, which the user
 * has elsewhere by then, are let go.
 *
 * @module
 */

import { once } from '../base/once.js';
import { type ByteSink, isUnshardError, type OutputTree } from '../index.js';
import { changedSink } from './sinks.js';

/** How often a file that should fit is tried, and the time between two tries in milliseconds: three seconds in all. */
const ATTEMPTS = 16;
const PAUSE_MS = 200;

/** Why a run stands still. Sizes are bytes. */
export interface SpaceWait {
  /** The file that does not fit. */
  readonly path: string;
  readonly needed: number;
  readonly free: number;
  /** The finished files that are there, and can be let go. */
  readonly kept: readonly string[];
}

/** What the tree needs to know of its place. */
export interface SpaceOptions {
  /** How many of `wanted` bytes can be written now; undefined where that is not known. */
  readonly spaceFor: (wanted: number) => Promise<number | undefined>;
  /** Called when a file starts to wait, and with undefined when it goes on. */
  readonly onWait: (wait: SpaceWait | undefined) => void;
  /** Ends all waiting. */
  readonly signal: AbortSignal;
}

/** A tree that waits for space. */
export interface BoundedTree {
  readonly tree: OutputTree;
  /** Removes finished files, and lets what waits look again, also where one cannot be removed: then it rejects. */
  letGo(paths: readonly string[]): Promise<void>;
  /** Bytes of the finished files that are there. */
  keptBytes(): number;
}

/**
 * Wraps a tree. Where no other file is there that could be let go now or later, nothing waits: the tree itself then says
 * what is wrong.
 */
export function boundBySpace(tree: OutputTree, { spaceFor, onWait, signal }: SpaceOptions): BoundedTree {
  /** Finished files and their bytes. */
  const finished = new Map<string, number>();
  let unfinished = 0;
  let wake: (() => void)[] = [];
  /** How often space may have become free. */
  let changes = 0;

  async function untilItFits(path: string, needed: number): Promise<void> {
    for (;;) {
      const before = changes;
      const free = await spaceFor(needed);
      signal.throwIfAborted();
      if (free === undefined || needed <= free || finished.size + unfinished === 0) return;
      // What was let go during the look would wake nobody any more.
      if (changes > before) continue;
      onWait({ path, needed, free, kept: [...finished.keys()] });
      await wakened();
      onWait(undefined);
    }
  }

  /** The browser counts what was given back with a delay: what a look has found may be refused a moment later. */
  async function createFitting(path: string, byteLength: number): Promise<ByteSink> {
    for (let attempt = 1; ; attempt++) {
      await untilItFits(path, byteLength);
      try {
        return await tree.create(path, byteLength);
      } catch (error) {
        const isFull = isUnshardError(error, 'sink') && error.detail.code === 'sink-no-space';
        if (!isFull || attempt === ATTEMPTS) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
  }

  function wakeAll(): void {
    changes += 1;
    const waiting = wake;
    wake = [];
    for (const go of waiting) go();
  }

  function wakened(): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = (): void => reject(signal.reason);
      signal.addEventListener('abort', abort, { once: true });
      wake.push(() => {
        signal.removeEventListener('abort', abort);
        resolve();
      });
    });
  }

  return {
    tree: {
      name: tree.name,
      has: (path) => tree.has(path),
      async create(path, byteLength) {
        const sink = await createFitting(path, byteLength);
        unfinished += 1;
        const ended = once(() => {
          unfinished -= 1;
          wakeAll();
        });
        return changedSink(sink, {
          async close() {
            await sink.close();
            finished.set(path, byteLength);
            ended();
          },
          async abort() {
            await sink.abort();
            ended();
          },
        });
      },
      open: (path) => tree.open(path),
      async remove(path) {
        await tree.remove(path);
        finished.delete(path);
      },
    },
    async letGo(paths) {
      const removed = await Promise.allSettled(paths.map((path) => tree.remove(path)));
      // One that could not be removed would not go the next time either.
      for (const path of paths) finished.delete(path);
      wakeAll();
      for (const result of removed) if (result.status === 'rejected') throw result.reason;
    },
    keptBytes: () => [...finished.values()].reduce((sum, bytes) => sum + bytes, 0),
  };
}
