/**
 * What a measurement is. A new one is a file in `measurements/` and a line in `measurements/index.ts`.
 *
 * @module
 */

import type { Checkpoints } from './checkpoint/cache.js';
import type { RecipeName } from './checkpoint/recipes.js';

/** Something that `npm run bench` measures. */
export interface Measurement {
  /** What `--only` selects it by. */
  readonly name: string;
  /** One line: what is measured against what. */
  readonly describe: string;
  /** Checkpoints that it generates. */
  readonly recipes: readonly RecipeName[];
  /**
   * Measures row by row, and verifies what came out. What throws here fails the bench, and the other measurements go on.
   */
  run(context: Context): AsyncIterable<Row>;
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
  /** What the median is to come to at most, in the same unit. */
  readonly target?: number;
}

/** Units of figures. A ratio has been taken between two samples of the same minute. */
export type Unit = 'seconds' | 'milliseconds' | 'bytes' | 'kilobytes' | 'ratio' | 'share' | 'MB/s' | 'GB/s';

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

/** Where the median of a figure is beyond its target, as text. A target does not fail a bench: machines differ. */
export function missesOf(row: Row): string[] {
  return row.figures.flatMap(({ name, unit, samples, target }) => {
    const { median } = summarize(samples);
    if (target === undefined || median <= target) return [];
    return [`${row.subject}: ${name} is ${quantity(median, unit)}, not ${quantity(target, unit)} at most`];
  });
}

/** What each sample of the first figure is of that of the second, taken in the same turn. */
export function ratiosOf(ours: readonly number[], theirs: readonly number[]): number[] {
  return ours.flatMap((value, i) => {
    const other = theirs[i];
    return other === undefined ? [] : [value / other];
  });
}

/** A quantity as text: `1.23 s`, `321 MB`, `1.23x`, `45 %`. */
export function quantity(value: number, unit: Unit): string {
  switch (unit) {
    case 'seconds':
      return `${value.toFixed(2)} s`;
    case 'milliseconds':
      return `${Math.round(value)} ms`;
    case 'bytes':
      return `${Math.round(value / 1e6)} MB`;
    case 'kilobytes':
      return `${(value / 1e3).toFixed(1)} KB`;
    case 'ratio':
      return `${value.toFixed(2)}x`;
    case 'share':
      return `${Math.round(value * 100)} %`;
    case 'MB/s':
      return `${Math.round(value)} MB/s`;
    case 'GB/s':
      return `${value.toPrecision(2)} GB/s`;
  }
}
