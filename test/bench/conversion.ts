/**
 * Figures of conversions: against a copy of the same bytes, against one another, and their memory.
 *
 * @module
 */

import { type Context, type Figure, type Row, ratiosOf } from './measurement.js';
import type { Conversion } from './roads/road.js';
import { type Cache, type Configuration, subjectOf, type Trial, withTrials } from './trial.js';
import { takeTurns } from './turns.js';

/** Something of the same minute that a conversion is measured against. */
export interface Baseline {
  readonly name: string;
  /** Seconds that the least takes which has to be done for the output of a trial; undefined where it cannot be had. */
  seconds(context: Context, trial: Trial, cache: Cache): Promise<number | undefined>;
}

/** What is asked of a conversion beside a baseline. */
export interface AgainstOptions {
  /** What the ratio is to come to at most, with a warm cache. */
  readonly target?: number;
  /** Measure with a cold cache as well. */
  readonly cold?: boolean;
}

/** Wall time, that of a baseline in the same minute, their ratio, and peak memory. */
export async function measureAgainst(
  context: Context,
  configuration: Configuration,
  baseline: Baseline,
  { target, cold = false }: AgainstOptions = {},
): Promise<Row> {
  return withTrials(context, subjectOf(configuration), [configuration], async ([trial]) => {
    if (!trial) return [];
    const conversions: Conversion[] = [];
    const inTurns = async (cache: Cache): Promise<readonly [number[], number[]]> => {
      const ours = async (): Promise<number | undefined> => {
        const conversion = await trial.again(cache);
        if (conversion && cache === 'warm') conversions.push(conversion);
        return conversion?.seconds;
      };
      const theirs = () => baseline.seconds(context, trial, cache);
      const [walls = [], copies = []] = await takeTurns(context.runs, [ours, theirs]);
      return [walls.filter(isNumber), copies.filter(isNumber)];
    };
    const figures = figuresOf(baseline.name, '', await inTurns('warm'), target);
    if (cold) {
      const found = await inTurns('cold');
      if (found[0].length === context.runs) figures.push(...figuresOf(baseline.name, 'cold ', found, undefined));
      else context.log('The page cache cannot be emptied here: there are no figures with a cold one.');
    }
    return [...figures, ...waitedFigure(conversions), peakFigure(configuration, conversions)];
  });
}

/** Wall times of two configurations by turns, and the ratio of the first to the second. */
export async function measurePair(
  context: Context,
  name: string,
  configurations: readonly [Configuration, Configuration],
  target: number | undefined,
): Promise<Row> {
  return withTrials(context, name, configurations, async (trials) => {
    const [first = [], second = []] = await takeTurns(
      context.runs,
      trials.map((trial) => async () => (await trial.again())?.seconds),
    );
    const [ours, theirs] = [first.filter(isNumber), second.filter(isNumber)];
    const rates = trials.map(({ transfer }, i): number[] => {
      const bytes = transfer.files.reduce((sum, { byteLength }) => sum + byteLength, 0);
      return (i === 0 ? ours : theirs).map((seconds) => bytes / 1e6 / seconds);
    });
    return [
      { name: 'wall', unit: 'seconds', samples: ours },
      { name: 'against', unit: 'seconds', samples: theirs },
      { name: 'ratio', unit: 'ratio', samples: ratiosOf(ours, theirs), ...(target === undefined ? {} : { target }) },
      { name: 'rate', unit: 'MB/s', samples: rates[0] ?? [] },
      { name: 'rate against', unit: 'MB/s', samples: rates[1] ?? [] },
    ];
  });
}

/** Peak memory alone. */
export async function measureMemory(context: Context, configuration: Configuration): Promise<Row> {
  return withTrials(context, subjectOf(configuration), [configuration], async ([trial]) => {
    const [conversions = []] = await takeTurns(context.runs, [async () => trial?.again()]);
    return [
      peakFigure(
        configuration,
        conversions.flatMap((conversion) => conversion ?? []),
      ),
    ];
  });
}

function figuresOf(
  baseline: string,
  prefix: string,
  [walls, copies]: readonly [number[], number[]],
  target: number | undefined,
): Figure[] {
  return [
    { name: `${prefix}wall`, unit: 'seconds', samples: walls },
    { name: `${prefix}${baseline}`, unit: 'seconds', samples: copies },
    {
      name: `${prefix}wall / ${baseline}`,
      unit: 'ratio',
      samples: ratiosOf(walls, copies),
      ...(target === undefined ? {} : { target }),
    },
  ];
}

function peakFigure({ road }: Configuration, conversions: readonly Conversion[]): Figure {
  const samples = conversions.map(({ peakMemory }) => peakMemory);
  return { name: 'peak memory', unit: 'bytes', samples, target: road.memoryTarget };
}

function waitedFigure(conversions: readonly Conversion[]): Figure[] {
  const samples = conversions.flatMap(({ waited }) => waited ?? []);
  return samples.length === 0 ? [] : [{ name: 'share that waits for the adapter', unit: 'share', samples }];
}

function isNumber(value: number | undefined): value is number {
  return value !== undefined;
}
