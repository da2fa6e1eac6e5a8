import { describe, expect, test } from 'vitest';
import { expectWhole, inspectSpec } from '../../../helpers/deepspeed/check.js';
import { optimOf, small } from '../../../helpers/deepspeed/small.js';

describe('where masters lie', () => {
  test('a parameter is one cut over the ranks, whatever their number', async () => {
    const { tensors, layout, facts } = await inspectSpec(small(3));
    expect(layout).toBe('deepspeed-zero3');
    expect(facts).toMatchObject({ ranks: 3, masterDtype: 'F32' });
    expect(tensors.map(({ name, stored }) => [name, stored.pieces])).toEqual([
      ['embed.weight', [{ over: 0, offset: 0, share: 20, length: 60, at: 0 }]],
      ['norm.weight', [{ over: 0, offset: 20, share: 8, length: 16, at: 0 }]],
      ['head.weight', [{ over: 1, offset: 0, share: 20, length: 60, at: 0 }]],
      ['head.bias', [{ over: 1, offset: 20, share: 8, length: 20, at: 0 }]],
    ]);
  });

  test('the partitions of a sub-group are in order of rank, not of name', async () => {
    const { partitions, sources } = await inspectSpec(small(3, { ranks: 11, groups: [[{ name: 'w', shape: [23] }]] }));
    expect(partitions.map((list) => list.map(({ source }) => sources[source]?.path))).toEqual([
      Array.from({ length: 11 }, (_, rank) => optimOf(rank)),
    ]);
  });

  test.each(['BF16', 'F16', 'F32'] as const)('their placeholders tell that the run was in %s', async (modelDtype) => {
    expect((await inspectSpec(small(3, { modelDtype }))).facts).toMatchObject({ modelDtype, masterDtype: 'F32' });
  });

  test('there is no copy: the state dict is hollow', async () => {
    const { tensors } = await inspectSpec(small(3));
    expect(tensors.map(({ copy }) => copy)).toEqual([undefined, undefined, undefined, undefined]);
  });
});

describe('shares', () => {
  test.each([1, 2, 3, 4, 5, 6])('of sizes around the number of ranks (%i)', async (ranks) => {
    const group = [1, 2, 3, 4, 5, 6, 7, 0, 13].map((n, i) => ({ name: `w${i}`, shape: [n] }));
    await expectWhole(small(3, { ranks, groups: [group] }));
  });

  test.each([1, 4, 7, 1000])('in sub-groups of %i elements', async (subGroupSize) => {
    await expectWhole(small(3, { subGroupSize }));
  });

  test('of parameters without elements at the edges of sub-groups', async () => {
    const empty = (name: string) => ({ name, shape: [0, 3] });
    const group = [
      empty('first'),
      { name: 'a', shape: [9] },
      empty('middle'),
      { name: 'b', shape: [9] },
      empty('last'),
    ];
    await expectWhole(small(3, { subGroupSize: 3, groups: [group, [empty('alone')]] }));
  });

  test('in one storage, as a run in fp32 keeps them', async () => {
    await expectWhole(small(3, { modelDtype: 'F32', subGroupSize: 4 }));
  });

  test('of masters of 16 bits', async () => {
    await expectWhole(small(3, { masterDtype: 'BF16', version: '0.18.3' }));
  });
});

test('DeepSpeed 0.5.4 to 0.5.10 list the shapes in the optimizer files and have placeholders of one element', async () => {
  const spec = small(3, { version: '0.5.10', subGroupSize: 4 });
  expect((await inspectSpec(spec)).skipped).toEqual([]);
  await expectWhole(spec);
});
