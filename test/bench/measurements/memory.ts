import { servePage } from '../../helpers/serve.js';
import { measureMemory } from '../conversion.js';
import type { Context, Measurement, Row } from '../measurement.js';
import { commandLine } from '../roads/command-line.js';
import { page } from '../roads/page.js';
import type { Road } from '../roads/road.js';

/** What counts as no growth, while the checkpoint grows nearly five times: two peaks differ by when garbage is collected. */
const GROWTH_LIMIT = 1.5;

/** Peak memory with a small and a large checkpoint, on both roads. bf16, where input and output tiles differ. */
export const memory: Measurement = {
  name: 'memory',
  describe: 'peak memory with a small and a large checkpoint, and how many times it grows',
  async run(context) {
    const served = await servePage();
    try {
      return [...(await growth(context, commandLine)), ...(await growth(context, page(served, 'cpu')))];
    } finally {
      await served.close();
    }
  },
};

async function growth(context: Context, road: Road): Promise<Row[]> {
  const rows: Row[] = [];
  const [large] = context.checkpoints.large();
  if (large === undefined) throw new Error('There is no large checkpoint.');
  for (const checkpoint of [context.checkpoints.small(), large]) {
    rows.push(await measureMemory(context, { road, checkpoint, precision: 'bf16' }));
  }
  const [few, many] = rows.map((row) => row.figures[0]?.samples ?? []);
  const samples = (many ?? []).flatMap((bytes, i) => (few?.[i] === undefined ? [] : [bytes / few[i]]));
  const subject = `${road.name}, growth`;
  if (samples.length === 0) return [...rows, { subject, figures: [], failures: ['it could not be measured'] }];
  return [
    ...rows,
    { subject, figures: [{ name: 'growth', unit: 'ratio', samples, below: GROWTH_LIMIT }], failures: [] },
  ];
}
