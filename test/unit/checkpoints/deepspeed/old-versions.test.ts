import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expectWhole, inspectSpec, problemsIn, problemsOf, without } from '../../../helpers/deepspeed/check.js';
import { roundRobin } from '../../../helpers/deepspeed/flat.js';
import { type PyMap, PyOrdered, TensorView } from '../../../helpers/deepspeed/python.js';
import { bufferOf, randomSpec } from '../../../helpers/deepspeed/random-spec.js';
import { small } from '../../../helpers/deepspeed/small.js';
import { type CheckpointSpec, sizeOf } from '../../../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';

/** A run of an early version: fp16 was all there was. */
function old(stage: 1 | 2 | 3, version: string, more: Partial<CheckpointSpec> = {}): CheckpointSpec {
  return small(stage, { version, modelDtype: 'F16', ...more });
}

/** Weights and biases by turns, as a model has them, in a group with and one without weight decay. */
const DECAY: Partial<CheckpointSpec> = {
  groups: [
    [
      { name: 'a.weight', shape: [7, 3] },
      { name: 'b.weight', shape: [4, 5] },
      { name: 'c.weight', shape: [21] },
    ],
    [
      { name: 'a.bias', shape: [5] },
      { name: 'b.bias', shape: [6] },
    ],
  ],
  namedOrder: ['a.weight', 'a.bias', 'b.weight', 'b.bias', 'c.weight'],
};

async function warningsOf(spec: CheckpointSpec): Promise<string[]> {
  return (await inspectSpec(spec)).warnings.map(({ code }) => code);
}

function moduleIn(root: PyMap): PyMap {
  const module = root.get('module');
  if (!(module instanceof PyOrdered)) throw new Error('no state dict');
  return module.map;
}

const VERSIONS = ['0.3.0', '0.3.13', '0.3.14', '0.4.0', '0.4.2', '0.4.3', '0.4.4', '0.5.0', '0.5.2', '0.5.3', '0.5.4'];

describe.each(VERSIONS)('stage 2 of DeepSpeed %s', (version) => {
  const frozen = [{ name: 'base.weight', shape: [3, 7] }];
  const tied = [['head.tied', 'a.weight']] as const;
  const buffers = [bufferOf('ids', 'I64', [3], 5), bufferOf('scale', 'F32', [2], 9)];

  test('is read with parameter groups that lie across the order of the model', async () => {
    await expectWhole(old(2, version, DECAY));
  });

  test('is read with frozen and tied parameters and buffers', async () => {
    const { aliases } = await expectWhole(old(2, version, { ...DECAY, frozen, tied, buffers }));
    expect(aliases).toEqual({ 'head.tied': 'a.weight' });
  });

  test.each([1, 2, 4, 7])('is read on %i ranks', async (ranks) => {
    await expectWhole(old(2, version, { ...DECAY, ranks }));
  });

  test('is read where the state dict holds copies and no views', async () => {
    await expectWhole(old(2, version, { clonedModule: true }));
  });
});

describe('the order of flat buffers', () => {
  const params = Array.from({ length: 7 }, (_, i) => ({ name: `w${i}`, shape: [2, 5] }));

  test.each(['0.4.0', '0.4.2', '0.4.3'])('went round robin in %s, which is put right and told', async (version) => {
    expect(roundRobin(params, 3)).not.toEqual(params);
    for (const clonedModule of [false, true]) {
      const spec = old(2, version, { groups: [params], clonedModule });
      await expectWhole(spec);
      expect(await warningsOf(spec)).toEqual(['round-robin-reordered']);
    }
  });

  test.each(['0.3.14', '0.4.4'])('is that of the list in %s', async (version) => {
    const spec = old(2, version, { groups: [params] });
    await expectWhole(spec);
    expect(await warningsOf(spec)).toEqual([]);
  });

  test('with round_robin_gradients is that of the list since 0.4.4', async () => {
    const spec = old(2, '0.4.4', { groups: [params], roundRobin: true });
    await expectWhole(spec);
    expect(await warningsOf(spec)).toEqual([]);
  });

  test('that nothing proves is a problem', async () => {
    // The weights of another step: no order of the masters gives them.
    const spec = old(2, '0.4.2', {
      groups: [params],
      editModel(root) {
        const weight = moduleIn(root).get('w3');
        if (!(weight instanceof TensorView)) throw new Error('no tensor');
        weight.storage.bytes.set([1, 2], weight.offset * 2);
      },
    });
    expect(await problemsIn(spec)).toEqual([
      {
        code: 'flat-order-unproven',
        facts: {
          file: 'global_step7/zero_pp_rank_0_mp_rank_00_optim_states.pt',
          other: 'global_step7/mp_rank_00_model_states.pt',
          found: '0.4.2',
        },
      },
    ]);
    expect(await problemsIn(old(2, '0.4.2', { groups: [params] }))).toEqual([]);
  });
});

