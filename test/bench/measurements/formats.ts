import { shardBytes } from '../checkpoint/recipes.js';
import { measurePair } from '../conversion.js';
import type { Measurement } from '../measurement.js';
import { commandLine as road } from '../roads/command-line.js';
import type { Settings } from '../roads/road.js';

/** What a conversion may take of the time of another. */
interface Pair {
  readonly name: string;
  readonly ours: Settings;
  readonly against: Settings;
  readonly target: number;
}

/** Precisions, formats and numbers of files against one another, all checks on. */
export const formats: Measurement = {
  name: 'formats',
  describe: 'the command line to 16 bits against fp32, .bin against safetensors, shards against one file',
  recipes: ['zero3', 'zero2'],
  async *run(context) {
    const fp32 = { dtype: 'fp32' } as const;
    const [zero3, zero2] = context.checkpoints.large();
    const direct = (dtype: 'bf16' | 'fp16', target: number): Pair => {
      return { name: `${dtype} / fp32`, ours: { dtype }, against: fp32, target };
    };
    const shards = { ...fp32, maxShardSize: shardBytes(context.checkpoints.elements) };
    const all: readonly (readonly [checkpoint: typeof zero3, pairs: readonly Pair[]])[] = [
      [
        zero3,
        [
          direct('bf16', 0.65),
          direct('fp16', 0.65),
          { name: '.bin / safetensors', ours: { ...fp32, format: 'bin' }, against: fp32, target: 1.05 },
          { name: 'shards / one file', ours: shards, against: fp32, target: 1.1 },
        ],
      ],
      [zero2, [direct('bf16', 0.55)]],
    ];
    for (const [checkpoint, pairs] of all) {
      if (!checkpoint) continue;
      for (const { name, ours, against, target } of pairs) {
        const of = (settings: Settings) => ({ road, checkpoint, settings });
        yield await measurePair(context, `${checkpoint.label}, ${name}`, [of(ours), of(against)], target);
      }
    }
  },
};
