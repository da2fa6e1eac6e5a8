/**
 * How much the browser's own storage takes. `navigator.storage.estimate()` does not tell: Chromium answers with a fixed
 * figure, so that pages cannot know a machine by its disk. A file can be given a size without writing it, and that is
 * refused where the space is not there.
 *
 * @module
 */

import { openAlone } from '../io/opfs.js';

/** Not a number, as the files of a run are. */
const NAME = 'probe';

/** How many of `wanted` bytes a folder of the browser's own storage takes; undefined where trying fails otherwise. */
export async function probeSpace(folder: FileSystemDirectoryHandle, wanted: number): Promise<number | undefined> {
  const handle = await folder.getFileHandle(NAME, { create: true });
  const file = await openAlone(handle);
  try {
    return largestOf(wanted, (byteLength) => {
      file.truncate(byteLength);
      file.truncate(0);
    });
  } catch (error) {
    if (error instanceof DOMException) return undefined;
    throw error;
  } finally {
    file.close();
    await folder.removeEntry(NAME);
  }
}

/** Sizes are found to this part of what is wanted: more than is shown. */
const STEPS = 12;

/**
 * The largest size up to `wanted` that `reserve` takes, to a part in four thousand.
 *
 * @throws what `reserve` throws, but for a `QuotaExceededError`.
 */
export function largestOf(wanted: number, reserve: (byteLength: number) => void): number {
  if (fits(wanted, reserve)) return wanted;
  let [taken, refused] = [0, wanted];
  for (let step = 0; step < STEPS; step++) {
    const middle = Math.floor((taken + refused) / 2);
    if (fits(middle, reserve)) taken = middle;
    else refused = middle;
  }
  return taken;
}

function fits(byteLength: number, reserve: (byteLength: number) => void): boolean {
  try {
    reserve(byteLength);
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === 'QuotaExceededError') return false;
    throw error;
  }
}
