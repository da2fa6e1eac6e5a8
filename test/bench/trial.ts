/**
 * A conversion that is timed again and again: the first is verified tensor by tensor, every later one must give the same
 * bytes.
 *
 * @module
 */

import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchCheckpoint } from './checkpoint/cache.js';
import { verifyOutput } from './checkpoint/expected.js';
import { chill, settle, warm } from './disk.js';
import type { Context, Row } from './measurement.js';
import { runProcess } from './process.js';
import { below, type Transfer, transferOf } from './reads.js';
import { type Conversion, type Road, type Settings, settingsText } from './roads/road.js';

/** What is converted, and how. */
export interface Configuration {
  readonly road: Road;
  readonly checkpoint: BenchCheckpoint;
  readonly settings: Settings;
}

/** Where a conversion finds its input: in the page cache, or on the disk alone. */
export type Cache = 'warm' | 'cold';

/** A conversion whose first output was right or is listed among the failures. */
export interface Trial extends Configuration {
  readonly subject: string;
  /** The folder of the first output. */
  readonly output: string;
  readonly transfer: Transfer;
  /** What was wrong so far. */
  readonly failures: string[];
  /** Converts once more. Gives undefined where the cache cannot be cold. */
  again(cache?: Cache): Promise<Conversion | undefined>;
}

/** What is measured of a row: figures from trials that have been opened. */
type Measure = (trials: readonly Trial[]) => Promise<Row['figures']>;

/**
 * Opens a trial for each configuration, measures, and removes the outputs. What is thrown becomes a failure of the row.
 */
export async function withTrials(
  context: Context,
  subject: string,
  configurations: readonly Configuration[],
  measure: Measure,
): Promise<Row> {
  const trials: Trial[] = [];
  const failures = (): string[] => trials.flatMap((trial) => trial.failures);
  try {
    for (const configuration of configurations) {
      trials.push(await openTrial(context, configuration, join(context.work, `output-${trials.length}`)));
    }
    const figures = await measure(trials);
    return { subject, figures, failures: failures() };
  } catch (error) {
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { subject, figures: [], failures: [...failures(), reason] };
  } finally {
    for (const name of readdirSync(context.work)) rmSync(join(context.work, name), { recursive: true, force: true });
  }
}

/** The name of a row of one configuration. */
export function subjectOf({ road, checkpoint, settings }: Configuration): string {
  return `${road.name}, ${checkpoint.label}, ${settingsText(settings)}`;
}

async function openTrial(context: Context, configuration: Configuration, output: string): Promise<Trial> {
  const { road, checkpoint, settings } = configuration;
  const subject = subjectOf(configuration);
  context.log(`${subject}: first conversion and verification`);
  const transfer = await transferOf(checkpoint.path, settings);
  const reads = below(checkpoint.path, transfer.reads);
  const sources = [...new Set(reads.map(({ path }) => path))];
  const failures: string[] = [];
  mkdirSync(output);
  await road.convert(checkpoint.path, output, settings, async () => {});
  failures.push(...(await verifyOutput(output, checkpoint.expected, settings.dtype)));
  let turns = 0;
  const outputBytes = transfer.files.reduce((sum, { byteLength }) => sum + byteLength, 0);
  return {
    ...configuration,
    subject,
    output,
    transfer,
    failures,
    async again(cache = 'warm') {
      context.log(`${subject}: ${cache} run ${++turns}`);
      const target = join(context.work, 'again');
      if (cache === 'cold' && !(await chill(sources))) return undefined;
      mkdirSync(target);
      const conversion = await road.convert(checkpoint.path, target, settings, async () => {
        await settle(context.work, outputBytes);
        if (cache === 'warm') warm(reads);
        else await chill(sources);
      });
      const { code } = await runProcess('diff', ['--recursive', '--brief', output, target]);
      if (code !== 0) failures.push(`${subject}: a later run gave other bytes than the first`);
      rmSync(target, { recursive: true });
      return conversion;
    },
  };
}