describe('pieces that stage 1 dealt to the ranks', () => {
  const inGroupOrder = { namedOrder: (DECAY.groups ?? []).flat().map(({ name }) => name) };

  // 62 elements: pieces of 4 in 6 rounds, of 7 in 3, and one piece for each rank.
  test.each([12, 23, 5e8])('are put together, %i elements at once', async (commElements) => {
    for (const elastic of [true, false]) {
      for (const version of ['0.3.0', '0.3.16']) {
        await expectWhole(old(1, version, { ...DECAY, commElements, elastic }));
        await expectWhole(old(1, version, { ...DECAY, ...inGroupOrder, commElements, elastic, clonedModule: true }));
      }
    }
  });

  test('are put together where a group without parameters has none', async () => {
    const spec = old(1, '0.3.0', { ranks: 1, groups: [[{ name: 'a', shape: [6] }], [], [{ name: 'b', shape: [7] }]] });
    for (const elastic of [true, false]) await expectWhole({ ...spec, commElements: 6, elastic });
  });

  test('lie where the deal puts them', async () => {
    const spec = old(1, '0.3.0', { groups: [[{ name: 'w', shape: [17] }]], commElements: 9 });
    const { tensors, sources, layout } = await inspectSpec(spec);
    const pieces = tensors[0]?.stored.pieces.map((piece) =>
      'source' in piece ? [piece.source, piece.length, piece.at] : [],
    );
    const rank = sources.findIndex(({ path }) => path.endsWith('rank_0_mp_rank_00optim_states.pt'));
    expect(layout).toBe('deepspeed-zero1');
    expect(pieces).toEqual([
      [rank, 12, 0],
      [rank + 1, 12, 12],
      [rank + 2, 12, 24],
      [rank, 12, 36],
      [rank + 1, 12, 48],
      [rank + 2, 8, 60],
    ]);
  });

  test('of a rank that is missing are missed, though no file counts the ranks', async () => {
    const { files } = writeCheckpoint(old(1, '0.3.0', { elastic: false }));
    const last = 'global_step7/zero_pp_rank_2_mp_rank_00optim_states.pt';
    expect((await problemsOf(without(files, last))).map(({ code }) => code)).toEqual(['the-number-of-ranks-differs']);
    const middle = 'global_step7/zero_pp_rank_1_mp_rank_00optim_states.pt';
    expect((await problemsOf(without(files, middle))).map(({ code }) => code)).toEqual(['missing-optim-rank']);
    expect(await problemsOf(files)).toEqual([]);
  });
});

describe('stage 3 with one list for all sub-groups', () => {
  test.each(['0.3.14', '0.4.2', '0.4.3', '0.5.3'])('is cut where the sub-groups are full (%s)', async (version) => {
    for (const subGroupSize of [1, 4, 1000]) await expectWhole(old(3, version, { subGroupSize }));
  });

  test('may start and end with parameters of no elements', async () => {
    const empty = (name: string) => ({ name, shape: [0, 3] });
    const groups = [
      [empty('first'), { name: 'a', shape: [9] }, empty('middle'), { name: 'b', shape: [9] }, empty('last')],
    ];
    await expectWhole(old(3, '0.5.3', { groups, subGroupSize: 3 }));
  });

  test('that has several parameter groups is not proven, and that is told', async () => {
    const twoGroups = (root: PyMap) => {
      const group = new Map([['lr', 1]]);
      root.set('optimizer_state_dict', new Map([['param_groups', [group, group]]]));
    };
    const spec = old(3, '0.4.2', { editOptim: (_, state) => twoGroups(state) });
    expect(await warningsOf(spec)).toEqual(['order-unproven']);
    expect(await warningsOf(old(3, '0.4.2'))).toEqual([]);
  });

  test('before 0.4.3 names frozen parameters too, which nothing tells apart', async () => {
    const spec = old(3, '0.4.2', { frozen: [{ name: 'base', shape: [3, 4] }] });
    expect((await problemsIn(spec)).map(({ code }) => code)).toEqual(['flat-order-unknown']);
    await expectWhole(old(3, '0.4.3', { frozen: [{ name: 'base', shape: [3, 4] }] }));
  });

  test('cannot be read before 0.3.14, when there was none', async () => {
    await expect(inspectSpec(old(3, '0.3.13'))).rejects.toMatchObject({ detail: { code: 'param-shapes-missing' } });
  });
});

describe('any early checkpoint', () => {
  const filled = (params: CheckpointSpec['groups'][number]) => params.filter((param) => sizeOf(param) > 0);
  test.each([1, 2] as const)('of stage %i gives its masters', (stage) =>
    fc.assert(
      fc.asyncProperty(
        randomSpec(stage),
        fc.constantFrom(...VERSIONS),
        fc.integer({ min: 6, max: 40 }),
        fc.boolean(),
        async (made, version, commElements, elastic) => {
          const groups = made.groups.map(filled);
          const tied = (made.tied ?? []).slice(0, 1);
          const frozen = filled(made.frozen ?? []);
          const modelDtype = 'F16';
          await expectWhole({
            ...made,
            ...{ version, groups, tied, frozen, modelDtype, masterDtype: 'F32', bf16Optimizer: false },
            ...{ commElements, elastic, roundRobin: false, excludeFrozen: false },
          });
        },
      ),
      { numRuns: 80 },
    ),
  );
});
