/**
 * The folder of this worker in the browser's own storage, where downloads are made. Each worker has one of its own, so
 * that tabs do not disturb each other, and holds a lock of the same name as long as it lives: a folder whose lock is
 * free was left behind and goes.
 *
 * @module
 */

import { type OpfsOutput, openStorage, opfsOutput } from '../io/opfs.js';
import { probeSpace } from './probe.js';
import { type BoundedTree, boundBySpace, type SpaceOptions } from './space.js';

const PREFIX = 'unshard-downloads-';

let held: string | undefined;
let bounded: BoundedTree | undefined;
let probing: Promise<unknown> = Promise.resolve();

/** A tree of downloads, and its finished files. */
export type Downloads = Pick<BoundedTree, 'tree'> & Pick<OpfsOutput, 'file'>;

/** The folder of this worker, empty: what an earlier run of this or an ended worker left is removed. */
export async function openDownloads(options: Omit<SpaceOptions, 'spaceFor'>): Promise<Downloads> {
  bounded = undefined;
  const output = await opfsOutput(await holdFolder());
  bounded = boundBySpace(output, { ...options, spaceFor });
  return { tree: bounded.tree, file: output.file };
}

/** Removes copies of files that the browser has saved. */
export async function letGoDownloads(paths: readonly string[]): Promise<void> {
  await bounded?.letGo(paths);
}

/**
 * How many of `wanted` bytes the next run can write; undefined where the browser does not let it be found out. What was
 * kept of this run goes before.
 */
export async function downloadSpace(wanted: number): Promise<number | undefined> {
  await holdFolder();
  const kept = bounded?.keptBytes() ?? 0;
  const free = await spaceFor(Math.max(0, wanted - kept));
  return free === undefined ? undefined : free + kept;
}

/** How many of `wanted` bytes can be written now, as the browser itself grants them. One look after another. */
function spaceFor(wanted: number): Promise<number | undefined> {
  const look = probing.then(() => probe(wanted));
  probing = look.catch(() => undefined);
  return look;
}

async function probe(wanted: number): Promise<number | undefined> {
  const folder = await (await openStorage()).getDirectoryHandle(held ?? '', { create: true });
  return probeSpace(folder, wanted);
}

/** Takes a name of this worker's own, once, and removes folders whose workers have ended. */
async function holdFolder(): Promise<string> {
  const root = await openStorage();
  held ??= await holdName();
  await removeLeftFolders(root);
  return held;
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

async function removeLeftFolders(root: FileSystemDirectoryHandle): Promise<void> {
  for await (const name of root.keys()) {
    if (!name.startsWith(PREFIX)) continue;
    await navigator.locks.request(name, { ifAvailable: true }, async (lock) => {
      if (lock) await root.removeEntry(name, { recursive: true });
    });
  }
}
