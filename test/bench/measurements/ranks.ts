import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openPage, reachStage } from '../../e2e/drive.js';
import { dropFolders, launchBrowser } from '../../helpers/page.js';
import { servePage } from '../../helpers/serve.js';
import { type HugeOptions, hugeCheckpoint } from '../checkpoint/huge.js';
import { writeSparse } from '../checkpoint/sparse.js';
import type { Context, Figure, Measurement, Row } from '../measurement.js';
import { SETTLE_MS, watchPeak } from '../memory.js';
import { type CommandRun, runCommandLine } from '../roads/command-line.js';
import { takeTurns } from '../turns.js';

/** A model of 7 G parameters on 1,024 ranks. */
const INSPECTED: HugeOptions = { stage: 3, ranks: 1024, tensors: 300 };

/** A mixture of many experts, say. Its model files differ by the device alone, and are eight files with many names. */
const PLANNED: HugeOptions = { stage: 3, ranks: 1024, tensors: 50_000, rootNames: 'archive' };

/** Seconds within which a checkpoint is to be inspected or planned. */
const SECONDS = { commandLine: 3, firstFacts: 1, page: 10, plan: 10 };

/** Bytes of memory and of `plan.json` that planning is to stay below. */
const PLAN_BYTES = { memory: 1e9, file: 100e6 };

/** Longest time until the page shows what it looks at, in milliseconds. */
const PATIENCE_MS = 300_000;

/** Checkpoints of 1,024 ranks, written with holes in place of their weights. */
export const ranks: Measurement = {
  name: 'ranks',
  describe: '1,024 ranks inspected by the command line and the page; 50,000 tensors on 1,024 ranks planned',
  recipes: [],
  async *run(context) {
    const inspected = checkpointOf(context, INSPECTED);
    const planned = checkpointOf(context, PLANNED);
    yield rowOf(context, '1,024 ranks inspected, command line', () => inspectedByCommandLine(context, inspected));
    yield rowOf(context, '1,024 ranks inspected, page', () => inspectedByPage(context, inspected));
    yield rowOf(context, '50,000 tensors on 1,024 ranks planned', () => plannedByCommandLine(context, planned));
  },
};

function checkpointOf({ checkpoints }: Context, options: HugeOptions): string {
  const { ranks, tensors } = options;
  return checkpoints.folder(`ranks-${ranks}-${tensors}`, (folder) => writeSparse(folder, hugeCheckpoint(options)));
}

/** A row that fails where its figures cannot be had: the others are measured none the less. */
async function rowOf({ log }: Context, subject: string, measure: () => Promise<Figure[]>): Promise<Row> {
  log(subject);
  try {
    return { subject, figures: await measure(), failures: [] };
  } catch (error) {
    return { subject, figures: [], failures: [error instanceof Error ? error.message : String(error)] };
  }
}

async function inspectedByCommandLine({ runs }: Context, checkpoint: string): Promise<Figure[]> {
  await runCommandLine([checkpoint]);
  const [all = []] = await takeTurns(runs, [() => runCommandLine([checkpoint])]);
  return commandFigures(all, SECONDS.commandLine);
}

async function plannedByCommandLine({ runs, work }: Context, checkpoint: string): Promise<Figure[]> {
  const path = join(work, 'plan.json');
  const plan = () => runCommandLine(['plan', checkpoint, '-o', path, '--overwrite']);
  await plan();
  const [all = []] = await takeTurns(runs, [plan]);
  const size: Figure = { name: 'plan.json', unit: 'bytes', samples: [statSync(path).size], target: PLAN_BYTES.file };
  return [...commandFigures(all, SECONDS.plan, PLAN_BYTES.memory), size];
}

function commandFigures(all: readonly CommandRun[], seconds: number, memory?: number): Figure[] {
  return [
    { name: 'wall', unit: 'seconds', samples: all.map((run) => run.seconds), target: seconds },
    {
      name: 'peak memory',
      unit: 'bytes',
      samples: all.map(({ peakMemory }) => peakMemory),
      ...(memory === undefined ? {} : { target: memory }),
    },
  ];
}

async function inspectedByPage({ runs }: Context, checkpoint: string): Promise<Figure[]> {
  const served = await servePage();
  const look = async (): Promise<{ firstFacts: number; all: number; peakMemory: number }> => {
    const browser = await launchBrowser({ gpu: false });
    try {
      await sleep(SETTLE_MS);
      const peak = watchPeak(browser.pid);
      const { page } = browser;
      await openPage(page, served.url);
      const started = performance.now();
      const since = (): number => (performance.now() - started) / 1000;
      await dropFolders(page, 'main', [checkpoint]);
      await page.locator('dl.facts').first().waitFor({ timeout: PATIENCE_MS });
      const firstFacts = since();
      const stage = await reachStage(page, 'plan', 'failed');
      if (stage === 'failed') throw new Error((await page.getByTestId('failure-message').textContent()) ?? '');
      return { firstFacts, all: since(), peakMemory: peak.stop() };
    } finally {
      await browser.close();
    }
  };
  try {
    const [all = []] = await takeTurns(runs, [look]);
    return [
      { name: 'wall', unit: 'seconds', samples: all.map((one) => one.all), target: SECONDS.page },
      { name: 'first facts', unit: 'seconds', samples: all.map((one) => one.firstFacts), target: SECONDS.firstFacts },
      { name: 'peak memory', unit: 'bytes', samples: all.map(({ peakMemory }) => peakMemory) },
    ];
  } finally {
    await served.close();
  }
}
