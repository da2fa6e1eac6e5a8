import { describe, expect, test } from 'vitest';
import { expectWhole, inspectSpec, problemsIn, problemsOf, without } from '../../../helpers/deepspeed/check.js';
import { GROUPS, optimOf, small } from '../../../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../../../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';

/** Four sub-groups of one parameter each, of 5, 2, 5 and 2 elements on each of three ranks. */
function offloaded(more: Partial<CheckpointSpec> = {}): CheckpointSpec {
  return small(3, { subGroupSize: 1, swapped: [0, 1, 2, 3], ...more });
}

/** Path of a swap file. */
function swapOf(rank: number, ids: string): string {
  return `global_step7/offloaded_tensors/rank0${rank}/${ids}.tensor.swp`;
}

const WEIGHTS = [
  { name: 'a', shape: [5, 3] },
  { name: 'b', shape: [4] },
  { name: 'c', shape: [7] },
  { name: 'd', shape: [2, 2] },
];

describe('masters in swap files', () => {
  test.each([[[0, 1, 2, 3]], [[0]], [[1, 3]], [[2]]])('are read there (sub-groups %j)', async (swapped) => {
    await expectWhole(offloaded({ swapped }));
  });

  test.each(['all', 'ends'] as const)('of several parameters, named by %s of their ids', async (swapNames) => {
    await expectWhole(offloaded({ swapNames, subGroupSize: 1000, groups: [WEIGHTS], swapped: [0] }));
    await expectWhole(offloaded({ swapNames, subGroupSize: 6, groups: [WEIGHTS], swapped: [0, 1] }));
  });

  test.each([1, 2, 11])('of %i ranks', async (ranks) => {
    const { files } = await expectWhole(offloaded({ ranks }));
    expect(Object.keys(files).filter((path) => path.endsWith('.swp'))).toHaveLength(ranks * 8);
  });

  test('of 16 bits', async () => {
    await expectWhole(offloaded({ masterDtype: 'BF16', version: '0.18.3' }));
  });

  test('come with their sizes as sources, and optimizer states do not', async () => {
    const { sources, partitions } = await inspectSpec(
      offloaded({ ranks: 1, groups: [WEIGHTS.slice(0, 1)], swapped: [0] }),
    );
    const swap = sources.findIndex(({ path }) => path === swapOf(0, '3_3'));
    expect(sources[swap]?.size).toBe(64);
    expect(partitions).toEqual([[{ source: swap, offset: 0 }]]);
    expect(sources.filter(({ path }) => path.includes('exp_avg'))).toEqual([]);
  });

  test('may be of two parameter groups whose parameters lie across each other, where the ids say so', async () => {
    const [a, b, c, d] = WEIGHTS;
    if (!a || !b || !c || !d) throw new Error('four parameters');
    const spec = offloaded({
      groups: [
        [a, c],
        [b, d],
      ],
      namedOrder: ['a', 'b', 'c', 'd'],
      subGroupSize: 1000,
      swapped: [0, 1],
    });
    await expectWhole(spec);
    const { files } = writeCheckpoint(spec);
    const moved = without(files, swapOf(1, '4_6'));
    const bytes = files[swapOf(1, '4_6')];
    if (!bytes) throw new Error('no swap file');
    expect(await problemsOf({ ...moved, [swapOf(1, '5_8')]: bytes })).toEqual([
      {
        code: 'swap-file-unclear',
        facts: { file: swapOf(1, '5_8'), group: 1, expected: '2 parameters', found: 'ids 5, 8' },
      },
    ]);
  });
});

describe('swap files that do not fit', () => {
  test('are missed where the folder is not there', async () => {
    const { files } = writeCheckpoint(offloaded());
    const none = Object.fromEntries(Object.entries(files).filter(([path]) => !path.endsWith('.swp')));
    const problems = await problemsOf(none);
    expect(problems).toEqual(
      [0, 1, 2].map((rank) => ({
        code: 'swap-files-missing',
        facts: { file: optimOf(rank), other: `global_step7/offloaded_tensors/rank0${rank}`, expected: 4, found: 0 },
      })),
    );
    expect(await problemsOf(files)).toEqual([]);
  });

  test('are missed one by one', async () => {
    const { files } = writeCheckpoint(offloaded());
    expect(await problemsOf(without(files, swapOf(2, '4_4')))).toEqual([
      {
        code: 'swap-files-missing',
        facts: { file: optimOf(2), other: 'global_step7/offloaded_tensors/rank02', expected: 4, found: 3 },
      },
    ]);
  });

  test('are refused where they are short', async () => {
    const { files } = writeCheckpoint(offloaded());
    const path = swapOf(1, '5_5');
    const cut = (length: number) => ({ ...files, [path]: files[path]?.slice(0, length) ?? new Uint8Array() });
    expect(await problemsOf(cut(19))).toEqual([
      { code: 'swap-file-short', facts: { file: path, group: 2, expected: 20, found: 19 } },
    ]);
    expect(await problemsOf(cut(20))).toEqual([]);
  });

  test('are refused where their ids are too few or too many for the sub-group', async () => {
    const { files } = writeCheckpoint(offloaded({ subGroupSize: 1000, swapped: [0, 1], swapNames: 'all' }));
    const rename = (name: string) => ({
      ...without(files, swapOf(0, '3_4')),
      [swapOf(0, name)]: files[swapOf(0, '3_4')] ?? new Uint8Array(),
    });
    for (const name of ['3', '2_3_4']) {
      expect((await problemsOf(rename(name))).map(({ code }) => code)).toEqual(['swap-file-unclear']);
    }
    expect(await problemsOf(rename('3_4'))).toEqual([]);
  });

  test('do not matter where no sub-group is swapped', async () => {
    const { files } = writeCheckpoint(small(3));
    expect(await problemsOf({ ...files, [swapOf(0, '1_2')]: new Uint8Array(1) })).toEqual([]);
    expect(await problemsIn(small(3, { groups: [...GROUPS, [{ name: 'empty', shape: [0] }]] }))).toEqual([]);
  });
});
