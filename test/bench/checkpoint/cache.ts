/**
 * The checkpoints that are measured: generated once and kept, or folders that the user named.
 *
 * @module
 */

import { existsSync, mkdirSync, realpathSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { writeCheckpoint } from './deepspeed.js';
import { type Expected, readExpected } from './expected.js';
import { diskBytes, type RecipeName, recipe } from './recipes.js';

/** A checkpoint on the disk. */
export interface BenchCheckpoint {
  /** Name for a row: `ZeRO-3, 478 M`. */
  readonly label: string;
  /** The folder, absolute and without links. */
  readonly path: string;
  readonly expected: Expected;
}

/** The checkpoints of a run of the bench. They are generated when they are first asked for. */
export interface Checkpoints {
  /** About how many elements the large ones have. */
  readonly elements: number;
  /** The ones to convert: ZeRO-3 and ZeRO-2, or those that the user named. */
  large(): readonly BenchCheckpoint[];
  /** The first of these, ZeRO-3 unless the user named another. The others are not generated for it. */
  firstLarge(): BenchCheckpoint;
  /** One of those that are generated. */
  made(name: RecipeName): BenchCheckpoint;
  /** A folder that is generated, kept under a name that is its own. Absolute, without links. */
  folder(name: string, write: (folder: string) => void): string;
  /** Bytes on the disk that it takes to generate those that are not there yet. */
  missingBytes(names: readonly RecipeName[]): number;
}

/** Which checkpoints to use. */
export interface CheckpointChoice {
  /** Where generated checkpoints are kept. */
  readonly cache: string;
  /** About how many parameters the large ones have, in elements. */
  readonly elements: number;
  /** Folders to use as the large ones. Where there are none, they are generated. */
  readonly named: readonly string[];
  log(text: string): void;
}

/** Names of the large checkpoints. */
const LARGE = ['zero3', 'zero2'] as const satisfies readonly RecipeName[];

/** Part of the name of a cached checkpoint. To be raised when other bytes are generated for the same options. */
const GENERATION = 4;

/** The checkpoints of a choice. */
export function openCheckpoints({ cache, elements, named, log }: CheckpointChoice): Checkpoints {
  const folderOf = (name: RecipeName): string => join(cache, `${name}-${elements}-${GENERATION}`);
  const made = (name: RecipeName): BenchCheckpoint => {
    const path = folderOf(name);
    const { label, options } = recipe(name, elements);
    if (!existsSync(path)) {
      log(`writing a checkpoint of ${gigabytes(diskBytes(options))} to ${path}`);
      generate(path, (folder) => writeCheckpoint(folder, options));
    }
    return openCheckpoint(path, label);
  };
  const opened = (folder: string): BenchCheckpoint => openCheckpoint(folder, basename(realpathSync(folder)));
  return {
    elements,
    large: () => (named.length === 0 ? LARGE.map(made) : named.map(opened)),
    firstLarge: () => (named[0] === undefined ? made(LARGE[0]) : opened(named[0])),
    made,
    folder(name, write) {
      const path = join(cache, `${name}-${GENERATION}`);
      if (!existsSync(path)) {
        log(`writing ${path}`);
        generate(path, write);
      }
      return realpathSync(path);
    },
    missingBytes(names) {
      const all = named.length === 0 ? names : names.filter((name) => !LARGE.some((large) => large === name));
      const missing = [...new Set(all)].filter((name) => !existsSync(folderOf(name)));
      return missing.reduce((sum, name) => sum + diskBytes(recipe(name, elements).options), 0);
    },
  };
}

/** Makes a folder: written beside its place first, so that one that was not finished is never taken for one. */
function generate(path: string, write: (folder: string) => void): void {
  const partial = `${path}.partial`;
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  write(partial);
  renameSync(partial, path);
}

/** Bytes as text: `5.7 GB`. */
export function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

function openCheckpoint(folder: string, name: string): BenchCheckpoint {
  const path = realpathSync(folder);
  const expected = readExpected(path);
  const millions = Math.round(expected.elements / 1e6);
  return { label: `${name}, ${millions} M`, path, expected };
}
