import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../../src/io/memory.js';
import { plan } from '../../../../src/plan/make.js';
import { problemsOf, without } from '../../../helpers/deepspeed/check.js';
import { expectedOf, toSafetensors } from '../../../helpers/deepspeed/convert.js';
import { MOE_FOLDER, type MoeLayer, type MoeSpec, writeMoe } from '../../../helpers/deepspeed/moe.js';
import { type PyMap, TensorView, tensorOf } from '../../../helpers/deepspeed/python.js';
import { bufferOf } from '../../../helpers/deepspeed/random-spec.js';
import { small as plain } from '../../../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';
import { detailOf, rejectionOf } from '../../../helpers/errors.js';
import { recordingTree } from '../../../helpers/recording-tree.js';

const LAYER: MoeLayer = {
  prefix: 'model.moe',
  experts: 4,
  ep: 2,
  params: [
    { name: 'w.weight', shape: [5, 3] },
    { name: 'w.bias', shape: [7] },
  ],
};

/** Four experts shared out over two of four ranks, in groups of their own that are cut over two ranks each. */
function small(more: Partial<MoeSpec> = {}): MoeSpec {
  const dense = [
    { name: 'embed.weight', shape: [6, 5] },
    { name: 'model.moe.deepspeed_moe.gate.wg.weight', shape: [4, 5] },
  ];
  return { version: '0.19.6', stage: 2, modelDtype: 'BF16', ranks: 4, dense, layers: [LAYER], ...more };
}

const MODEL = `${MOE_FOLDER}/mp_rank_00_model_states.pt`;

function expertFile(expert: number, layer = 0): string {
  return `${MOE_FOLDER}/layer_${layer}_expert_${expert}_mp_rank_00_model_states.pt`;
}

async function expectWhole(spec: MoeSpec): Promise<void> {
  const written = writeMoe(spec);
  expect(await toSafetensors(written.files)).toEqual(expectedOf(written, 'F32'));
}

