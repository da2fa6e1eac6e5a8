import { copy } from '../baselines/copy.js';
import { measureAgainst } from '../conversion.js';
import type { Measurement } from '../measurement.js';
import { commandLine as road } from '../roads/command-line.js';
import type { Settings } from '../roads/road.js';

/** What is converted, and what its wall time is to be of that of `cp` at most. */
const CASES: readonly { readonly settings: Settings; readonly target?: number; readonly cold?: true }[] = [
  { settings: { dtype: 'fp32', verify: false }, target: 1.2, cold: true },
  { settings: { dtype: 'fp32' }, target: 1.5, cold: true },
  { settings: { dtype: 'bf16' } },
  { settings: { dtype: 'fp16' } },
];

/** The command line in every precision. */
export const commandLine: Measurement = {
  name: 'command-line',
  describe: 'the command line against cp of its output, with a warm and a cold page cache',
  recipes: ['zero3', 'zero2'],
  async *run(context) {
    for (const checkpoint of context.checkpoints.large()) {
      for (const { settings, ...options } of CASES) {
        yield await measureAgainst(context, { road, checkpoint, settings }, copy, options);
      }
    }
  },
};
