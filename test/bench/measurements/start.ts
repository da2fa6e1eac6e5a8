import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { CLI } from '../../helpers/cli.js';
import type { Measurement } from '../measurement.js';
import { runOrThrow } from '../process.js';
import { takeTurns } from '../turns.js';

const PAGE_ASSETS = fileURLToPath(new URL('../../../dist/page/assets', import.meta.url));

/** Processes of each kind for each sample that is asked for: they take a tenth of a second. */
const STARTS = 5;

/** Milliseconds that the command line may take longer to start than Node itself. */
const START_TARGET = 150;

/** What a user waits for before anything is done. */
export const start: Measurement = {
  name: 'start',
  describe: 'unshard --help against node -e 0, and the size of the JavaScript of the page',
  recipes: [],
  async *run({ runs }) {
    const wallOf = async (args: readonly string[]): Promise<number> => {
      return (await runOrThrow(process.execPath, args)).seconds * 1000;
    };
    const [ours = [], node = []] = await takeTurns(runs * STARTS, [
      () => wallOf([CLI, '--help']),
      () => wallOf(['-e', '0']),
    ]);
    const more = ours.map((wall, i) => wall - (node[i] ?? 0));
    const scripts = readdirSync(PAGE_ASSETS, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.js'))
      .map((name) => readFileSync(join(PAGE_ASSETS, name)));
    const sum = (sizes: readonly number[]): number => sizes.reduce((total, size) => total + size, 0);
    yield {
      subject: 'unshard --help',
      figures: [
        { name: 'wall', unit: 'milliseconds', samples: ours },
        { name: 'node -e 0', unit: 'milliseconds', samples: node },
        { name: 'difference', unit: 'milliseconds', samples: more, target: START_TARGET },
      ],
      failures: [],
    };
    yield {
      subject: 'JavaScript of the page',
      figures: [
        { name: 'raw', unit: 'kilobytes', samples: [sum(scripts.map(({ length }) => length))] },
        { name: 'gzip', unit: 'kilobytes', samples: [sum(scripts.map((bytes) => gzipSync(bytes).length))] },
      ],
      failures: [],
    };
  },
};
