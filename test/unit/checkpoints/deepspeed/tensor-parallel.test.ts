import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import type { InspectOptions, TpRule } from '../../../../src/checkpoints/options.js';
import { memoryTree } from '../../../../src/io/memory.js';
import { expectedOf, toSafetensors } from '../../../helpers/deepspeed/convert.js';
import type { Cut } from '../../../helpers/deepspeed/cuts.js';
import { GRID_FOLDER, type GridParam, type GridSpec, writeGrid } from '../../../helpers/deepspeed/grid.js';
import { mergeInfoOf, patternOf, plainDim, smallGrid } from '../../../helpers/deepspeed/merge-info.js';
import { type Py, PyCall, PyFloat, PyTuple } from '../../../helpers/deepspeed/python.js';
import { bufferOf } from '../../../helpers/deepspeed/random-spec.js';
import { rejectionOf } from '../../../helpers/errors.js';

const WHOLE: Cut = { kind: 'whole' };
const cutAlong = (dim: number, ...widths: number[]): Cut => ({ kind: 'parts', dim, widths: [widths] });

/** One parameter for each way to cut. Two tensor-parallel ranks, each cut over three data-parallel ranks. */
const PARAMS: readonly GridParam[] = [
  { name: 'embed.weight', shape: [8, 3], cut: cutAlong(0, 4, 4), rows: 7 },
  { name: 'norm.weight', shape: [5], cut: WHOLE },
  { name: 'up.weight', shape: [7, 5], cut: cutAlong(0, 4, 3) },
  { name: 'down.weight', shape: [5, 7], cut: cutAlong(1, 4, 3) },
  {
    name: 'qkv.weight',
    shape: [12, 4],
    cut: {
      kind: 'parts',
      dim: 0,
      widths: [
        [4, 2],
        [2, 1],
        [2, 1],
      ],
    },
  },
  { name: 'router.bias', shape: [6], cut: { kind: 'average' } },
];

function small(more: Partial<GridSpec> = {}): GridSpec {
  return smallGrid({ params: PARAMS, ...more });
}

/** Without `universal_checkpoint_info`. */
function ruleless(params: readonly GridParam[] = PARAMS.slice(1, 4), more: Partial<GridSpec> = {}): GridSpec {
  const { info: _, ...spec } = small({ params, ...more });
  return spec;
}

async function expectWhole(spec: GridSpec, reading: InspectOptions = {}): Promise<void> {
  const written = writeGrid(spec);
  expect(await toSafetensors(written.files, {}, reading)).toEqual(expectedOf(written, 'F32'));
}

async function problemsIn(spec: GridSpec, reading: InspectOptions = {}) {
  const { problems } = await inspect(memoryTree(writeGrid(spec).files), reading);
  return problems.map(({ code, facts }) => ({ code, facts }));
}

