import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../../src/io/memory.js';
import { problemsOf, without } from '../../../helpers/deepspeed/check.js';
import { expectedOf, toSafetensors } from '../../../helpers/deepspeed/convert.js';
import type { Cut } from '../../../helpers/deepspeed/cuts.js';
import { GRID_FOLDER, type GridParam, type GridSpec, writeGrid } from '../../../helpers/deepspeed/grid.js';
import { mergeInfoOf } from '../../../helpers/deepspeed/merge-info.js';
import { TensorView, tensorOf } from '../../../helpers/deepspeed/python.js';
import { bufferOf } from '../../../helpers/deepspeed/random-spec.js';
import { saveZip } from '../../../helpers/deepspeed/torch-save.js';
import { masterFile, UNIVERSAL, writeUniversal } from '../../../helpers/deepspeed/universal.js';
import { rejectionOf } from '../../../helpers/errors.js';
import { encodeFloats } from '../../../helpers/naive-floats.js';
import { recordingTree } from '../../../helpers/recording-tree.js';

const WHOLE: Cut = { kind: 'whole' };

const PARAMS: readonly GridParam[] = [
  { name: 'embed.weight', shape: [6, 3], cut: WHOLE },
  { name: 'head.bias', shape: [5], cut: WHOLE },
  { name: 'base.weight', shape: [4, 3], cut: WHOLE, isFrozen: true },
];

function small(more: Partial<GridSpec> = {}): GridSpec {
  return {
    version: '0.19.6',
    stage: 2,
    modelDtype: 'BF16',
    ranks: 3,
    tp: 1,
    params: PARAMS,
    buffers: [bufferOf('steps', 'I64', [2], 3)],
    tied: [['head.weight', 'embed.weight']],
    ...more,
  };
}

async function expectWhole(spec: GridSpec): Promise<void> {
  const written = writeUniversal(spec);
  expect(await toSafetensors(written.files)).toEqual(expectedOf(written, 'F32'));
}

describe('masters that are the same', () => {
  const names = ['a.weight', 'b.weight', 'c.weight'] as const;
  const spec = small({ stage: 3, params: names.map((name) => ({ name, shape: [4, 3], cut: WHOLE })), tied: [] });
  const { files } = writeUniversal(spec);
  const file = (name: string) => files[masterFile(name)] ?? new Uint8Array();
  const warned = async (changed: Readonly<Record<string, Uint8Array>>) =>
    (await inspect(memoryTree({ ...files, ...changed }))).warnings;

  test('are told by name: one was copied over the other', async () => {
    expect(await warned({})).toEqual([]);
    expect(await warned({ [masterFile('c.weight')]: file('a.weight') })).toEqual([
      {
        code: 'masters-equal',
        message: expect.stringContaining('a.weight, c.weight'),
        tensors: ['a.weight', 'c.weight'],
      },
    ]);
  });

  test('are no wonder where they hold one value over and over', async () => {
    const ones = saveZip(tensorOf('F32', [12], encodeFloats('F32', Array<number>(12).fill(1)), 'weights')).bytes;
    expect(await warned({ [masterFile('a.weight')]: ones, [masterFile('b.weight')]: ones })).toEqual([]);
  });
});