describe('a model with experts', () => {
  test.each(['experts', 'data'] as const)('has the masters of all experts, with %s dealt to neighbours', (first) =>
    expectWhole(small({ first })),
  );

  test('has them where the name of each is recorded alone, before 0.19.3', async () => {
    for (const first of ['experts', 'data'] as const) await expectWhole(small({ version: '0.16.3', first }));
  });

  test('has files of experts over all layers, and the names in the optimizer files, before 0.6.0', () =>
    expectWhole(small({ version: '0.5.8', layers: [LAYER, { ...LAYER, prefix: 'model.other' }] })));

  test.each(['0.5.0', '0.5.1', '0.5.2', '0.5.3', '0.6.0', '0.6.5', '0.7.0', '0.7.3'])(
    'is read in %s, which lists no groups: where weights lie in their storages tells it',
    async (version) => {
      const layers = [LAYER, { ...LAYER, prefix: 'model.other' }];
      for (const first of ['experts', 'data'] as const) {
        for (const ranks of [2, 4]) await expectWhole(small({ version, modelDtype: 'F16', layers, first, ranks }));
      }
    },
  );

  test('with several degrees of expert parallelism and split groups is read so, too', () => {
    const layers = [1, 2, 4].map((ep) => ({ ...LAYER, prefix: `layers.${ep}`, ep }));
    return expectWhole(small({ version: '0.7.3', layers, groupSize: 30 }));
  });

  test('is read so where two groups are of one size and have the same zeros at one place', async () => {
    const layers = ['layers.0', 'layers.1'].map((prefix) => ({ ...LAYER, prefix, ep: 1, experts: 1 }));
    const zeros = (name: string, root: PyMap) => {
      const groups = root.get('optimizer_state_dict') instanceof Map ? slicesOf(root) : [];
      // Both groups: 15 elements of a weight and 7 of a bias, over the slices of four ranks of 6 elements each.
      const rank = Number(/rank_(\d)/.exec(name)?.[1]);
      for (const slice of groups.slice(1)) zeroFrom(slice, 15 - 6 * rank);
      for (const value of root.values()) if (value instanceof TensorView) zeroFrom(value, 15 - value.offset);
    };
    const { files } = writeMoe(small({ version: '0.7.3', layers, groupSize: 22, edit: zeros }));
    const { tensors, problems } = await inspect(memoryTree(files));
    expect(problems).toEqual([]);
    expect(tensors.filter(({ origin }) => origin === 'master')).toHaveLength(6);
  });

  test('may have a degree of expert parallelism for each layer, and groups that were split', () => {
    const layers = [1, 2, 4].map((ep) => ({ ...LAYER, prefix: `layers.${ep}`, ep }));
    return expectWhole(small({ layers, groupSize: 30 }));
  });

  test('keeps the padding of BF16_Optimizer', () => expectWhole(small({ stage: 1, bf16Optimizer: true })));

  test('has frozen parameters and buffers in its experts', async () => {
    const layer: MoeLayer = {
      ...LAYER,
      frozen: [{ name: 'scale', shape: [3] }],
      buffers: [bufferOf('seen', 'I64', [2], 9)],
    };
    for (const stage of [1, 2] as const) await expectWhole(small({ stage, layers: [layer] }));
    const { tensors } = await inspect(memoryTree(writeMoe(small({ layers: [layer] })).files));
    const origins = (end: string) => tensors.filter(({ name }) => name.endsWith(end)).map(({ origin }) => origin);
    expect(origins('.scale')).toEqual(Array<string>(4).fill('frozen'));
    expect(origins('.seen')).toEqual(Array<string>(4).fill('buffer'));
  });

  test('may have saved extra state in an expert file, which is no tensor', async () => {
    const edit: MoeSpec['edit'] = (name, root) => {
      if (name.startsWith('layer_0_expert_1_')) root.set('experts.1._extra_state', 5);
    };
    await expectWhole(small({ edit }));
    const { skipped } = await inspect(memoryTree(writeMoe(small({ edit })).files));
    expect(skipped.map(({ name }) => name)).toEqual(['experts.1._extra_state']);
  });

  test('without ZeRO has its masters in a file for each expert-parallel rank', async () => {
    const spec = small({ stage: 0, version: '0.16.3' });
    await expectWhole(spec);
    await expectWhole(small({ stage: 0 }));
    const { tensors, facts } = await inspect(memoryTree(writeMoe(spec).files));
    expect(new Set(tensors.map(({ origin }) => origin))).toEqual(new Set(['master']));
    expect(facts).toMatchObject({ expertParallel: 2 });
  });

  test('without ZeRO compares what every expert-parallel rank has a master of', async () => {
    const edit: MoeSpec['edit'] = (name, root) => {
      const groups = name.startsWith('expp_rank_1') ? root.get('optimizer') : undefined;
      if (!(groups instanceof Map)) return;
      const [dense] = groups.get('fp32_groups_flat') as TensorView[];
      // One bit of an element that a 16-bit copy does not show.
      if (dense) dense.storage.bytes[0] = (dense.storage.bytes[0] ?? 0) ^ 1;
    };
    const written = writeMoe(small({ stage: 0, edit }));
    expect(await rejectionOf(toSafetensors(written.files))).toMatchObject({
      code: 'replicated-differs',
      facts: { tensor: 'embed.weight', index: 0 },
    });
  });

  test('is read in a few places to tell the order of its ranks', async () => {
    const layer = { ...LAYER, params: [{ name: 'w', shape: [200_000] }] };
    const { files } = writeMoe(small({ layers: [layer] }));
    const tree = recordingTree(memoryTree(files));
    await inspect(tree);
    const read = tree.reads.reduce((sum, { length }) => sum + length, 0);
    // Both ends of a file are read, whatever lies there.
    const ends = Object.keys(files).length * 2 * (2 ** 16 + 8192);
    expect(Object.values(files).reduce((sum, { length }) => sum + length, 0)).toBeGreaterThan(2 * ends);
    expect(read).toBeLessThan(ends + 100_000);
  });

  test('says how many ranks share its experts out', async () => {
    const { facts, layout } = await inspect(memoryTree(writeMoe(small()).files));
    expect(facts).toMatchObject({ ranks: 4, expertParallel: 2 });
    expect(layout).toBe('deepspeed-zero2');
  });

  test('reads the files of experts alone for the dtype of the model', async () => {
    const made = plan(await inspect(memoryTree(writeMoe(small()).files)), { dtype: 'bf16', overflow: 'inf' });
    const read = new Set(
      made.tensors.flatMap(({ pieces }) => pieces.map((piece) => ('source' in piece ? piece.source : -1))),
    );
    const paths = [...read].map((source) => made.sources[source]?.path).sort();
    expect(paths).toEqual([...[0, 1, 2, 3].map((id) => expertFile(id)), MODEL].sort());
  });
});

