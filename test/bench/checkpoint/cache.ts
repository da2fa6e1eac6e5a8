/**
 * The checkpoints that are measured: generated once and kept, or folders that the user named.
 *
 * @module
 */

import { existsSync, mkdirSync, realpathSync, renameSync, rmSync, statfsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { type CheckpointOptions, writeCheckpoint } from './deepspeed.js';
import { type Expected, readExpected } from './expected.js';

/** A checkpoint on the disk. */
export interface BenchCheckpoint {
  /** Name for a row: `stage 3, 478 M`. */
  readonly label: string;
  /** The folder, absolute and without links. */
  readonly path: string;
  readonly expected: Expected;
}

/** The checkpoints of a run of the bench. They are generated when they are first asked for. */
export interface Checkpoints {
  /** The ones to convert: stage 3 and stage 2, or those that the user named. */
  large(): readonly BenchCheckpoint[];
  /** A stage 3 checkpoint of about a fifth of the size, to show what grows and what does not. */
  small(): BenchCheckpoint;
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

/** Elements to ask for; rounded down to whole layers they give 478 M. */
export const LARGE_ELEMENTS = 480e6;

/** How many times the large checkpoint is as large as the small one. At 480e6 it gives 101 M. */
const LARGE_TO_SMALL = 4.7;

/** Part of the name of a cached checkpoint. To be raised when other bytes are generated for the same options. */
const GENERATION = 1;

/** Bytes of a checkpoint for each parameter: master and two moments in fp32, and at stage 2 a copy in bf16. */
const BYTES_PER_ELEMENT = { 2: 14, 3: 12 };

/** Bytes that are needed beside the checkpoint for each parameter: two outputs and a copy, in fp32. */
const OUTPUT_BYTES_PER_ELEMENT = 12;

/** The checkpoints of a choice. */
export function openCheckpoints({ cache, elements, named, log }: CheckpointChoice): Checkpoints {
  const generated = (options: CheckpointOptions): BenchCheckpoint => {
    const path = join(cache, `zero${options.stage}-${options.elements}-${GENERATION}`);
    if (!existsSync(path)) generate(path, options, log);
    return openCheckpoint(path, `stage ${options.stage}`);
  };
  return {
    large: () =>
      named.length > 0
        ? named.map((folder) => openCheckpoint(folder, basename(realpathSync(folder))))
        : ([3, 2] as const).map((stage) => generated({ stage, elements })),
    small: () => generated({ stage: 3, elements: Math.round(elements / LARGE_TO_SMALL) }),
  };
}

function openCheckpoint(folder: string, name: string): BenchCheckpoint {
  const path = realpathSync(folder);
  const expected = readExpected(path);
  return { label: `${name}, ${Math.round(expected.elements / 1e6)} M`, path, expected };
}

/** Writes beside the place first, so that a checkpoint that was not finished is never taken for one. */
function generate(path: string, options: CheckpointOptions, log: (text: string) => void): void {
  const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`;
  const partial = `${path}.partial`;
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true });
  const size = options.elements * BYTES_PER_ELEMENT[options.stage];
  const needed = size + options.elements * OUTPUT_BYTES_PER_ELEMENT;
  const { bavail, bsize } = statfsSync(dirname(path));
  if (bavail * bsize < needed) {
    throw new Error(`${dirname(path)} has ${gigabytes(bavail * bsize)} free; the bench needs ${gigabytes(needed)}.`);
  }
  log(`writing a checkpoint of ${gigabytes(size)} to ${path}`);
  writeCheckpoint(partial, options);
  renameSync(partial, path);
}