describe('a universal checkpoint', () => {
  test.each([1, 2, 3] as const)('has its masters in files, and all else in the model files (stage %i)', (stage) =>
    expectWhole(small({ stage })),
  );

  test.each([2, 3] as const)('has folders in folders where names hold a slash (stage %i)', (stage) =>
    expectWhole(
      small({
        stage,
        params: [
          ...PARAMS,
          { name: 'down/1/conv.weight', shape: [2, 3], cut: WHOLE },
          { name: 'down/1/conv.bias', shape: [2], cut: WHOLE },
          { name: 'down', shape: [3], cut: WHOLE },
        ],
      }),
    ),
  );

  test('looks for masters no deeper than names have slashes', async () => {
    const deep = Array<string>(50).fill('x').join('/');
    const { files } = writeUniversal(small());
    const tree = memoryTree({ ...files, [masterFile(deep)]: new Uint8Array() });
    const paths: string[] = [];
    const list = (path: string) => {
      paths.push(path);
      return tree.list(path);
    };
    const { problems } = await inspect({ name: tree.name, list, open: (path) => tree.open(path) });
    expect(problems.map(({ code, facts }) => [code, facts['missing']])).toEqual([['missing-param', 'x']]);
    expect(Math.max(...paths.map((path) => path.split('/').length))).toBe(10);
  });

  test('is told by name, and compares its masters with the model files', async () => {
    const { layout, tag, tensors, facts } = await inspect(memoryTree(writeUniversal(small()).files));
    expect({ layout, tag }).toEqual({
      layout: 'deepspeed-universal',
      tag: { tag: UNIVERSAL, path: UNIVERSAL, latest: true },
    });
    expect(tensors.map(({ name, origin, copy }) => [name, origin, copy?.dtype])).toEqual([
      ['embed.weight', 'master', 'BF16'],
      ['head.bias', 'master', 'BF16'],
      ['base.weight', 'frozen', undefined],
      ['steps', 'buffer', undefined],
    ]);
    expect(facts.ranks).toBe(3);
  });

  test('is read no further than its masters, and its folders are no tags', async () => {
    const spec = small();
    const tree = recordingTree(memoryTree(writeUniversal(spec).files));
    const { tags } = await inspect(tree);
    expect(tags.map(({ path }) => path)).toEqual([UNIVERSAL]);
    const read = new Set(tree.reads.map(({ path }) => path));
    expect([...read].sort()).toEqual(
      [
        `${UNIVERSAL}/mp_rank_00_model_states.pt`,
        masterFile('embed.weight'),
        masterFile('head.bias'),
        'latest_universal',
      ].sort(),
    );
  });

  test('lies beside the one that it was made of, which is the latest', async () => {
    const files = { ...writeUniversal(small()).files, ...writeGrid(small()).files };
    const both = { ...files, latest: new TextEncoder().encode(GRID_FOLDER) };
    const { tag, tags } = await inspect(memoryTree(both));
    expect(tag.path).toBe(GRID_FOLDER);
    expect(tags.map(({ path }) => path)).toEqual([GRID_FOLDER, UNIVERSAL]);
    expect((await inspect(memoryTree(both), { tag: UNIVERSAL })).layout).toBe('deepspeed-universal');
    // What it was made of is gone.
    const gone = Object.fromEntries(Object.entries(both).filter(([path]) => !path.startsWith(`${GRID_FOLDER}/`)));
    const left = await inspect(memoryTree(gone));
    expect(left.tag.path).toBe(UNIVERSAL);
    expect(left.warnings.map(({ code }) => code)).toEqual(['latest-missing-tag']);
  });

  test('that was written into the original is not needed', async () => {
    const universal = Object.entries(writeUniversal(small()).files).map(([path, bytes]): [string, Uint8Array] => [
      path.replace(UNIVERSAL, GRID_FOLDER),
      bytes,
    ]);
    const written = writeGrid(small());
    const latest_universal = new TextEncoder().encode(GRID_FOLDER);
    const files = { ...Object.fromEntries(universal), ...written.files, latest_universal };
    expect(await toSafetensors(files)).toEqual(expectedOf(written, 'F32'));
    expect((await inspect(memoryTree(files))).layout).toBe('deepspeed-zero2');
  });

  test.each([1, 2, 3] as const)('of a tensor-parallel run has joined masters (stage %i)', async (stage) => {
    const cut: Cut = { kind: 'parts', dim: 1, widths: [[2, 3]] };
    const params: GridParam[] = [
      { name: 'down.weight', shape: [4, 5], cut },
      { name: 'embed.weight', shape: [6, 3], cut: { kind: 'parts', dim: 0, widths: [[3, 3]] }, rows: 5 },
      { name: 'norm.weight', shape: [3], cut: { kind: 'average' } },
      { name: 'scale', shape: [2], cut: WHOLE },
      { name: 'base.weight', shape: [2, 5], cut, isFrozen: true },
    ];
    const spec = small({ stage, tp: 2, params, tied: [], info: mergeInfoOf(params) });
    await expectWhole(spec);
    const { tensors } = await inspect(memoryTree(writeUniversal(spec).files));
    const proofs = tensors.find(({ name }) => name === 'scale')?.proofs?.map(({ check, dtype }) => [check, dtype]);
    expect(proofs).toEqual(stage === 3 ? undefined : [['replicated', 'BF16']]);
    expect(await rejectionOf(inspect(memoryTree(writeUniversal(spec).files), { tpRank: 0 }))).toMatchObject({
      kind: 'usage',
      code: 'tp-rank-universal',
    });
  });

  test('of a tensor-parallel run needs rules for what was not joined alone', async () => {
    const cut: Cut = { kind: 'parts', dim: 1, widths: [[2, 3]] };
    const trained: GridParam = { name: 'down.weight', shape: [4, 5], cut };
    await expectWhole(small({ tp: 2, params: [trained], tied: [] }));
    const frozen: GridParam = { name: 'base.weight', shape: [2, 5], cut, isFrozen: true };
    expect(await problemsOf(writeUniversal(small({ tp: 2, params: [trained, frozen], tied: [] })).files)).toMatchObject(
      [{ code: 'tp-rules-missing', facts: { found: 1, tensors: expect.stringMatching(/^base\.weight/) } }],
    );
  });

  test('has less rows than the model where its vocabulary was padded', async () => {
    const params = [{ name: 'embed.weight', shape: [8, 3], cut: WHOLE, rows: 7 }];
    await expectWhole(small({ params, tied: [] }));
  });

  test('of a pipeline has lost the buffers of its layers', async () => {
    const spec = small({
      stage: 1,
      params: [
        { name: '0.weight', shape: [4], cut: WHOLE },
        { name: '1.weight', shape: [3], cut: WHOLE },
      ],
      buffers: [bufferOf('1.steps', 'I64', [1], 2)],
      tied: [],
      pipeline: { stages: 2, layers: [0, 1] },
    });
    const written = writeUniversal(spec);
    const { tensors } = await toSafetensors(written.files);
    expect(Object.keys(tensors).sort()).toEqual(['0.weight', '1.weight']);
    const { skipped, warnings } = await inspect(memoryTree(written.files));
    expect(skipped.map(({ name }) => name)).toEqual(['1.steps']);
    expect(warnings.map(({ code }) => code)).toEqual(['universal-buffers-lost']);
  });

  test('of a run with round_robin_gradients may be mixed up', async () => {
    const edit: GridSpec['edit'] = (_, root) => {
      const zero = new Map([['round_robin_gradients', true]]);
      if (root.has('module')) root.set('ds_config', new Map([['zero_optimization', zero]]));
    };
    const { warnings } = await inspect(memoryTree(writeUniversal(small({ stage: 1, edit })).files));
    expect(warnings.map(({ code }) => code)).toEqual(['universal-round-robin']);
  });
});

