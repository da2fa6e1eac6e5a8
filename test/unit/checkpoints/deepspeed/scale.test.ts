import { describe, expect, test } from 'vitest';
import { isRankCut } from '../../../../src/base/extent.js';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import type { InspectProgress } from '../../../../src/checkpoints/options.js';
import { plan } from '../../../../src/plan/make.js';
import { type HugeOptions, hugeCheckpoint } from '../../../bench/checkpoint/huge.js';
import { sparseTree } from '../../../bench/checkpoint/sparse.js';
import { recordingTree } from '../../../helpers/recording-tree.js';

const treeOf = (options: HugeOptions) => recordingTree(sparseTree('huge', hugeCheckpoint(options)));

describe('a checkpoint of many ranks', () => {
  test('takes one read for a model file, and three for an optimizer file: its two ends, and where its masters start', async () => {
    const tree = treeOf({ stage: 3, ranks: 64, tensors: 300 });
    const { problems, checks } = await inspect(tree);
    expect(problems).toEqual([]);
    expect(checks.filter(({ status }) => status === 'failed')).toEqual([]);
    const counts = new Map<string, number>();
    for (const { path } of tree.reads) counts.set(path, (counts.get(path) ?? 0) + 1);
    const of = (kind: string) => [...counts].filter(([path]) => path.includes(kind)).map(([, count]) => count);
    expect(of('model_states')).toEqual(Array(64).fill(1));
    expect(of('optim_states')).toEqual(Array(64).fill(3));
  });

  test.each([
    [1, 10_001],
    [3, 5001],
  ] as const)(
    'of more than 10,000 files is read in the order of the ranks (stage %i, %i ranks)',
    async (stage, ranks) => {
      const tree = treeOf({ stage, ranks, tensors: 3 });
      const inventory = await inspect(tree);
      expect(inventory.problems).toEqual([]);
      expect(inventory.checks.filter(({ status }) => status === 'failed')).toEqual([]);
      expect(inventory.sources.length).toBeGreaterThan(10_000);
      expect(tree.reads.length).toBeLessThan(4 * inventory.sources.length);
      const { partitions, tensors, sources } = plan(inventory);
      const cuts = stage === 3 ? partitions : tensors.map(({ pieces }) => pieces);
      const rankOf = (source: number) => Number(/_rank_(\d+)_mp/.exec(sources[source]?.path ?? '')?.[1]);
      const orders = cuts.map((list) => list.map((cut) => ('source' in cut ? rankOf(cut.source) : Number.NaN)));
      for (const order of orders) expect(order).toEqual(order.toSorted((a, b) => a - b));
      expect(Math.max(...orders.map(({ length }) => length))).toBeGreaterThan(1000);
    },
    60_000,
  );

  test('learns from the first file how much to read of the others', async () => {
    const tree = treeOf({ stage: 3, ranks: 12, tensors: 3000 });
    await inspect(tree);
    const reads = (rank: number) => tree.reads.filter(({ path }) => path.includes(`/zero_pp_rank_${rank}_`));
    expect(reads(0).length).toBeGreaterThan(2);
    for (let rank = 1; rank < 12; rank++) expect(reads(rank).length).toBeLessThanOrEqual(2);
  });

  test('says what it is when the first file of each kind was opened', async () => {
    const steps: InspectProgress[] = [];
    await inspect(treeOf({ stage: 3, ranks: 16, tensors: 30 }), { onProgress: (step) => steps.push(step) });
    expect(steps.length).toBe(32);
    expect(steps[0]?.facts).toBeUndefined();
    const facts = { stage: 3, ranks: 16, parameters: 30, deepspeedVersion: '0.19.6', globalSteps: 1000 };
    for (const step of steps.slice(1)) expect(step.facts).toMatchObject(facts);
    const firsts = steps.slice(0, 2).map(({ file }) => file.replace(/.*\//, ''));
    expect(firsts.sort()).toEqual([
      'bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt',
      'zero_pp_rank_0_mp_rank_00_model_states.pt',
    ]);
  });

  test('is planned with one piece for each tensor of stage 3, however many ranks there are', async () => {
    const planOf = async (ranks: number) => plan(await inspect(treeOf({ stage: 3, ranks, tensors: 300 })));
    const [few, many] = [await planOf(4), await planOf(96)];
    expect(many.tensors.every(({ pieces }) => pieces.length === 1 && pieces.every(isRankCut))).toBe(true);
    // Shares are shorter numbers; nothing is longer but what there is one of for each file.
    expect(JSON.stringify(many.tensors).length).toBeLessThanOrEqual(JSON.stringify(few.tensors).length);
    expect(many.partitions.map((list) => list.length)).toEqual([96, 96]);
    expect(many.crcs.length).toBe(2 * 96);
  });

  test.each([1, 2] as const)('is planned with a piece for each tensor and each cut (stage %i)', async (stage) => {
    const ranks = 96;
    const { tensors } = plan(await inspect(treeOf({ stage, ranks, tensors: 300 })));
    const pieces = tensors.reduce((sum, tensor) => sum + tensor.pieces.length, 0);
    expect(pieces).toBeLessThan(tensors.length + 2 * ranks);
    expect(pieces).toBeGreaterThanOrEqual(tensors.length + ranks - 1);
  });

  test('of 2,000 tensors on 256 ranks has a plan of less than 2 MB', async () => {
    const inventory = await inspect(treeOf({ stage: 3, ranks: 256, tensors: 2000, rootNames: 'archive' }));
    const made = plan(inventory);
    expect(made.tensors.length).toBe(2001);
    expect(JSON.stringify(made).length).toBeLessThan(2e6);
  });
});
