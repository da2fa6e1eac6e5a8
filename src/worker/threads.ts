import { startThreads, type Threads, threadsFor } from '../engine/threads/threads.js';
import type { Plan } from '../index.js';

/**
 * Starts threads for a run of a plan: one less than the machine has cores, at most four; undefined where they are not worth
 * their start. The caller closes them. `count` asks for a number, 0 for none.
 */
export function openThreads(
  plan: Plan,
  count = threadsFor(plan.totals.outputBytes, navigator.hardwareConcurrency - 1),
): Threads | undefined {
  if (count === 0) return undefined;
  return startThreads(count, () => {
    const worker = new Worker(new URL('./tile.worker.ts', import.meta.url), { type: 'module', name: 'unshard tiles' });
    const ended = new Promise<never>((_, reject) => {
      worker.addEventListener('error', (event) => {
        event.preventDefault();
        reject(new Error(event.message || 'A thread could not be started.'));
      });
    });
    return { endpoint: worker, ended, terminate: () => worker.terminate() };
  });
}