describe('a universal checkpoint that is not whole', () => {
  const { files } = writeUniversal(small());

  test.each([
    ['the file of a parameter', [masterFile('head.bias')]],
    ['its folder', Object.keys(files).filter((path) => path.includes('/head.bias/'))],
  ])('%s is missing', async (_, paths) => {
    expect(await problemsOf(without(files, ...paths))).toMatchObject([
      { code: 'missing-param', facts: { file: UNIVERSAL, expected: 2, found: 1, missing: 'head.bias' } },
    ]);
  });

  test('the model files are missing', async () => {
    expect(await problemsOf(without(files, `${UNIVERSAL}/mp_rank_00_model_states.pt`))).toMatchObject([
      { code: 'missing-mp-rank', facts: { expected: 1, found: 0, missing: '0' } },
    ]);
  });

  test.each([2, 3] as const)('a master has another number of elements (stage %i)', async (stage) => {
    const { files: own } = writeUniversal(small({ stage }));
    const { files: other } = writeUniversal(small({ stage, params: [{ name: 'head.bias', shape: [6], cut: WHOLE }] }));
    const bytes = other[masterFile('head.bias')] ?? new Uint8Array();
    expect(await problemsOf({ ...own, [masterFile('head.bias')]: bytes })).toMatchObject([
      { code: 'shape-differs', facts: { file: masterFile('head.bias'), tensor: 'head.bias' } },
    ]);
  });

  test('a flat master belongs to no parameter', async () => {
    const { files: own } = writeUniversal(small({ stage: 3 }));
    const bytes = own[masterFile('head.bias')] ?? new Uint8Array();
    expect(await problemsOf({ ...own, [masterFile('other')]: bytes })).toEqual([
      { code: 'param-unlisted', facts: { file: masterFile('other'), tensor: 'other' } },
    ]);
  });

  test('a master is no tensor, or its file is something else', async () => {
    const edit: GridSpec['edit'] = (name, root) => {
      if (name === 'head.bias') root.set('param', 5);
    };
    expect(await rejectionOf(inspect(memoryTree(writeUniversal(small({ edit })).files)))).toMatchObject({
      code: 'bad-field',
      facts: { file: masterFile('head.bias'), field: 'param' },
    });
    const broken = { ...files, [masterFile('head.bias')]: new Uint8Array(100) };
    expect(await rejectionOf(inspect(memoryTree(broken)))).toMatchObject({
      kind: 'bad-file',
      code: 'torch-foreign-format',
    });
  });

  test('masters were mixed up: they are not the weights of the model', async () => {
    const edit: GridSpec['edit'] = (name, root) => {
      const param = root.get('param');
      if (name !== 'head.bias' || !(param instanceof TensorView)) return;
      root.set('param', tensorOf('F32', [5], param.storage.bytes.toReversed(), 'weights'));
    };
    expect(await rejectionOf(toSafetensors(writeUniversal(small({ edit })).files))).toMatchObject({
      code: 'master-copy-differs',
      facts: { tensor: 'head.bias' },
    });
  });
});

describe('any universal checkpoint', () => {
  const shapes = fc.array(fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 3 }), { minLength: 1, maxLength: 5 });
  const specs = fc.record({
    shapes,
    frozen: shapes,
    stage: fc.constantFrom(1, 2, 3),
    ranks: fc.integer({ min: 1, max: 4 }),
    modelDtype: fc.constantFrom('F32', 'F16', 'BF16'),
  } as const);

  test('gives every tensor', () =>
    fc.assert(
      fc.asyncProperty(specs, async ({ shapes: trained, frozen, ...made }) => {
        const params = [
          ...trained.map((shape, i): GridParam => ({ name: `layers.${i}.weight`, shape, cut: WHOLE })),
          ...frozen.map((shape, i): GridParam => ({ name: `base.${i}`, shape, cut: WHOLE, isFrozen: true })),
        ];
        const written = writeUniversal({ ...small(made), params, tied: [] });
        expect(await toSafetensors(written.files)).toEqual(expectedOf(written, 'F32'));
      }),
      { numRuns: 100 },
    ));
});
