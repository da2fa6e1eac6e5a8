import { describe, expect, test } from 'vitest';
import { inspectSpec, problemsIn } from '../../../helpers/deepspeed/check.js';
import { fragmentAddress } from '../../../helpers/deepspeed/optim-states.js';
import { type PyMap, PyOrdered } from '../../../helpers/deepspeed/python.js';
import { optimOf, small } from '../../../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../../../helpers/deepspeed/spec.js';

async function checkOf(spec: CheckpointSpec) {
  const { checks, problems } = await inspectSpec(spec);
  expect(problems).toEqual([]);
  return checks.find(({ id }) => id === 'slice-mappings');
}

/** Changes what a rank records of the first group. */
const recorded = (rank: number, edit: (fragments: PyMap) => void, more: Partial<CheckpointSpec> = {}) =>
  small(2, {
    ...more,
    editOptim(_, state, r) {
      const [first] = (state.get('param_slice_mappings') ?? []) as PyOrdered[];
      if (r === rank && first) edit(first.map);
    },
  });

describe('the fragments that ranks record', () => {
  // 19 elements in slices of 8: embed.weight (15) lies on ranks 0 and 1, norm.weight (4) on 1 and 2. The other group has
  // 20: head.weight (15) on ranks 0 and 1, head.bias (5) on 1 and 2.
  test.each([
    ['stage 1', small(1)],
    ['stage 2', small(2)],
    ['BF16_Optimizer', small(1, { bf16Optimizer: true })],
  ])('lie where param_shapes puts them: %s', async (_, spec) => {
    expect(await checkOf(spec)).toEqual({
      id: 'slice-mappings',
      status: 'passed',
      detail: 'Recorded fragments of parameters: 8. Each lies in the slices of 3 ranks where param_shapes puts it.',
    });
  });

  test('are in any order', async () => {
    const spec = recorded(1, (fragments) => {
      const entries = [...fragments].reverse();
      fragments.clear();
      for (const [name, fragment] of entries) fragments.set(name, fragment);
    });
    expect((await checkOf(spec))?.status).toBe('passed');
  });

  test('are none on ranks without elements', async () => {
    const spec = small(2, { ranks: 5, groups: [[{ name: 'w', shape: [2] }]] });
    expect((await checkOf(spec))?.detail).toMatch(/: 1\. Each/);
  });

  test.each([
    ['DeepSpeed before 0.7.4', small(2, { version: '0.7.0' })],
    ['stage 3', small(3)],
    ['stage 0', small(0)],
    [
      'empty lists',
      small(2, {
        editOptim: (_, state) =>
          void state.set('param_slice_mappings', [new PyOrdered(new Map()), new PyOrdered(new Map())]),
      }),
    ],
    ['something else', small(2, { editOptim: (_, state) => void state.set('param_slice_mappings', 'none') })],
  ])('are not there: %s', async (_, spec) => {
    expect((await checkOf(spec))?.status).toBe('not-checkable');
  });

  test.each<[string, number, (fragments: PyMap) => void, string, string, string]>([
    [
      'at another place',
      1,
      (f) => f.set('norm.weight', fragmentAddress(6, 1)),
      'norm.weight',
      'elements 7 to 8',
      'elements 6 to 7',
    ],
    [
      'with another length',
      0,
      (f) => f.set('embed.weight', fragmentAddress(0, 7)),
      'embed.weight',
      'elements 0 to 8',
      'elements 0 to 7',
    ],
    [
      'of another parameter',
      2,
      (f) => f.set('embed.weight', fragmentAddress(0, 2)),
      'embed.weight',
      'nothing',
      'elements 0 to 2',
    ],
    ['of one parameter less', 2, (f) => f.delete('norm.weight'), 'norm.weight', 'elements 0 to 3', 'nothing'],
  ])('are refused %s', async (_, rank, edit, tensor, expected, found) => {
    expect(await problemsIn(recorded(rank, edit))).toEqual([
      { code: 'slice-mapping', facts: { file: optimOf(rank), tensor, group: 0, expected, found } },
    ]);
  });

  test('are those of a group in another order under round_robin_gradients, which is told and no error', async () => {
    const groups = [['a', 'b', 'c', 'd'].map((name, i) => ({ name, shape: [3 + i] }))];
    const check = await checkOf(small(2, { groups, roundRobin: true }));
    expect(check?.status).toBe('not-checkable');
    expect(check?.detail).toContain('round_robin_gradients');
    expect((await checkOf(small(2, { groups })))?.status).toBe('passed');
  });

  test('are an error in another order where round_robin_gradients is off', async () => {
    const groups = [['a', 'b', 'c', 'd'].map((name, i) => ({ name, shape: [3 + i] }))];
    const off = (root: PyMap) => void root.set('ds_config', new Map());
    const spec = small(2, { groups, roundRobin: true, editOptim: off, editModel: off });
    expect((await problemsIn(spec)).map(({ code }) => code)).toEqual(['slice-mapping']);
  });
});
