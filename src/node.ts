/**
 * Unshard for Node: the library, and folders on disk.
 *
 * @example
 * const input = await openFolder('checkpoint-1000');
 * await run(plan(await inspect(input)), { input, output: folderOutput('weights') });
 *
 * @module
 */

import { availableParallelism } from 'node:os';
import { MessageChannel, Worker } from 'node:worker_threads';
import { startThreads, type Threads, threadsFor } from './engine/threads/threads.js';
import type { Plan } from './index.js';

export * from './index.js';
export { folderOutput, openFolder } from './io/node.js';

/**
 * Room for what a thread has just made, in MiB. V8 would take several times as much before it looks for what is no longer
 * used, which four threads have no room for, and is not faster with it.
 */
const YOUNG_MIB = 8;

/** Tiles under way for each thread: when one is done, the next is there. */
const TILES_PER_THREAD = 2;

/**
 * Starts threads for a run of a plan: one for each core of the machine, at most four; undefined where they are not worth
 * their start. The caller closes them. `count` asks for a number, 0 for none.
 */
export function openThreads(
  { totals }: { readonly totals: Pick<Plan['totals'], 'outputBytes'> },
  count = threadsFor(totals.outputBytes, availableParallelism()),
): Threads | undefined {
  if (count === 0) return undefined;
  const spawn = () => {
    const { port1, port2 } = new MessageChannel();
    const worker = new Worker(new URL('./thread.js', import.meta.url), {
      workerData: port2,
      transferList: [port2],
      resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MIB },
    });
    const ended = new Promise<never>((_, reject) => {
      worker.once('error', reject);
      worker.once('exit', (code) => reject(new Error(`A thread ended with exit code ${code}.`)));
    });
    return {
      endpoint: port1,
      ended,
      terminate() {
        port1.close();
        void worker.terminate();
      },
    };
  };
  return startThreads(count, spawn, count * TILES_PER_THREAD);
}
