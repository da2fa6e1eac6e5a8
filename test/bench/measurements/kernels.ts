import { measureRate } from '../../../src/engine/calibrate.js';
import { cpuBackend } from '../../../src/engine/cpu.js';
import { launchBrowser } from '../../helpers/page.js';
import type {} from '../browser/rates.page.js';
import { serveBenchPages } from '../browser/serve.js';
import { CONVERSIONS, type Converter } from '../conversions.js';
import type { Figure, Measurement, Row } from '../measurement.js';

/** Conversion alone, on every road, in 10^9 bytes of input a second. */
export const kernels: Measurement = {
  name: 'kernels',
  describe: 'conversion alone: GB/s of input in Node, in Chromium and on a software GPU adapter',
  recipes: [],
  async *run({ runs, log }) {
    log('kernels: Node');
    yield rowOf('Node, WebAssembly', runs, inNode('wasm'));
    yield rowOf('Node, JavaScript', runs, inNode('js'));
    const pages = await serveBenchPages();
    const browser = await launchBrowser();
    try {
      await browser.page.goto(pages.url('rates.html'));
      await browser.page.waitForFunction(() => window.measureConversion !== undefined);
      for (const converter of ['WebAssembly', 'JavaScript', 'GPU adapter'] as const) {
        log(`kernels: Chromium, ${converter}`);
        const measure = (conversion: (typeof CONVERSIONS)[number]): Promise<number> =>
          browser.page.evaluate(
            ([asked, by]) => window.measureConversion?.(asked, by) ?? Promise.reject(new Error('no page')),
            [conversion, converter] as const,
          );
        yield rowOf(`Chromium, ${converter}`, runs, measure);
      }
    } finally {
      await browser.close();
      await pages.close();
    }
  },
};

type Measure = (conversion: (typeof CONVERSIONS)[number], converter?: Converter) => Promise<number>;

function inNode(kernel: 'wasm' | 'js'): Measure {
  const backend = cpuBackend({ kernel });
  return (conversion) => measureRate(backend, conversion);
}

async function rowOf(subject: string, runs: number, measure: Measure): Promise<Row> {
  const figures: Figure[] = [];
  for (const conversion of CONVERSIONS) {
    // The first compiles.
    await measure(conversion);
    const samples: number[] = [];
    for (let run = 0; run < runs; run++) samples.push(await measure(conversion));
    figures.push({ name: `${conversion.from} to ${conversion.to}`, unit: 'GB/s', samples });
  }
  return { subject, figures, failures: [] };
}
