/**
 * Gives the disk and the memory that files are cached in the same state before everything that is timed.
 *
 * @module
 */

import { closeSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type Ended, runOrThrow, runProcess } from './process.js';

/** Bytes of one read or write. */
const BLOCK = 2 ** 24;

/** Free memory that is made ready beside the bytes that will be written: what processes take for themselves. */
const SPARE_BYTES = 2 ** 28;

/** A range of a file. */
export interface FileRange {
  readonly path: string;
  readonly offset: number;
  readonly length: number;
}

/**
 * Writes what earlier steps left in the page cache, and makes free memory ready for `bytes` of files. A virtual machine
 * gives memory that is free for a few seconds back to its host, and the next to use it waits for the host: several times
 * as long as the copy takes. A file that is written in `folder` and removed at once leaves free memory that is there.
 */
export async function settle(folder: string, bytes: number): Promise<void> {
  await runOrThrow('sync', []);
  const path = join(folder, 'scratch');
  const block = Buffer.alloc(BLOCK);
  const file = openSync(path, 'w');
  for (let done = 0; done < bytes + SPARE_BYTES; done += BLOCK) writeSync(file, block);
  closeSync(file);
  rmSync(path);
}

/** Reads ranges of files, so that they are in the page cache. */
export function warm(ranges: readonly FileRange[]): void {
  const block = Buffer.alloc(BLOCK);
  for (const { path, offset, length } of ranges) {
    const file = openSync(path, 'r');
    for (let at = 0; at < length; at += BLOCK) readSync(file, block, 0, Math.min(BLOCK, length - at), offset + at);
    closeSync(file);
  }
}

/**
 * Drops files from the page cache: false where that cannot be done here. The host of a virtual machine may still have
 * them in a cache of its own.
 */
export async function chill(paths: readonly string[]): Promise<boolean> {
  for (const path of paths) {
    const { code } = await runIfThere('dd', [`if=${path}`, 'iflag=nocache', 'count=0']);
    if (code !== 0) return false;
  }
  return paths.length > 0 && !(await isCached(paths[0] ?? ''));
}

/** True where any page of a file is in the page cache, and where nothing tells. */
async function isCached(path: string): Promise<boolean> {
  const { code, stdout } = await runIfThere('fincore', ['--noheadings', '--output', 'PAGES', path]);
  return code !== 0 || Number(stdout) > 0;
}

/** Runs a command that not every machine has. */
async function runIfThere(command: string, args: readonly string[]): Promise<Pick<Ended, 'code' | 'stdout'>> {
  return runProcess(command, args).catch(() => ({ code: null, stdout: '' }));
}
