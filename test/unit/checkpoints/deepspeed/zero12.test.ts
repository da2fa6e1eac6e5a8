import { describe, expect, test } from 'vitest';
import { expectWhole, inspectSpec } from '../../../helpers/deepspeed/check.js';
import { cutFlat } from '../../../helpers/deepspeed/flat.js';
import { optimOf, small } from '../../../helpers/deepspeed/small.js';

describe('where masters lie', () => {
  test('a parameter continues on the next rank where the slice of one ends', async () => {
    const { tensors, sources } = await inspectSpec(small(2));
    const pieces = tensors.flatMap(({ name, stored }) =>
      stored.pieces.map((piece) =>
        'source' in piece ? [name, sources[piece.source]?.path, piece.length, piece.at] : [],
      ),
    );
    expect(pieces).toEqual([
      ['embed.weight', optimOf(0), 32, 0],
      ['embed.weight', optimOf(1), 28, 32],
      ['norm.weight', optimOf(1), 4, 0],
      ['norm.weight', optimOf(2), 12, 4],
      ['head.weight', optimOf(0), 32, 0],
      ['head.weight', optimOf(1), 28, 32],
      ['head.bias', optimOf(1), 4, 0],
      ['head.bias', optimOf(2), 16, 4],
    ]);
  });

  test('every master has its copy at the dtype of the model', async () => {
    const { tensors, facts, layout } = await inspectSpec(small(1));
    expect(layout).toBe('deepspeed-zero1');
    expect(facts).toMatchObject({ ranks: 3, modelDtype: 'BF16', masterDtype: 'F32', deepspeedVersion: '0.17.0' });
    expect(tensors.map(({ origin, stored, copy }) => [origin, stored.dtype, copy?.dtype])).toEqual(
      Array(4).fill(['master', 'F32', 'BF16']),
    );
  });

  test('masters of 16 bits are taken as they are', async () => {
    const spec = small(2, { masterDtype: 'BF16', version: '0.18.3' });
    expect((await inspectSpec(spec)).facts).toMatchObject({ modelDtype: 'BF16', masterDtype: 'BF16' });
    await expectWhole(spec);
  });

  test('a run in fp32 has masters and copies of one dtype', async () => {
    const spec = small(2, { modelDtype: 'F32' });
    expect((await inspectSpec(spec)).tensors[0]?.copy?.dtype).toBe('F32');
    await expectWhole(spec);
  });
});

describe('padding', () => {
  // Elements saved by each rank, worked out by hand from the rules of each version.
  test.each([
    ['exact on every rank', '0.16.4', 5, 4, [2, 2, 1, 0]],
    ['stripped by the last rank alone', '0.16.3', 5, 4, [2, 2, 2, 1]],
    ['stripped by the last rank alone', '0.7.0', 19, 3, [8, 8, 3]],
    ['aligned to twice the ranks, stripped by once', '0.6.5', 5, 2, [4, 3]],
    ['aligned to twice the ranks, stripped by once', '0.6.0', 19, 3, [8, 8, 6]],
    ['more than a whole partition', '0.9.0', 1, 3, [2, 2, 0]],
  ] as const)('%s (%s, %i elements on %i ranks)', async (_, version, count, ranks, saved) => {
    expect(cutFlat(count, ranks, version).saved).toEqual(saved);
    await expectWhole(small(2, { version, ranks, groups: [[{ name: 'w', shape: [count] }]] }));
  });

  test.each([1, 2, 3, 4, 5, 6])('of a parameter of one element on %i ranks, in every version', async (ranks) => {
    for (const version of ['0.6.0', '0.7.0', '0.16.4']) {
      await expectWhole(small(2, { version, ranks, groups: [[{ name: 'w', shape: [1] }]] }));
    }
  });

  test.each([1, 7, 19, 24])('is kept by BF16_Optimizer (%i elements)', async (count) => {
    const spec = small(1, { bf16Optimizer: true, groups: [[{ name: 'w', shape: [count] }]] });
    expect((await inspectSpec(spec)).layout).toBe('deepspeed-zero1');
    await expectWhole(spec);
  });
});

describe('order', () => {
  test('is that of param_shapes, also where it went round robin', async () => {
    const group = Array.from({ length: 7 }, (_, i) => ({ name: `w${i}`, shape: [i + 1, 2] }));
    const spec = small(2, { roundRobin: true, groups: [group] });
    const { tensors } = await inspectSpec(spec);
    expect(tensors.map(({ name }) => name)).toEqual(['w0', 'w1', 'w2', 'w3', 'w4', 'w5', 'w6']);
    await expectWhole(spec);
  });

  test('parameters without elements take no place', async () => {
    const empty = (name: string) => ({ name, shape: [0, 3] });
    const group = [
      empty('first'),
      { name: 'a', shape: [3] },
      empty('middle'),
      { name: 'b', shape: [4] },
      empty('last'),
    ];
    await expectWhole(small(2, { groups: [group, [empty('alone')]] }));
  });
});

describe('older versions', () => {
  test('DeepSpeed 0.5.4 to 0.5.10 list the shapes in the optimizer files', async () => {
    await expectWhole(small(2, { version: '0.5.4' }));
    await expectWhole(small(2, { version: '0.5.10', modelDtype: 'F16' }));
  });

  test('stage 1 says that it is 2 before 0.7.0', async () => {
    expect((await inspectSpec(small(1, { version: '0.6.5' }))).layout).toBe('deepspeed-zero2');
    await expectWhole(small(1, { version: '0.6.5' }));
  });
});
