import { describe, expect, test } from 'vitest';
import { inspect } from '../../src/checkpoints/inspect.js';
import { memoryTree } from '../../src/io/memory.js';
import { problemsIn, without } from '../helpers/deepspeed/check.js';
import { type Py, PyCall, type PyMap, PyOrdered, PyTuple, tensorOf } from '../helpers/deepspeed/python.js';
import { MODEL, modelOf, optimOf, small } from '../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../helpers/deepspeed/spec.js';
import { saveZip } from '../helpers/deepspeed/torch-save.js';
import { writeCheckpoint } from '../helpers/deepspeed/write.js';
import { rejectionOf } from '../helpers/errors.js';

const refusalOf = (spec: CheckpointSpec) => rejectionOf(inspect(memoryTree(writeCheckpoint(spec).files)));

/** A tensor that no dtype of safetensors can hold: an 8-bit quantized one. */
const QUANTIZED = new PyCall('torch._utils', '_rebuild_qtensor', [
  tensorOf('I8', [2], new Uint8Array(2), 'other'),
  0,
  new PyTuple([2]),
]);

test('the files are read where no field is changed', async () => {
  expect(await problemsIn(small(2, { frozen: [{ name: 'base', shape: [2] }] }))).toEqual([]);
});

describe('a field of the model file that is not what it must be', () => {
  test.each<[field: string, value: Py, at: string, expected: string, found: string]>([
    ['module', [], 'module', 'a dict', 'a list'],
    ['module', new Map<string, Py>([['w', 3]]), 'module["w"]', 'a tensor', 'number 3'],
    ['module', new Map<number, Py>([[3, 4]]), 'module', 'a string as key', 'number 3'],
    [
      'module',
      new Map<string, Py>([['w', QUANTIZED]]),
      'module["w"]',
      'a tensor',
      'an object of torch._utils._rebuild_qtensor',
    ],
    ['buffer_names', 'ids', 'buffer_names', 'a list', 'string ids'],
    ['buffer_names', [1], 'buffer_names[0]', 'a string', 'number 1'],
    ['param_shapes', new Map(), 'param_shapes', 'a list', 'a dict'],
    ['param_shapes', [new Map([['w', [-1]]])], 'param_shapes[0]["w"][0]', 'a whole number of 0 or more', 'number -1'],
    ['param_shapes', [new Map([[7, [5]]])], 'param_shapes[0]', 'a string as key', 'number 7'],
    ['param_shapes', [new Map([['w', 5]])], 'param_shapes[0]["w"]', 'a list', 'number 5'],
    [
      'param_shapes',
      [new Map([['w', [2n ** 60n]]])],
      'param_shapes[0]["w"][0]',
      'a whole number of 0 or more',
      `bigint ${2n ** 60n}`,
    ],
    ['frozen_param_shapes', [], 'frozen_param_shapes', 'a dict', 'a list'],
    ['frozen_param_fragments', new Map([['base', 1]]), 'frozen_param_fragments["base"]', 'a tensor', 'number 1'],
    ['shared_params', new Map([['alias', 1]]), 'shared_params["alias"]', 'a string', 'number 1'],
    ['dp_world_size', 'three', 'dp_world_size', 'a whole number of 0 or more', 'string three'],
    ['ds_version', 17, 'ds_version', 'a string', 'number 17'],
  ])('%s', async (field, value, at, expected, found) => {
    const spec = small(2, { editModel: (root) => root.set(field, value) });
    expect(await refusalOf(spec)).toMatchObject({
      kind: 'bad-file',
      code: 'bad-field',
      facts: { file: MODEL, field: at, expected, found },
    });
  });

  test('is not there at all: the state dict', async () => {
    expect(await refusalOf(small(2, { editModel: (root) => root.delete('module') }))).toMatchObject({
      code: 'bad-field',
      facts: { file: MODEL, field: 'module', expected: 'a dict', found: 'not there' },
    });
  });

  test('is the whole file', async () => {
    const { files } = writeCheckpoint(small(2));
    expect(await rejectionOf(inspect(memoryTree({ ...files, [MODEL]: saveZip([1, 2]).bytes })))).toMatchObject({
      code: 'bad-field',
      facts: { file: MODEL, field: '', expected: 'a dict', found: 'a list' },
    });
  });
});