describe('AutoEP', () => {
  const params = ['w1', 'w2', 'w3'].map((name, i) => ({ name, shape: [3, 2 + i] }));
  const fused = (more: Partial<MoeSpec> = {}) =>
    small({ fused: true, layers: [{ prefix: 'layers.0.experts', experts: 6, ep: 2, params }], ...more });

  test('has one tensor over all experts for each weight', async () => {
    for (const first of ['experts', 'data'] as const) await expectWhole(fused({ first }));
    const { tensors } = await inspect(memoryTree(writeMoe(fused()).files));
    expect(tensors.find(({ name }) => name === 'layers.0.experts.w2')).toMatchObject({
      shape: [6, 3, 3],
      origin: 'master',
      copy: { dtype: 'BF16' },
    });
  });

  test('has one with a single expert-parallel rank', () =>
    expectWhole(fused({ layers: [{ prefix: 'experts', experts: 3, ep: 1, params }] })));

  test.each([
    ['its experts are cut by ZeRO-3', 'autoep-zero3', ['checkpoint_format', 'zero3_partitioned']],
    ['it is folded into tensor parallelism', 'autoep-folding', undefined],
  ] as const)('is refused where %s', async (_, code, field) => {
    const edit: MoeSpec['edit'] = (name, root) => {
      const layers = root.get('ds_autoep_layers');
      if (!name.startsWith('mp_rank') || !Array.isArray(layers)) return;
      if (field === undefined) root.set('folding', new Map([['tp_size', 2]]));
      else for (const layer of layers) if (layer instanceof Map) layer.set(...field);
    };
    const { files } = writeMoe(fused({ edit }));
    expect(await rejectionOf(inspect(memoryTree(files)))).toMatchObject({
      kind: 'unsupported',
      code,
      facts: { file: MODEL },
    });
  });
});

