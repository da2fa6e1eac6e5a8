/**
 * Measures one configuration: a road, a checkpoint, a precision.
 *
 * @module
 */

import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchCheckpoint } from './checkpoint/cache.js';
import { type Precision, verifyOutput } from './checkpoint/expected.js';
import type { Context, Figure, Row } from './measurement.js';
import { runOrThrow, runProcess } from './process.js';
import { type Conversion, OUTPUT_NAME, type Road } from './roads/road.js';
import { warmer } from './warm.js';

/** What is converted, and how. */
export interface Configuration {
  readonly road: Road;
  readonly checkpoint: BenchCheckpoint;
  readonly precision: Precision;
}

/**
 * Wall time against `cp` of the very output, and peak memory, with a warm page cache. The first conversion is verified
 * tensor by tensor and gives the file to copy; the timed ones must give the same bytes. Conversions and copies alternate,
 * the one and the other going first by turns, and each ratio is of neighbours.
 */
export async function measureAgainstCopy(context: Context, configuration: Configuration): Promise<Row> {
  const { road } = configuration;
  return measured(context, configuration, async (output, convert) => {
    const copy = join(context.work, 'copy');
    const conversions: Conversion[] = [];
    const copies: number[] = [];
    const steps = [
      async () => {
        conversions.push(await convert());
      },
      async () => {
        await flush();
        copies.push((await runOrThrow('cp', [output, copy])).seconds);
        rmSync(copy);
      },
    ];
    for (let run = 0; run < context.runs; run++) {
      context.log(`${subjectOf(configuration)}: run ${run + 1} of ${context.runs}`);
      for (const step of run % 2 === 0 ? steps : steps.toReversed()) await step();
    }
    return [
      { name: 'wall', unit: 'seconds', samples: conversions.map(({ seconds }) => seconds) },
      { name: 'cp', unit: 'seconds', samples: copies },
      { name: 'wall / cp', unit: 'ratio', samples: conversions.map(({ seconds }, i) => seconds / (copies[i] ?? 0)) },
      peakFigure(road, conversions),
    ];
  });
}

/** Peak memory alone. */
export async function measureMemory(context: Context, configuration: Configuration): Promise<Row> {
  return measured(context, configuration, async (_, convert) => {
    const conversions: Conversion[] = [];
    for (let run = 0; run < context.runs; run++) {
      context.log(`${subjectOf(configuration)}: run ${run + 1} of ${context.runs}`);
      conversions.push(await convert());
    }
    return [peakFigure(configuration.road, conversions)];
  });
}

/** Converts once and verifies. Then `measure` gets that output, and what converts again to the same bytes. */
async function measured(
  context: Context,
  configuration: Configuration,
  measure: (output: string, convert: () => Promise<Conversion>) => Promise<Figure[]>,
): Promise<Row> {
  const { road, checkpoint, precision } = configuration;
  const subject = subjectOf(configuration);
  const [first, again] = [join(context.work, 'first'), join(context.work, 'again')];
  const failures: string[] = [];
  const warm = await warmer(checkpoint.path, precision);
  const convertTo = async (folder: string): Promise<Conversion> => {
    mkdirSync(folder);
    await flush();
    warm();
    return road.convert(checkpoint.path, folder, precision);
  };
  try {
    context.log(`${subject}: first conversion and verification`);
    await convertTo(first);
    const output = join(first, OUTPUT_NAME);
    failures.push(...verifyOutput(output, checkpoint.expected, precision));
    const figures = await measure(output, async () => {
      const conversion = await convertTo(again);
      const { code } = await runProcess('cmp', ['--silent', output, join(again, OUTPUT_NAME)]);
      if (code !== 0) failures.push('a later run gave other bytes than the first');
      rmSync(again, { recursive: true });
      return conversion;
    });
    return { subject, figures, failures };
  } catch (error) {
    return { subject, figures: [], failures: [...failures, error instanceof Error ? error.message : String(error)] };
  } finally {
    for (const folder of [first, again]) rmSync(folder, { recursive: true, force: true });
  }
}

/** Writes what earlier steps left in the page cache, so that it does not slow down what is measured next. */
async function flush(): Promise<void> {
  await runOrThrow('sync', []);
}

function peakFigure(road: Road, conversions: readonly Conversion[]): Figure {
  const samples = conversions.map(({ peakMemory }) => peakMemory);
  return { name: 'peak memory', unit: 'bytes', samples, below: road.memoryLimit };
}

function subjectOf({ road, checkpoint, precision }: Configuration): string {
  return `${road.name}, ${checkpoint.label}, ${precision}`;
}