describe('a field of an optimizer file that is not what it must be', () => {
  test.each<[stage: 2 | 3, field: string, value: Py, at: string, expected: string, found: string]>([
    [2, 'single_partition_of_fp32_groups', 1, '', 'a list', 'number 1'],
    [2, 'single_partition_of_fp32_groups', [null], '[0]', 'a tensor', 'None'],
    [
      2,
      'single_partition_of_fp32_groups',
      [QUANTIZED],
      '[0]',
      'a tensor',
      'an object of torch._utils._rebuild_qtensor',
    ],
    [3, 'fp32_flat_groups', new Map(), '', 'a list', 'a dict'],
    [3, 'partition_count', true, '', 'a whole number of 0 or more', 'boolean true'],
    [2, 'local_sub_partitions_of_fp32_groups', [1], '[0]', 'a list', 'number 1'],
    [2, 'local_sub_partitions_of_fp32_groups', [[null]], '[0][0]', 'a tensor', 'None'],
    [2, 'partition_count', [1.5], '[0]', 'a whole number of 0 or more', 'number 1.5'],
  ])('at stage %i: %s = %j', async (stage, field, value, at, expected, found) => {
    const fractional = Array.isArray(value) && value[0] === 1.5 ? [new PyCall('decimal', 'Decimal', ['1.5'])] : value;
    const spec = small(stage, { editOptim: (_, state) => state.set(field, fractional) });
    expect(await refusalOf(spec)).toMatchObject({
      kind: 'bad-file',
      code: 'bad-field',
      facts: {
        file: optimOf(0),
        field: `optimizer_state_dict.${field}${at}`,
        expected,
        found: fractional === value ? found : 'an object of decimal.Decimal',
      },
    });
  });

  test.each<[value: Py, found: string]>([
    [4, '4'],
    [0, '0'],
    [-1, '-1'],
    [true, 'not there'],
    ['2', 'not there'],
    [new PyCall('deepspeed.runtime.zero.config', 'ZeroStageEnum', [7]), '7'],
    [new PyCall('os', 'system', [2]), 'not there'],
  ])('the stage is %j', async (value, found) => {
    expect(await refusalOf(small(2, { editOptim: (_, state) => state.set('zero_stage', value) }))).toMatchObject({
      kind: 'unsupported',
      code: 'stage-unknown',
      facts: { file: optimOf(0), found },
    });
  });

  test('the stage is not there, and neither is what stage 1 would hold', async () => {
    const edit = (_: PyMap, state: PyMap) => {
      state.delete('zero_stage');
      state.delete('single_partition_of_fp32_groups');
    };
    expect(await refusalOf(small(2, { editOptim: edit }))).toMatchObject({ code: 'stage-unknown' });
  });
});

describe('shapes that are nowhere', () => {
  test('are refused with the version at stage 3, where the state dict is hollow', async () => {
    const spec = small(3, { editModel: (root) => root.set('param_shapes', null) });
    expect(await refusalOf(spec)).toMatchObject({
      kind: 'unsupported',
      code: 'param-shapes-missing',
      facts: { file: modelOf(0), found: '0.17.0' },
    });
  });

  test('are those of the state dict at stage 2, where its bits prove it', async () => {
    const editModel = (root: PyMap) => root.set('param_shapes', null);
    const editOptim = (_: PyMap, state: PyMap) => state.delete('param_slice_mappings');
    expect(await problemsIn(small(2, { editModel, editOptim }))).toEqual([]);
    const other = (root: PyMap) => {
      editModel(root);
      const module = root.get('module');
      if (!(module instanceof PyOrdered)) throw new Error('no state dict');
      module.map.set('norm.weight', tensorOf('BF16', [4], new Uint8Array(8).fill(0x3f), 'copy'));
    };
    expect(await problemsIn(small(2, { editModel: other, editOptim }))).toEqual([
      { code: 'flat-order-unproven', facts: { file: optimOf(0), other: MODEL, found: '0.17.0' } },
    ]);
  });

  test.each<[value: Py, at: string, expected: string, found: string]>([
    [7, '', 'a dict', 'number 7'],
    [new Map([['w', 5]]), '["w"]', 'a list', 'number 5'],
    [[7], '[0]', 'a dict', 'number 7'],
  ])('are %j in the optimizer file', async (value, at, expected, found) => {
    const spec = small(2, { version: '0.5.3', editOptim: (root) => root.set('param_shapes', value) });
    const file = 'global_step7/zero_pp_rank_0_mp_rank_00_optim_states.pt';
    expect(await refusalOf(spec)).toMatchObject({
      code: 'bad-field',
      facts: { file, field: `param_shapes${at}`, expected, found },
    });
  });
});

