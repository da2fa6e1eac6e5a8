import { setTimeout as sleep } from 'node:timers/promises';
import { chooseDestination, openCheckpoint, openPage, pressStart, readReport, setOptions } from '../../e2e/drive.js';
import { launchBrowser, type TestBrowser } from '../../helpers/page.js';
import type { ServedPage } from '../../helpers/serve.js';
import { takeDownloads } from '../downloads.js';
import { SETTLE_MS, watchPeak } from '../memory.js';
import type { Road } from './road.js';

/** Where the page writes: into the folder that is dropped on it, or as downloads. */
export type Destination = 'folder' | 'download';

/** What the processes of a browser may grow by, in bytes. */
const PAGE_MEMORY = 700e6;

/**
 * The built page, in a fresh browser for each conversion. `gpu` converts with a software adapter. The time is what a user
 * waits: from the drop of the checkpoint to the plan, and from Start to the report, and to the last download where files
 * are downloaded. The memory is what all processes of the browser take above those with an empty tab.
 */
export function page(served: ServedPage, backend: 'cpu' | 'gpu', destination: Destination = 'folder'): Road {
  return {
    name: `page, ${backend}${destination === 'download' ? ', download' : ''}`,
    memoryTarget: PAGE_MEMORY,
    async convert(checkpoint, output, settings, ready) {
      const { dtype, maxShardSize } = settings;
      const browser = await launchBrowser({ gpu: backend === 'gpu' });
      try {
        await sleep(SETTLE_MS);
        const peak = watchPeak(browser.pid);
        const { page } = browser;
        await openPage(page, served.url);
        const [, toPlan] = await timed(openCheckpoint(page, checkpoint));
        const shards = maxShardSize === undefined ? {} : { maxShardSize: `${maxShardSize / 1e6}MB` };
        await setOptions(page, { dtype, backend, ...shards });
        if (destination === 'folder') await chooseDestination(page, output);
        else await page.getByRole('button', { name: /^Download/ }).click();
        await ready();
        const [report, toReport] = await timed(pressStart(page, false).then(() => readReport(page)));
        const files = destination === 'download' ? report.files.length : 0;
        const [, toFiles] = await timed(untilSaved(browser, files));
        const peakMemory = peak.stop();
        if (destination === 'download') takeDownloads(browser, output);
        const { name, description, jobsOnCpu, waitedSeconds } = report.backend;
        if (name !== backend || (backend === 'gpu' && jobsOnCpu > 0)) {
          throw new Error(`It was converted by ${name} (${description}), with ${jobsOnCpu} jobs on the CPU.`);
        }
        const waited = waitedSeconds === undefined ? {} : { waited: waitedSeconds / report.seconds };
        return { seconds: toPlan + toReport + toFiles, peakMemory, ...waited };
      } finally {
        await browser.close();
      }
    },
  };
}

/** Waits until so many downloads have ended. */
async function untilSaved({ finishedDownloads }: TestBrowser, files: number): Promise<void> {
  while (finishedDownloads.length < files) await sleep(10);
}

async function timed<T>(work: Promise<T>): Promise<readonly [result: T, seconds: number]> {
  const started = performance.now();
  const result = await work;
  return [result, (performance.now() - started) / 1000];
}
