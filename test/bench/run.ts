/**
 * `npm run bench -- [options]`: measures what the product promises. It fails where an output is wrong; targets that are
 * missed are listed. Linux only: memory is read from /proc.
 *
 * @module
 */

import { existsSync, mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { CLI } from '../helpers/cli.js';
import { type Checkpoints, gigabytes, openCheckpoints } from './checkpoint/cache.js';
import { LARGE_ELEMENTS, outputBytes } from './checkpoint/recipes.js';
import { describeMachine, machineText } from './machine.js';
import { type Context, type Measurement, missesOf, type Row, summarize } from './measurement.js';
import { MEASUREMENTS } from './measurements/index.js';
import { runOrThrow } from './process.js';
import { tableText } from './table.js';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const CACHE = join(PROJECT, '.cache', 'bench');
const BUILT = [CLI, join(PROJECT, 'dist/page/index.html')];

const HELP = `Usage: npm run bench -- [options]

  --only NAME        make this measurement alone; may be repeated
  --runs N           samples of each figure (default 3); the median is shown, with least and greatest beside it
  --json FILE        where to save all samples (default .cache/bench.json)
  --checkpoint DIR   convert this checkpoint, which has an EXPECTED.json, in place of generated ones; may be repeated
  --elements N       size of the generated checkpoints (default ${LARGE_ELEMENTS}); a small one does not fill the buffers,
                     so that memory still grows
  --clean            remove the generated checkpoints at the end (default: they are kept in .cache/bench)

How much of the disk is needed is said at the start. What is in dist is measured; it is built when missing.

${MEASUREMENTS.map(({ name, describe }) => `  ${name.padEnd(18)} ${describe}`).join('\n')}
`;

/** A measurement and what came of it. */
interface Outcome {
  readonly measurement: Measurement;
  readonly rows: Row[];
  readonly failures: string[];
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true, default: [] },
      runs: { type: 'string', default: '3' },
      json: { type: 'string', default: `${CACHE}.json` },
      checkpoint: { type: 'string', multiple: true, default: [] },
      elements: { type: 'string', default: String(LARGE_ELEMENTS) },
      clean: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  if (process.platform !== 'linux') throw new Error('The bench reads memory from /proc, which only Linux has.');
  const selected = select(values.only);
  const [runs, elements] = [count('runs', values.runs), count('elements', values.elements)];
  if (!BUILT.every((path) => existsSync(path))) await runOrThrow('npm', ['run', 'build', '--prefix', PROJECT]);

  const machine = describeMachine();
  console.log(machineText(machine));
  const work = join(CACHE, `work-${process.pid}`);
  const removeWork = (): void => rmSync(work, { recursive: true, force: true });
  process.once('SIGINT', () => {
    removeWork();
    process.exit(130);
  });
  const log = (text: string): void => {
    process.stderr.write(`${text}\n`);
  };
  const checkpoints = openCheckpoints({ cache: CACHE, elements, named: values.checkpoint, log });
  const outcomes: Outcome[] = [];
  try {
    removeStaleWork();
    mkdirSync(work, { recursive: true });
    console.log(spaceText(selected, checkpoints, elements));
    const save = (): void => {
      const results = { machine, runs, elements, measurements: outcomes.map(resultOf) };
      writeFileSync(values.json, `${JSON.stringify(results, undefined, 1)}\n`);
    };
    for (const measurement of selected) {
      const outcome: Outcome = { measurement, rows: [], failures: [] };
      outcomes.push(outcome);
      // What is measured so far is there when the rest is not waited for.
      for await (const row of make(outcome, { runs, work, checkpoints, log })) {
        log(tableText([row]));
        save();
      }
      // What failed is there as well, where it gave no further row.
      save();
      console.log(`\n${measurement.name}: ${measurement.describe}\n${tableText(outcome.rows)}`);
    }
  } finally {
    removeWork();
    if (values.clean) rmSync(CACHE, { recursive: true, force: true });
  }

  const misses = outcomes.flatMap(({ rows }) => rows.flatMap(missesOf));
  console.log(misses.length === 0 ? '\nAll targets are met.' : `\nMissed targets\n${misses.join('\n')}`);
  const failures = outcomes.flatMap((outcome) => outcome.failures);
  console.log(failures.length === 0 ? '\nAll outputs are right.' : `\nFAILED\n${failures.join('\n')}`);
  console.log(`\nAll samples are in ${values.json}.`);
  if (failures.length > 0) process.exitCode = 1;
}

/** What the disk has to hold. @throws where it cannot */
function spaceText(selected: readonly Measurement[], checkpoints: Checkpoints, elements: number): string {
  const recipes = selected.flatMap((measurement) => measurement.recipes);
  const missing = checkpoints.missingBytes(recipes);
  const outputs = Math.max(0, ...recipes.map((name) => outputBytes(name, elements)));
  const { bavail, bsize } = statfsSync(CACHE);
  const text =
    `Disk: ${gigabytes(missing)} for checkpoints that are not in ${CACHE} yet, up to ${gigabytes(outputs)} for outputs; ` +
    `${gigabytes(bavail * bsize)} are free.`;
  if (bavail * bsize < missing + outputs) throw new Error(`${text} That is too little.`);
  return text;
}

/** Removes the outputs of runs that were killed. */
function removeStaleWork(): void {
  for (const name of existsSync(CACHE) ? readdirSync(CACHE) : []) {
    const pid = /^work-(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) rmSync(join(CACHE, name), { recursive: true, force: true });
  }
}

/** Makes a measurement, and gives each row once it is noted. */
async function* make({ measurement, rows, failures }: Outcome, context: Context): AsyncGenerator<Row> {
  try {
    for await (const row of measurement.run(context)) {
      rows.push(row);
      failures.push(...row.failures.map((failure) => `${row.subject}: ${failure}`));
      yield row;
    }
  } catch (error) {
    failures.push(`${measurement.name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  }
}

function select(only: readonly string[]): readonly Measurement[] {
  const unknown = only.find((name) => !MEASUREMENTS.some((measurement) => measurement.name === name));
  if (unknown !== undefined) throw new Error(`There is no measurement ${unknown}.\n\n${HELP}`);
  return only.length === 0 ? MEASUREMENTS : MEASUREMENTS.filter(({ name }) => only.includes(name));
}

function count(option: string, text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1)
    throw new Error(`--${option} must be a whole number; it is ${text}.`);
  return number;
}

function resultOf({ measurement: { name, describe }, rows, failures }: Outcome): object {
  const summarized = rows.map((row) => {
    return { ...row, figures: row.figures.map((figure) => ({ ...figure, ...summarize(figure.samples) })) };
  });
  return { name, describe, rows: summarized, failures };
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