describe('names', () => {
  test('of a parameter in two groups', async () => {
    const [first = [], second = []] = small(2).groups;
    const groups = [first, [...second, { name: 'norm.weight', shape: [4] }]];
    for (const [stage, file] of [
      [2, MODEL],
      [3, modelOf(0)],
    ] as const) {
      expect(await problemsIn(small(stage, { groups }))).toEqual([
        { code: 'name-twice', facts: { file, tensor: 'norm.weight', expected: 'master', found: 'master' } },
      ]);
    }
  });

  test('of a buffer that is a parameter too', async () => {
    const spec = small(2, { editModel: (root) => root.set('buffer_names', ['norm.weight']) });
    expect(await problemsIn(spec)).toEqual([
      { code: 'name-twice', facts: { file: MODEL, tensor: 'norm.weight', expected: 'buffer', found: 'master' } },
    ]);
  });

  test('of a frozen parameter that is trained too', async () => {
    const spec = small(2, { frozen: [{ name: 'norm.weight', shape: [4] }] });
    expect(await problemsIn(spec)).toEqual([
      { code: 'name-twice', facts: { file: MODEL, tensor: 'norm.weight', expected: 'master', found: 'frozen' } },
    ]);
  });

  test('of a buffer that is not in the state dict', async () => {
    for (const [stage, file] of [
      [1, MODEL],
      [3, modelOf(0)],
    ] as const) {
      const spec = small(stage, { editModel: (root) => root.set('buffer_names', ['ids']) });
      expect(await problemsIn(spec)).toEqual([{ code: 'buffer-absent', facts: { file, tensor: 'ids' } }]);
    }
  });

  test('of tied parameters go in a circle, or from one to the next', async () => {
    const ties = (entries: [string, string][]): Partial<CheckpointSpec> => ({
      editModel(root, rank) {
        if (rank === 0) root.set('shared_params', new Map(entries));
        const module = root.get('module');
        if (!(module instanceof PyOrdered)) throw new Error('no state dict');
        for (const [alias] of entries) module.map.set(alias, module.map.get('norm.weight') ?? null);
      },
    });
    const tied = (file: string, tensor: string, expected: string) => ({
      code: 'tied-owner',
      facts: { file, tensor, expected },
    });
    for (const [stage, file] of [
      [2, MODEL],
      [3, modelOf(0)],
    ] as const) {
      expect(await problemsIn(small(stage, ties([['a', 'norm.weight']])))).toEqual([]);
      expect(
        await problemsIn(
          small(
            stage,
            ties([
              ['a', 'b'],
              ['b', 'a'],
            ]),
          ),
        ),
      ).toEqual([tied(file, 'a', 'b'), tied(file, 'b', 'a')]);
      expect(await problemsIn(small(stage, ties([['a', 'a']])))).toEqual([tied(file, 'a', 'a')]);
      expect(
        await problemsIn(
          small(
            stage,
            ties([
              ['a', 'norm.weight'],
              ['b', 'a'],
            ]),
          ),
        ),
      ).toEqual([tied(file, 'b', 'a')]);
    }
  });

  test('of tied parameters that are listed on their own as well', async () => {
    const edit = (root: PyMap) => root.set('shared_params', new Map([['norm.weight', 'head.bias']]));
    expect(await problemsIn(small(3, { editModel: edit }))).toEqual([
      { code: 'tied-owner', facts: { file: modelOf(0), tensor: 'norm.weight', expected: 'head.bias' } },
    ]);
  });

  test('of an owner whose values are in no file', async () => {
    const spec = small(3, {
      editModel(root) {
        const module = root.get('module');
        if (!(module instanceof PyOrdered)) throw new Error('no state dict');
        const hollow = module.map.get('norm.weight') ?? null;
        module.map.set('a', hollow);
        module.map.set('lost', hollow);
        root.set('shared_params', new Map([['a', 'lost']]));
      },
    });
    expect(await problemsIn(spec)).toEqual([
      { code: 'tied-owner', facts: { file: modelOf(0), tensor: 'a', expected: 'lost' } },
    ]);
  });

  test('of an owner and an alias that are nowhere: the alias is skipped where frozen parameters were left out', async () => {
    const editModel = (root: PyMap) => root.set('shared_params', new Map([['a', 'nowhere']]));
    expect(await problemsIn(small(3, { editModel }))).toEqual([
      { code: 'tied-owner', facts: { file: modelOf(0), tensor: 'a', expected: 'nowhere' } },
    ]);
    const spec = small(3, { editModel, excludeFrozen: true });
    const { problems, skipped, aliases } = await inspect(memoryTree(writeCheckpoint(spec).files));
    expect({ problems, aliases, skipped: skipped.map(({ name }) => name) }).toEqual({
      problems: [],
      aliases: {},
      skipped: ['a'],
    });
  });
});

test('an optimizer file alone tells nothing of the model', async () => {
  const files = without(writeCheckpoint(small(2)).files, MODEL);
  const { problems, tensors } = await inspect(memoryTree(files));
  expect(problems.map(({ code }) => code)).toEqual(['missing-model-rank']);
  expect(tensors).toEqual([]);
});