describe('experts that are not what they should be', () => {
  test.each([
    ['one file', [expertFile(2)], { expected: 4, found: 3, missing: 'expert 2 of layer 0' }],
    ['all files', [0, 1, 2, 3].map((id) => expertFile(id)), { expected: 4, found: 0 }],
    ['the last file', [expertFile(3)], { expected: 4, found: 3, missing: 'expert 3 of layer 0' }],
  ])('%s is missing', async (_, paths, facts) => {
    const files = without(writeMoe(small()).files, ...paths);
    expect((await problemsOf(files))[0]).toMatchObject({ code: 'missing-expert', facts });
    const inventory = await inspect(memoryTree(files));
    expect(detailOf(() => plan(inventory))).toMatchObject({ kind: 'missing-shard', code: 'missing-expert' });
  });

  test('a file of an older version is missing', async () => {
    const files = without(
      writeMoe(small({ version: '0.5.8' })).files,
      `${MOE_FOLDER}/expert_1_mp_rank_00_model_states.pt`,
    );
    expect(await problemsOf(files)).toMatchObject([
      { code: 'missing-expert', facts: { expected: 4, found: 3, missing: 'expert 1' } },
    ]);
  });

  test('one expert is too many', async () => {
    const { files } = writeMoe(small());
    const stale = { ...files, [expertFile(4)]: files[expertFile(3)] ?? new Uint8Array() };
    expect(await problemsOf(stale)).toMatchObject([{ code: 'stale-experts', facts: { expected: 4, found: 5 } }]);
  });

  test('one file is there under two names', async () => {
    const { files } = writeMoe(small());
    const twin = `${MOE_FOLDER}/layer_00_expert_1_mp_rank_00_model_states.pt`;
    const twice = { ...files, [twin]: files[expertFile(1)] ?? new Uint8Array() };
    expect((await problemsOf(twice)).map(({ code }) => code)).toEqual(['rank-twice']);
  });

  test('their bits are others: no order of the ranks gives them', async () => {
    const edit: MoeSpec['edit'] = (name, root) => {
      if (!name.startsWith('layer_0_expert_')) return;
      for (const [key, value] of root) if (value instanceof TensorView) root.set(key, zeroed(value));
    };
    expect(await problemsOf(writeMoe(small({ edit })).files)).toMatchObject([
      { code: 'expert-order', facts: { file: MODEL, group: 1 } },
    ]);
  });

  test('a group is cut over a number of ranks that does not share the experts out evenly', async () => {
    const edit: MoeSpec['edit'] = (name, root) => {
      const state = root.get('optimizer_state_dict');
      if (name.includes('optim_states') && state instanceof Map) state.set('partition_count', [4, 3]);
    };
    expect(await problemsOf(writeMoe(small({ edit })).files)).toMatchObject([
      { code: 'expert-ranks', facts: { group: 1, expected: 2, found: 3 } },
    ]);
  });

  test('experts are shared out over more ranks than the data-parallel ones', async () => {
    const edit: MoeSpec['edit'] = (name, root) => {
      const state = root.get('optimizer_state_dict');
      if (name.includes('optim_states') && state instanceof Map) state.set('partition_count', [4, 4]);
    };
    expect(await problemsOf(writeMoe(small({ edit })).files)).toMatchObject([
      { code: 'expert-ranks', facts: { group: 1, expected: 2, found: 4 } },
    ]);
  });

  test.each([
    ['weights are copies', { copies: true }],
    [
      'weights are of other masters',
      {
        edit: (name: string, root: PyMap) => {
          if (!name.startsWith('layer_0_expert_1_')) return;
          for (const [key, value] of root) if (value instanceof TensorView) root.set(key, zeroed(value));
        },
      },
    ],
  ])('before 0.7.4, nothing tells the groups where %s', async (_, more) => {
    const spec = small({ version: '0.7.3', layers: [{ ...LAYER, ep: 1 }] });
    expect(await problemsOf(writeMoe({ ...spec, ...more }).files)).toMatchObject([
      { code: 'flat-order-unproven', facts: { other: MODEL } },
    ]);
    await expectWhole(spec);
  });

  test('whole experts are dealt to tensor-parallel ranks, and each has a file of one of them alone', async () => {
    const { files } = writeMoe(
      small({ edit: (name, root) => void (name.startsWith('mp_rank') && root.set('mp_world_size', 2)) }),
    );
    const copied = (isDealt: boolean) => {
      const all = Object.entries(files).flatMap(([path, bytes]): [string, Uint8Array][] => {
        const other = path.replace('mp_rank_00', 'mp_rank_01');
        if (isDealt && path.includes('_expert_')) return [[/expert_[13]_/.test(path) ? other : path, bytes]];
        return [
          [path, bytes],
          [other, bytes],
        ];
      });
      return problemsOf(Object.fromEntries(all));
    };
    expect((await copied(true))[0]).toEqual({
      code: 'expert-ranks',
      facts: { file: MOE_FOLDER, expected: 2, found: 4 },
    });
    expect((await copied(false)).map(({ code }) => code)).not.toContain('expert-ranks');
  });

  test('a number of experts that would fill the memory is no number of experts', async () => {
    const edit: MoeSpec['edit'] = (name, root) => {
      if (name.startsWith('mp_rank')) root.set('num_experts', Array<number>(1000).fill(2 ** 40));
    };
    await expectWhole(small({ edit }));
  });

  test('a great many experts are missing, and the first of them are named', async () => {
    const edit: MoeSpec['edit'] = (name, root) => {
      if (name.startsWith('mp_rank')) root.set('num_experts', Array<number>(100_000).fill(2 ** 14));
    };
    expect(await problemsOf(writeMoe(small({ edit })).files)).toMatchObject([
      { code: 'missing-expert', facts: { expected: 100_000 * 2 ** 14, found: 4 } },
    ]);
  });

  test('the optimizer of an expert-parallel rank is missing without ZeRO', async () => {
    const { files } = writeMoe(small({ stage: 0 }));
    const path = (rank: number) => `${MOE_FOLDER}/expp_rank_${rank}_mp_rank_00_optim_states.pt`;
    expect(await problemsOf(without(files, path(0)))).toMatchObject([
      { code: 'missing-expert-optim', facts: { file: path(1), missing: 0 } },
    ]);
  });

  test('expert files lie beside the shards of ZeRO-3', async () => {
    const { files } = writeMoe(small());
    const mixed = { ...writeCheckpoint(plain(3)).files, [expertFile(0)]: files[expertFile(0)] ?? new Uint8Array() };
    expect(await rejectionOf(inspect(memoryTree(mixed)))).toMatchObject({ kind: 'unsupported', code: 'moe-zero3' });
  });
});

