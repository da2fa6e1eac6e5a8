import type { RecipeName } from '../checkpoint/recipes.js';
import { measurePair } from '../conversion.js';
import type { Context, Measurement } from '../measurement.js';
import { commandLine as road } from '../roads/command-line.js';
import type { Settings } from '../roads/road.js';
import type { Configuration } from '../trial.js';

/** A fifth less MB/s is a quarter more time. */
const SLOWER = 1.25;

const FP32 = { dtype: 'fp32' } as const;

/** A shape, and the plain one of as many bytes. */
const CASES: readonly { readonly odd: RecipeName; readonly plain: RecipeName; readonly settings: Settings }[] = [
  { odd: 'many-ranks', plain: 'plain', settings: FP32 },
  { odd: 'small-tensors', plain: 'plain-small', settings: FP32 },
  // All dimensions of the large checkpoint are odd.
  { odd: 'zero3', plain: 'plain', settings: { dtype: 'bf16' } },
  { odd: 'row-parallel', plain: 'zero2', settings: { ...FP32, tpRules: [{ pattern: '*', merge: 1 }] } },
  { odd: 'one-tensor', plain: 'plain', settings: FP32 },
];

const LABELS: Partial<Record<RecipeName, string>> = { zero3: 'odd element counts' };

/** Shapes that are hard on a reader or a writer, against an ordinary model. */
export const shapes: Measurement = {
  name: 'shapes',
  describe: 'the command line with odd shapes against a plain model of as many bytes',
  recipes: [...new Set(CASES.flatMap(({ odd, plain }) => [odd, plain]))],
  async *run(context) {
    for (const { odd, plain, settings } of CASES) {
      const ours = configurationOf(context, odd, settings);
      const { tpRules: _, ...plainSettings } = settings;
      const name = `${LABELS[odd] ?? ours.checkpoint.label}, ${settings.dtype}`;
      yield await measurePair(context, name, [ours, configurationOf(context, plain, plainSettings)], SLOWER);
    }
  },
};

function configurationOf(context: Context, name: RecipeName, settings: Settings): Configuration {
  return { road, checkpoint: context.checkpoints.made(name), settings };
}
