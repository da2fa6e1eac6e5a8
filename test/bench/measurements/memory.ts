import { servePage } from '../../helpers/serve.js';
import type { BenchCheckpoint } from '../checkpoint/cache.js';
import { measureMemory } from '../conversion.js';
import { type Context, type Measurement, type Row, ratiosOf } from '../measurement.js';
import { commandLine } from '../roads/command-line.js';
import { page } from '../roads/page.js';
import type { Road } from '../roads/road.js';

/** What counts as no growth, while the checkpoint grows thirty times. */
const GROWTH_TARGET = 1.1;

/** Peak memory with checkpoints of several sizes, on both roads. bf16, where input and output tiles differ. */
export const memory: Measurement = {
  name: 'memory',
  describe: 'peak memory with a small, a large and a giant checkpoint, and how many times it grows',
  recipes: ['small', 'zero3', 'giant'],
  async run(context) {
    const { checkpoints } = context;
    const large = checkpoints.large()[0] ?? checkpoints.made('zero3');
    const sizes = [checkpoints.made('small'), large, checkpoints.made('giant')];
    const served = await servePage();
    try {
      return [
        ...(await measureGrowth(context, commandLine, sizes)),
        ...(await measureGrowth(context, page(served, 'cpu'), sizes)),
      ];
    } finally {
      await served.close();
    }
  },
};

/** A row for each checkpoint, and beside all but the first how many times the memory of the first it takes. */
async function measureGrowth(context: Context, road: Road, sizes: readonly BenchCheckpoint[]): Promise<Row[]> {
  const rows: Row[] = [];
  for (const checkpoint of sizes) {
    rows.push(await measureMemory(context, { road, checkpoint, settings: { dtype: 'bf16' } }));
  }
  const [first = [], ...others] = rows.map(({ figures }) => figures[0]?.samples ?? []);
  return rows.map((row, i) => {
    const samples = ratiosOf(others[i - 1] ?? [], first);
    if (samples.length === 0) return row;
    return { ...row, figures: [...row.figures, { name: 'growth', unit: 'ratio', samples, target: GROWTH_TARGET }] };
  });
}