describe('tensor-parallel shards', () => {
  test.each([1, 2, 3] as const)('are joined as universal_checkpoint_info says (stage %i)', (stage) =>
    expectWhole(small({ stage })),
  );

  test('have their copies joined with them, and what is replicated compared', async () => {
    const { tensors, facts } = await inspect(memoryTree(writeGrid(small()).files));
    expect(facts).toMatchObject({ ranks: 3, tensorParallel: 2 });
    const entry = (name: string) => tensors.find((tensor) => tensor.name === name);
    expect(entry('down.weight')?.copy?.dtype).toBe('BF16');
    expect(entry('norm.weight')?.proofs?.map(({ check, dtype }) => [check, dtype])).toEqual([
      ['replicated', 'F32'],
      ['replicated', 'BF16'],
    ]);
    expect(entry('router.bias')).toMatchObject({ meanOf: [{ dtype: 'F32' }, { dtype: 'F32' }] });
  });

  test('say how many rows of padding are left out', async () => {
    const { warnings } = await inspect(memoryTree(writeGrid(small()).files));
    expect(warnings).toEqual([
      {
        code: 'vocabulary-padding',
        message: 'embed.weight: 1 rows behind the 7 of the vocabulary are padding, and left out.',
      },
    ]);
  });

  test('have padding anywhere in the shards of the vocabulary', async () => {
    const cuts: Cut[] = [WHOLE, cutAlong(1, 2, 1), cutAlong(0, 2, 6), cutAlong(0, 8, 0)];
    for (const cut of cuts) {
      const params = [{ name: 'embed.weight', shape: [8, 3], cut, rows: 3 }];
      for (const stage of [1, 3] as const) await expectWhole(small({ stage, params }));
    }
  });

  test('have any number of rows of padding', async () => {
    // In floating point 22 × (3 / 22) is no whole number.
    for (let rows = 1; rows <= 22; rows++) {
      for (const cut of [cutAlong(0, 11, 11), cutAlong(1, 2, 3), WHOLE]) {
        await expectWhole(small({ params: [{ name: 'embed.weight', shape: [22, 5], cut, rows }] }));
      }
    }
  });

  test.each([1, 2, 3] as const)('have frozen parameters, buffers and tied names as one rank has (stage %i)', (stage) =>
    expectWhole(
      small({
        stage,
        params: [...PARAMS, { name: 'base.weight', shape: [6, 4], cut: cutAlong(1, 1, 3), isFrozen: true }],
        buffers: [bufferOf('steps', 'I64', [3], 5), bufferOf('freqs', 'F32', [4], 8)],
        tied: [['head.weight', 'up.weight']],
      }),
    ),
  );

  test('of Megatron are named by patterns for kinds of parameters', async () => {
    const info = new Map<string, Py>([
      ['universal_checkpoint_version', new PyFloat(0.2)],
      ['tp_replicated_parameter_patterns', ['\\d+.norm.weight']],
      ['parameter_with_row_parallelism_patterns', ['\\d+.(mlp|attention).down.weight']],
      ['parameter_with_2_sub_params_cat_dim_0', ['\\d+.mlp.up.weight']],
    ]);
    const params: GridParam[] = [
      { name: '2.norm.weight', shape: [5], cut: WHOLE },
      { name: '13.mlp.down.weight', shape: [4, 6], cut: cutAlong(1, 3, 3) },
      {
        name: '2.mlp.up.weight',
        shape: [8, 2],
        cut: {
          kind: 'parts',
          dim: 0,
          widths: [
            [2, 2],
            [2, 2],
          ],
        },
      },
      { name: '2.query.weight', shape: [6, 2], cut: cutAlong(0, 3, 3) },
      // Three rows on each rank: two of the first half, as torch.chunk cuts.
      {
        name: '3.mlp.up.weight',
        shape: [6, 2],
        cut: {
          kind: 'parts',
          dim: 0,
          widths: [
            [2, 2],
            [1, 1],
          ],
        },
      },
    ];
    await expectWhole(small({ params, info }));
  });

  test('have sub-parameters of even size before version 0.4, counted or with their sizes', async () => {
    const name = 'qkv.weight';
    const shapes: Py[] = [new PyTuple([3, -1]), new PyTuple([new PyTuple([2, 2, 2]), 4]), [new PyTuple([2, 2, 2]), -1]];
    for (const shape of shapes) {
      const fields = new Map<string, Py>([
        ['patterns', [patternOf(name)]],
        ['shape', shape],
        ['partition_dim', 0],
      ]);
      const entries = [fields, new PyCall('deepspeed.checkpoint.universal_checkpoint', 'SubparamShape', [], fields)];
      for (const entry of entries) {
        const info = new Map<string, Py>([
          ['universal_checkpoint_version', new PyFloat(0.3)],
          ['parameter_with_sub_params', [entry]],
        ]);
        const widths = [
          [1, 1],
          [1, 1],
          [1, 1],
        ];
        await expectWhole(small({ params: [{ name, shape: [6, 4], cut: { kind: 'parts', dim: 0, widths } }], info }));
      }
    }
  });

  test('have sub-parameters in a view with more dimensions than the parameter', () => {
    const name = 'qkv.weight';
    const widths = [
      [2, 2],
      [2, 2],
      [2, 2],
    ];
    // Three of 4 rows each, seen as (3, 4, 2) and cut in the middle: every rank holds two rows of each.
    const seen = new Map<string, Py>([
      ['patterns', [patternOf(name)]],
      ['shape', new PyTuple([3, new PyTuple([4]), 2])],
      ['partition_dim', 1],
    ]);
    const info = new Map<string, Py>([
      ['universal_checkpoint_version', new PyFloat(0.4)],
      ['parameter_with_sub_params', [seen]],
      ['sub_param_shard_widths', new Map([[patternOf(name), [[2, 2]]]])],
    ]);
    return expectWhole(small({ params: [{ name, shape: [12, 2], cut: { kind: 'parts', dim: 0, widths } }], info }));
  });
});

