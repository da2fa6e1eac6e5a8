import { setTimeout as sleep } from 'node:timers/promises';
import { chooseDestination, openCheckpoint, openPage, pressStart, readReport, setOptions } from '../../e2e/drive.js';
import { readPss } from '../../helpers/memory.js';
import { launchBrowser } from '../../helpers/page.js';
import type { ServedPage } from '../../helpers/serve.js';
import type { Road } from './road.js';

/** Time between two looks at the memory, in milliseconds. A look costs about 20, which the conversion cannot have. */
const MEMORY_MS = 200;

/** Time that a fresh browser gets to come to rest before its memory is taken as that of an empty one. */
const SETTLE_MS = 1500;

/**
 * The built page, in a fresh browser for each conversion. `gpu` converts with a software adapter. The time is what a user
 * waits: from the drop of the checkpoint to the plan, and from Start to the report. The memory is what all processes of
 * the browser take above those with an empty tab.
 */
export function page(served: ServedPage, backend: 'cpu' | 'gpu'): Road {
  return {
    name: `page, ${backend}`,
    memoryLimit: 700e6,
    async convert(checkpoint, output, precision) {
      const browser = await launchBrowser({ gpu: backend === 'gpu' });
      try {
        await sleep(SETTLE_MS);
        const peak = watchPeak(browser.pid);
        const { page } = browser;
        await openPage(page, served.url);
        const [, toPlan] = await timed(openCheckpoint(page, checkpoint));
        await setOptions(page, { dtype: precision, backend });
        await chooseDestination(page, output);
        const [report, toReport] = await timed(pressStart(page, false).then(() => readReport(page)));
        const peakMemory = peak.stop();
        const { name, description, jobsOnCpu } = report.backend;
        if (name !== backend || (backend === 'gpu' && jobsOnCpu > 0)) {
          throw new Error(`It was converted by ${name} (${description}), with ${jobsOnCpu} jobs on the CPU.`);
        }
        return { seconds: toPlan + toReport, peakMemory };
      } finally {
        await browser.close();
      }
    },
  };
}

async function timed<T>(work: Promise<T>): Promise<readonly [result: T, seconds: number]> {
  const started = performance.now();
  const result = await work;
  return [result, (performance.now() - started) / 1000];
}

/** Watches the memory of a process and its descendants. `stop` gives the most bytes above those at the start. */
function watchPeak(pid: number): { stop(): number } {
  const before = readPss(pid);
  let peak = before;
  const look = (): void => {
    peak = Math.max(peak, readPss(pid));
  };
  const timer = setInterval(look, MEMORY_MS);
  return {
    stop() {
      clearInterval(timer);
      look();
      return peak - before;
    },
  };
}
