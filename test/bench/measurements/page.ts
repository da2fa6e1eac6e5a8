import { servePage } from '../../helpers/serve.js';
import { barePage } from '../baselines/bare-page.js';
import { serveBenchPages } from '../browser/serve.js';
import type { BenchCheckpoint } from '../checkpoint/cache.js';
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

/** The built page on the CPU, into one file. */
export const page: Measurement = {
  name: 'page',
  describe: 'the page on the CPU into one file, against a bare read and write of the same bytes through the same APIs',
  recipes: ['zero3', 'zero2'],
  async *run(context) {
    for (const checkpoint of context.checkpoints.large()) yield* measurePage(context, checkpoint, onCpu('folder'));
  },
};

/** The same into several files. */
export const pageShards: Measurement = {
  name: 'page-shards',
  describe: 'the page on the CPU into shards of about 500 MB, against a bare read and write',
  recipes: ['zero3'],
  run: (context) =>
    measurePage(
      context,
      context.checkpoints.firstLarge(),
      onCpu('folder', { maxShardSize: shardBytes(context.checkpoints.elements) }),
    ),
};

/** The same as a download. */
export const pageDownload: Measurement = {
  name: 'page-download',
  describe: 'the page on the CPU as a download, against a bare read and write',
  recipes: ['zero3'],
  run: (context) => measurePage(context, context.checkpoints.firstLarge(), onCpu('download')),
};

/** The built page through the shaders, on a software adapter: the CPU that poses as a GPU. */
export const pageGpu: Measurement = {
  name: 'page-gpu',
  describe: 'the page on a software GPU adapter, and how long it waits for that',
  recipes: ['zero3'],
  run: (context) =>
    measurePage(context, context.checkpoints.firstLarge(), [
      { backend: 'gpu', destination: 'folder', settings: { dtype: 'bf16' } },
    ]),
};

function onCpu(destination: Destination, settings: Partial<Settings> = {}): Case[] {
  return PRECISIONS.map((dtype) => ({ backend: 'cpu', destination, settings: { dtype, ...settings } }));
}

async function* measurePage(
  context: Context,
  checkpoint: BenchCheckpoint,
  cases: readonly Case[],
): AsyncGenerator<Row> {
  const served = await servePage();
  const pages = await serveBenchPages();
  try {
    for (const { backend, destination, settings } of cases) {
      const configuration = { road: pageRoad(served, backend, destination), checkpoint, settings };
      const target = backend === 'cpu' ? { target: PAGE_TARGET } : {};
      yield await measureAgainst(context, configuration, barePage(pages, destination), target);
    }
  } finally {
    await served.close();
    await pages.close();
  }
}
