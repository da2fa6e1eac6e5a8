/**
 * What a measurement is. A new one is a file in `measurements/` and a line in `measurements/index.ts`.
 *
 * @module
 */

import type { Checkpoints } from './checkpoint/cache.js';

/** Something that `npm run bench` measures. */
export interface Measurement {
  /** What `--only` selects it by. */
  readonly name: string;
  /** One line: what is measured against what. */
  readonly describe: string;
  /** Measures, and verifies what came out. What throws here fails the bench, and the other measurements go on. */
  run(context: Context): Promise<readonly Row[]>;
}

/** What the runner gives to a measurement. */
export interface Context {
  /** Samples to take of each figure. */
  readonly runs: number;
  /** An empty folder for outputs, on the disk of the generated checkpoints. It is removed afterwards. */
  readonly work: string;
  readonly checkpoints: Checkpoints;
  /** Says on stderr what is being done. */
  log(text: string): void;
}

/** The figures of one subject, such as a checkpoint in a precision. */
export interface Row {
  readonly subject: string;
  readonly figures: readonly Figure[];
  /** What was wrong with the output; empty where all of it was as expected. */
  readonly failures: readonly string[];
}

/** Samples of one quantity, in the order they were taken. */
export interface Figure {
  readonly name: string;
  readonly unit: Unit;
  readonly samples: readonly number[];
  /** Every sample must be below it, in the same unit. */
  readonly below?: number;
}

/** Units of figures. A ratio has been taken between two samples of the same minute. */
export type Unit = 'seconds' | 'bytes' | 'ratio';

/** What the samples come to. */
export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** Median, least and greatest of at least one sample. An even number of samples has the mean of its middle two. */
export function summarize(samples: readonly number[]): Summary {
  const sorted = samples.toSorted((a, b) => a - b);
  const [min, max] = [sorted[0], sorted.at(-1)];
  if (min === undefined || max === undefined) throw new Error('There are no samples.');
  const middle = sorted.slice(Math.ceil(sorted.length / 2) - 1, Math.floor(sorted.length / 2) + 1);
  return { median: middle.reduce((sum, sample) => sum + sample, 0) / middle.length, min, max };
}

/** Everything that fails a row: wrong output, and figures that are not below what they have to be. */
export function failuresOf(row: Row): string[] {
  const excesses = row.figures.flatMap(({ name, unit, samples, below }) => {
    const { max } = summarize(samples);
    if (below === undefined || max < below) return [];
    return [`${name} is ${quantity(max, unit)}, not below ${quantity(below, unit)}`];
  });
  return [...row.failures, ...excesses].map((failure) => `${row.subject}: ${failure}`);
}

/** A quantity as text: `1.23 s`, `321 MB`, `1.23x`. */
export function quantity(value: number, unit: Unit): string {
  if (unit === 'bytes') return `${Math.round(value / 1e6)} MB`;
  return `${value.toFixed(2)}${unit === 'seconds' ? ' s' : 'x'}`;
}