describe('rules of the user', () => {
  const rules: TpRule[] = [
    { pattern: 'norm*', merge: 'replicated' },
    { pattern: '*down*', merge: 1 },
    { pattern: '*', merge: 0 },
  ];

  test('join shards where the checkpoint says nothing', () => expectWhole(ruleless(), { tpRules: rules }));

  test('come before what the checkpoint says', async () => {
    const params = [{ name: 'w', shape: [4, 4], cut: cutAlong(1, 2, 2) }];
    const info = mergeInfoOf([{ name: 'w', shape: [4, 4], cut: cutAlong(0, 2, 2) }]);
    await expectWhole(small({ params, info }), { tpRules: [{ pattern: 'w', merge: 1 }] });
  });

  test('average, or replicate what is not', async () => {
    const average = [{ name: 'w', shape: [6], cut: { kind: 'average' } as Cut }];
    await expectWhole(ruleless(average), { tpRules: [{ pattern: 'w', merge: 'average' }] });
    const replicated = toSafetensors(
      writeGrid(ruleless(average)).files,
      {},
      { tpRules: [{ pattern: 'w', merge: 'replicated' }] },
    );
    expect(await rejectionOf(replicated)).toMatchObject({
      kind: 'inconsistent',
      code: 'replicated-differs',
      facts: { tensor: 'w', index: 0 },
    });
  });

  test('that decide nothing, or may do harm, are told', async () => {
    const params = [{ name: 'attn.qkv.weight', shape: [6], cut: cutAlong(0, 3, 3) }];
    const tpRules: TpRule[] = [
      { pattern: '*.qkv.*', merge: 0 },
      { pattern: 'mlp.*', merge: 1 },
    ];
    const { warnings } = await inspect(memoryTree(writeGrid(ruleless(params)).files), { tpRules });
    expect(warnings.map(({ code }) => code)).toEqual(['tp-rule-unused', 'tp-rule-fused']);
  });

  test('are told to be of no use where nothing is cut by tensor parallelism', async () => {
    const written = writeGrid(small()).files;
    const tpRules: TpRule[] = [{ pattern: '*', merge: 0 }];
    const ofOne = await inspect(memoryTree(written), { tpRules, tpRank: 1 });
    expect(ofOne.warnings).toContainEqual({
      code: 'tp-rule-unused',
      message: 'The rule for * decides about no tensor.',
    });
    expect((await inspect(memoryTree(written), { tpRank: 1 })).warnings).toHaveLength(ofOne.warnings.length - 1);
  });

  test.each<[what: string, cut: Cut, shape: number[], merge: TpRule['merge'], reason: string]>([
    [
      'a dimension that is not there',
      cutAlong(0, 3, 3),
      [6],
      1,
      'they cannot be joined along dimension 1, with shapes [3]',
    ],
    ['half a dimension', cutAlong(0, 3, 3), [6], 0.5, 'they cannot be joined along dimension 0.5, with shapes [3]'],
    [
      'a dimension along which they do not fit',
      cutAlong(0, 2, 4),
      [6, 2],
      1,
      'they cannot be joined along dimension 1, with shapes [2, 2], [4, 2]',
    ],
    [
      'copies of different shapes',
      cutAlong(0, 2, 4),
      [6],
      'replicated',
      'they should all be alike, and have shapes [2], [4]',
    ],
    [
      'the mean of different shapes',
      cutAlong(0, 2, 4),
      [6],
      'average',
      'they should all be alike, and have shapes [2], [4]',
    ],
  ])('cannot ask for %s', async (_, cut, shape, merge, reason) => {
    const spec = ruleless([{ name: 'w', shape, cut }]);
    const first = shape.map((size, i) => (i === 0 ? 2 : size));
    const own = cut.kind === 'parts' && cut.widths[0]?.[0] === 3 ? [3] : first;
    expect(await problemsIn(spec, { tpRules: [{ pattern: 'w', merge }] })).toEqual([
      {
        code: 'tp-rules-missing',
        facts: { file: GRID_FOLDER, expected: 2, found: 1, tensors: `w [${own.join(', ')}]: ${reason}` },
      },
    ]);
  });
});

