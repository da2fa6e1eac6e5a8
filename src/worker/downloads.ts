/**
 * The folder of this worker in the browser's own storage, where downloads are made. Each worker has one of its own, so
 * that tabs do not disturb each other, and holds a lock of the same name as long as it lives: a folder whose lock is
 * free was left behind and goes.
 *
 * @module
 */

import { type OpfsOutput, opfsOutput } from '../io/opfs.js';

const PREFIX = 'unshard-downloads-';

let held: string | undefined;

/** The folder of this worker, empty: what an earlier run of this or an ended worker left is removed. */
export async function openDownloads(): Promise<OpfsOutput> {
  held ??= await holdName();
  await removeLeftFolders();
  return opfsOutput(held);
}

/** A fresh name, locked until the worker ends. */
async function holdName(): Promise<string> {
  const name = PREFIX + crypto.randomUUID();
  await new Promise<void>((locked, failed) => {
    const forever = () => {
      locked();
      return new Promise<never>(() => {});
    };
    navigator.locks.request(name, forever).catch(failed);
  });
  return name;
}

async function removeLeftFolders(): Promise<void> {
  const root = await navigator.storage.getDirectory();
  for await (const name of root.keys()) {
    if (!name.startsWith(PREFIX)) continue;
    await navigator.locks.request(name, { ifAvailable: true }, async (lock) => {
      if (lock) await root.removeEntry(name, { recursive: true });
    });
  }
}
