import { servePage } from '../../helpers/serve.js';
import type { BenchCheckpoint } from '../checkpoint/cache.js';
import { measureMemory } from '../conversion.js';
import { type Context, type Figure, type Measurement, type Row, ratiosOf } from '../measurement.js';
import { commandLine } from '../roads/command-line.js';
import { page } from '../roads/page.js';
import type { Road } from '../roads/road.js';

/** What counts as no growth, while the checkpoint grows thirty times. */
const GROWTH_TARGET = 1.1;

const SETTINGS = { dtype: 'bf16' } as const;

/**
 * Peak memory with checkpoints of several sizes, on both roads. bf16, where input and output tiles differ. Beside them one
 * of many tensors: what is known of each is in memory, whatever its size.
 */
export const memory: Measurement = {
  name: 'memory',
  describe: 'peak memory with a small, a large and a giant checkpoint, how many times it grows, and with many tensors',
  recipes: ['small', 'zero3', 'giant', 'small-tensors'],
  async *run(context) {
    const { checkpoints } = context;
    const sizes = [checkpoints.made('small'), checkpoints.firstLarge(), checkpoints.made('giant')];
    const served = await servePage();
    try {
      for (const road of [commandLine, page(served, 'cpu')]) {
        yield* measureGrowth(context, road, sizes);
        yield measureMemory(context, { road, checkpoint: checkpoints.made('small-tensors'), settings: SETTINGS });
      }
    } finally {
      await served.close();
    }
  },
};

/** A row for each checkpoint, and beside all but the first how many times the memory of the first it takes. */
async function* measureGrowth(
  context: Context,
  road: Road,
  checkpoints: readonly BenchCheckpoint[],
): AsyncGenerator<Row> {
  let first: readonly number[] | undefined;
  for (const checkpoint of checkpoints) {
    const row = await measureMemory(context, { road, checkpoint, settings: SETTINGS });
    const samples = row.figures[0]?.samples ?? [];
    const growth = ratiosOf(samples, first ?? []);
    first ??= samples;
    if (growth.length === 0) yield row;
    else {
      const figure: Figure = { name: 'growth', unit: 'ratio', samples: growth, target: GROWTH_TARGET };
      yield { ...row, figures: [...row.figures, figure] };
    }
  }
}