describe('shards without a rule', () => {
  test('are named by kind, and nothing is guessed', async () => {
    const params = [0, 1, 2].flatMap((layer): GridParam[] => [
      { name: `layers.${layer}.up.weight`, shape: [6, 5], cut: cutAlong(0, 3, 3) },
      { name: `layers.${layer}.norm.weight`, shape: [5], cut: WHOLE },
    ]);
    expect(await problemsIn(ruleless(params))).toEqual([
      {
        code: 'tp-rules-missing',
        facts: {
          file: GRID_FOLDER,
          expected: 2,
          found: 6,
          tensors:
            'layers.*.up.weight [3, 5]: nothing says how they are joined (3 of this kind); layers.*.norm.weight [5]: nothing says how they are joined (3 of this kind)',
        },
      },
    ]);
  });

  test('are named up to a dozen kinds', async () => {
    const names = 'abcdefghijklmnopqrstuvwxyz'.split('');
    const params = names.map((name) => ({ name, shape: [2], cut: WHOLE }));
    const [problem] = await problemsIn(ruleless(params));
    expect(problem?.facts).toMatchObject({ found: 26 });
    expect(String(problem?.facts['tensors']).split('; ')).toHaveLength(12);
  });

  test('that DeepSpeed cannot join are refused with its reason', async () => {
    const info = mergeInfoOf(PARAMS);
    info.set('autotp_unsupported_parameter_patterns', new Map([[patternOf('up.weight'), 'packed experts']]));
    expect(await problemsIn(small({ info }))).toMatchObject([
      { code: 'tp-rules-missing', facts: { tensors: expect.stringMatching(/^up\.weight .*packed experts$/) } },
    ]);
  });

  test.each<[what: string, widths: Py]>([
    ['are of another number of ranks', [[12]]],
    [
      'do not add up',
      [
        [4, 2],
        [2, 1],
        [2, 2],
      ],
    ],
    ['are not there', []],
  ])('of sub-parameters whose widths %s', async (_, widths) => {
    const info = mergeInfoOf(PARAMS);
    info.set('sub_param_shard_widths', new Map([[patternOf('qkv.weight'), widths]]));
    expect(await problemsIn(small({ info }))).toMatchObject([{ code: 'tp-rules-missing', facts: { found: 1 } }]);
  });

  test('can be had one rank at a time', async () => {
    const spec = ruleless();
    for (const tpRank of [0, 1]) {
      const { tensors, warnings, problems } = await inspect(memoryTree(writeGrid(spec).files), { tpRank });
      expect(problems).toEqual([]);
      expect(warnings.map(({ code }) => code)).toEqual(['tp-rank-alone']);
      expect(tensors.find(({ name }) => name === 'up.weight')?.shape).toEqual([tpRank === 0 ? 4 : 3, 5]);
    }
    for (const tpRank of [2, -1, 0.5]) {
      expect(await rejectionOf(inspect(memoryTree(writeGrid(spec).files), { tpRank }))).toMatchObject({
        kind: 'usage',
        code: 'tp-rank-bad',
      });
    }
  });
});

describe('any tensor-parallel model', () => {
  const shape = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 3 });
  const specs = fc.integer({ min: 2, max: 4 }).chain((tp) => {
    const widths = fc.array(fc.array(fc.integer({ min: 0, max: 3 }), { minLength: tp, maxLength: tp }), {
      minLength: 1,
      maxLength: 3,
    });
    const param = fc.record({
      shape,
      widths,
      dim: fc.nat(2),
      kind: fc.constantFrom('whole', 'average', 'parts', 'parts', 'parts'),
    });
    return fc.record({
      tp: fc.constant(tp),
      stage: fc.constantFrom(1, 2, 3),
      ranks: fc.integer({ min: 1, max: 4 }),
      version: fc.constantFrom('0.10.1', '0.16.3', '0.19.6'),
      modelDtype: fc.constantFrom('F32', 'F16', 'BF16'),
      params: fc.array(param, { minLength: 1, maxLength: 5 }).map((all) =>
        all.map(({ shape: own, widths: of, dim: wanted, kind }, i): GridParam => {
          const name = `layers.${i}.weight`;
          if (kind !== 'parts') return { name, shape: own, cut: { kind } };
          const dim = wanted % own.length;
          const size = of.flat().reduce((sum, width) => sum + width, 0);
          return { name, shape: own.map((old, at) => (at === dim ? size : old)), cut: { kind, dim, widths: of } };
        }),
      ),
    } as const);
  });

  test.each([
    ['fp32', 'F32'],
    ['bf16', 'BF16'],
  ] as const)('is joined by universal_checkpoint_info, in %s', (dtype, to) =>
    fc.assert(
      fc.asyncProperty(specs, async (spec) => {
        const written = writeGrid({ ...spec, info: mergeInfoOf(spec.params) });
        expect(await toSafetensors(written.files, { dtype })).toEqual(expectedOf(written, to));
      }),
      { numRuns: 150 },
    ),
  );

  test('is joined by rules of the user', () =>
    fc.assert(
      fc.asyncProperty(specs, async (spec) => {
        const params = spec.params.filter((param) => param.cut.kind !== 'parts' || plainDim(param) !== undefined);
        fc.pre(params.length > 0);
        const tpRules = params.map((param): TpRule => {
          const merge =
            param.cut.kind === 'parts' ? plainDim(param) : param.cut.kind === 'whole' ? 'replicated' : 'average';
          return { pattern: param.name, merge: merge ?? 0 };
        });
        const written = writeGrid({ ...spec, params });
        expect(await toSafetensors(written.files, {}, { tpRules })).toEqual(expectedOf(written, 'F32'));
      }),
      { numRuns: 60 },
    ));
});
