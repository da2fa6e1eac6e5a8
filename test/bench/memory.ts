import { readPss } from '../helpers/memory.js';

/** Time between two looks at the memory, in milliseconds. A look costs about 20, which the conversion cannot have. */
const MEMORY_MS = 200;

/** Time that a fresh browser gets to come to rest before its memory is taken as that of an empty one. */
export const SETTLE_MS = 1500;

/** Watches the memory of a process and its descendants. `stop` gives the most bytes above those at the start. */
export function watchPeak(pid: number): { stop(): number } {
  const before = readPss(pid);
  let peak = before;
  const look = (): void => {
    peak = Math.max(peak, readPss(pid));
  };
  const timer = setInterval(look, MEMORY_MS);
  return {
    stop() {
      clearInterval(timer);
      look();
      return peak - before;
    },
  };
}