function slicesOf(root: PyMap): TensorView[] {
  const state = root.get('optimizer_state_dict');
  const slices = state instanceof Map ? state.get('single_partition_of_fp32_groups') : [];
  return Array.isArray(slices) ? slices.filter((slice) => slice instanceof TensorView) : [];
}

/** Makes zeros of the elements of a tensor from one on. */
function zeroFrom({ storage, shape, offset }: TensorView, start: number): void {
  const size = storage.dtype === 'F32' ? 4 : 2;
  const count = shape.reduce((n, length) => n * length, 1);
  const from = Math.max(0, start);
  if (from < count) storage.bytes.fill(0, (offset + from) * size, (offset + count) * size);
}

/** A tensor of the same kind that is zero. */
function zeroed({ storage, shape }: TensorView): TensorView {
  return tensorOf(storage.dtype, shape, new Uint8Array(storage.bytes.length), 'copy');
}

describe('any model with experts', () => {
  const params = fc
    .array(fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 3 }), { minLength: 1, maxLength: 3 })
    .map((shapes) => shapes.map((shape, i) => ({ name: `w${i}`, shape })));
  const degrees = fc.constantFrom(1, 2, 3, 6);
  const layers = fc
    .array(fc.record({ ep: degrees, each: fc.integer({ min: 1, max: 3 }), params, frozen: fc.boolean() }), {
      minLength: 1,
      maxLength: 3,
    })
    .map((all) =>
      all.map(
        ({ ep, each, params: own, frozen }, i): MoeLayer => ({
          prefix: `layers.${i}.moe`,
          experts: ep * each,
          ep,
          params: own,
          frozen: frozen ? [{ name: 'frozen', shape: [2, 2] }] : [],
        }),
      ),
    );
  const specs = fc.record({
    version: fc.constantFrom('0.6.0', '0.7.3', '0.7.4', '0.9.1', '0.16.3', '0.16.4', '0.19.3', '0.19.6'),
    stage: fc.constantFrom(1, 2),
    modelDtype: fc.constantFrom('F32', 'F16', 'BF16'),
    ranks: fc.constantFrom(6, 6, 12),
    dense: fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 3 }),
    layers,
    first: fc.constantFrom('experts', 'data'),
    groupSize: fc.constantFrom(1, 20, 1000),
  } as const);

  test.each([
    ['fp32', 'F32'],
    ['bf16', 'BF16'],
  ] as const)('gives every expert in %s', (dtype, to) =>
    fc.assert(
      fc.asyncProperty(specs, async ({ dense, ...made }) => {
        const params = dense.map((size, i) => ({ name: `dense.${i}`, shape: [size] }));
        const written = writeMoe({ ...made, dense: params });
        expect(await toSafetensors(written.files, { dtype })).toEqual(expectedOf(written, to));
      }),
      { numRuns: 40 },
    ),
  );
});
