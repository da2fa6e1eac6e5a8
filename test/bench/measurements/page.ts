import { servePage } from '../../helpers/serve.js';
import { barePage } from '../baselines/bare-page.js';
import { serveBenchPages } from '../browser/serve.js';
import { shardBytes } from '../checkpoint/recipes.js';
import { measureAgainst } from '../conversion.js';
import type { Context, Measurement, Row } from '../measurement.js';
import { type Destination, page as pageRoad } from '../roads/page.js';
import type { Settings } from '../roads/road.js';

/** What the page may take of the time that the bare APIs take. */
const PAGE_TARGET = 1.25;

const PRECISIONS = ['fp32', 'bf16'] as const;

/** One conversion of the page. */
interface Case {
  readonly backend: 'cpu' | 'gpu';
  readonly destination: Destination;
  readonly settings: Settings;
}

/** The built page on the CPU: into one file, into shards, and as a download. */
export const page: Measurement = {
  name: 'page',
  describe: 'the page on the CPU against a bare read and write of the same bytes through the same APIs',
  recipes: ['zero3', 'zero2'],
  async run(context) {
    const [first, ...others] = context.checkpoints.large();
    const into = (destination: Destination, settings: Partial<Settings> = {}): Case[] =>
      PRECISIONS.map((dtype) => ({ backend: 'cpu', destination, settings: { dtype, ...settings } }));
    const shards = { maxShardSize: shardBytes(context.checkpoints.elements) };
    return measurePages(context, [
      ...[first, ...others].map((checkpoint) => ({ checkpoint, cases: into('folder') })),
      { checkpoint: first, cases: [...into('folder', shards), ...into('download')] },
    ]);
  },
};

/** The built page through the shaders, on a software adapter: the CPU that poses as a GPU. */
export const pageGpu: Measurement = {
  name: 'page-gpu',
  describe: 'the page on a software GPU adapter, and how long it waits for that',
  recipes: ['zero3'],
  async run(context) {
    const [checkpoint] = context.checkpoints.large();
    const cases: Case[] = [{ backend: 'gpu', destination: 'folder', settings: { dtype: 'bf16' } }];
    return measurePages(context, [{ checkpoint, cases }]);
  },
};

async function measurePages(
  context: Context,
  all: readonly { readonly checkpoint: ReturnType<Context['checkpoints']['made']> | undefined; cases: Case[] }[],
): Promise<Row[]> {
  const rows: Row[] = [];
  const served = await servePage();
  const pages = await serveBenchPages();
  try {
    for (const { checkpoint, cases } of all) {
      if (!checkpoint) throw new Error('There is no checkpoint.');
      for (const { backend, destination, settings } of cases) {
        const configuration = { road: pageRoad(served, backend, destination), checkpoint, settings };
        const target = backend === 'cpu' ? { target: PAGE_TARGET } : {};
        rows.push(await measureAgainst(context, configuration, barePage(pages, destination), target));
      }
    }
  } finally {
    await served.close();
    await pages.close();
  }
  return rows;
}
