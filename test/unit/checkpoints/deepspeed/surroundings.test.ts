import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../../src/io/memory.js';
import { expectWhole, inspectSpec, problemsIn, problemsOf, without } from '../../../helpers/deepspeed/check.js';
import { expectedOf, toSafetensors } from '../../../helpers/deepspeed/convert.js';
import { type Py, type PyMap, PyOrdered, PyRaw } from '../../../helpers/deepspeed/python.js';
import { MODEL, modelOf, optimOf, small } from '../../../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../../../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';
import { rejectionOf } from '../../../helpers/errors.js';
import { pickle, unicode } from '../../../helpers/pickle.js';

const text = (content: string) => new TextEncoder().encode(content);
const STAGES = [0, 1, 2, 3] as const;

function moduleIn(root: PyMap): PyOrdered {
  const module = root.get('module');
  if (!(module instanceof PyOrdered)) throw new Error('no state dict');
  return module;
}

/** The files of a spec below a folder of their own. */
function below(outer: string, spec: CheckpointSpec): Record<string, Uint8Array> {
  return Object.fromEntries(
    Object.entries(writeCheckpoint(spec).files).map(([path, bytes]) => [`${outer}/${path}`, bytes]),
  );
}

describe('MiCS', () => {
  // Four ranks train; the parameters are cut over two, and the first two alone write files.
  const spec = small(3, { ranks: 2, editModel: (root) => root.set('dp_world_size', 4) });

  test('is cut over as many ranks as partition_count says', async () => {
    await expectWhole(spec);
    expect((await inspectSpec(spec)).warnings).toEqual([]);
  });

  test('misses a rank of the two, and none of the others', async () => {
    const { files } = writeCheckpoint(spec);
    expect((await problemsOf(without(files, optimOf(1)))).map(({ code }) => code)).toEqual(['missing-optim-rank']);
    expect(await problemsOf(files)).toEqual([]);
  });
});

describe('what frameworks put around a checkpoint', () => {
  test.each<[framework: string, folder: string, beside: Readonly<Record<string, string>>]>([
    ['Lightning', 'checkpoint', { latest: 'checkpoint', 'zero_to_fp32.py': 'import torch' }],
    ['Accelerate', 'pytorch_model', { latest: 'pytorch_model', 'random_states_0.pkl': 'x', 'scheduler.bin': 'x' }],
    ['GPT-NeoX', 'global_step7', { latest: 'global_step7', 'global_step7/configs/6-7B.yml': '{}' }],
    [
      'Megatron-DeepSpeed',
      'global_step7',
      { latest: 'global_step7', 'latest_checkpointed_iteration.txt': '7', 'tokenizer/vocab.json': '{}' },
    ],
  ])('%s', async (_, folder, beside) => {
    for (const stage of STAGES) {
      const written = writeCheckpoint(small(stage, { folder }));
      const files = { ...written.files };
      for (const [path, content] of Object.entries(beside)) files[path] = text(content);
      const { tag, warnings, problems } = await inspect(memoryTree(files));
      expect({ tag, warnings, problems }).toEqual({
        tag: { tag: folder, path: folder, latest: true },
        warnings: [],
        problems: [],
      });
      expect(await toSafetensors(files)).toEqual(expectedOf(written, 'F32'));
    }
  });

  test('the folder of a Lightning checkpoint is named as a file is', async () => {
    const files = { ...below('last.ckpt', small(2, { folder: 'checkpoint' })), 'last.ckpt/latest': text('checkpoint') };
    expect((await inspect(memoryTree(files))).tag).toEqual({
      tag: 'checkpoint',
      path: 'last.ckpt/checkpoint',
      latest: true,
    });
  });
});

describe('a state dict of dicts, as Megatron-LM makes it', () => {
  const groups = [
    [
      { name: 'language_model.embedding.word_embeddings.weight', shape: [5, 3] },
      { name: 'language_model.encoder.layers.0.bias', shape: [4] },
    ],
  ];
  const nest = (root: PyMap): void => {
    const { map } = moduleIn(root);
    const take = (name: string): Py => map.get(`language_model.${name}`) ?? null;
    const words = new Map([['weight', take('embedding.word_embeddings.weight')]]);
    const embedding = new PyOrdered(new Map([['word_embeddings', words]]));
    const encoder = new Map([['layers.0.bias', take('encoder.layers.0.bias')]]);
    const model = new Map<string, Py>([
      ['embedding', embedding],
      ['encoder', encoder],
    ]);
    root.set('module', new Map([['language_model', model]]));
  };

  test.each([1, 2, 3] as const)('has the names of modules (stage %i)', async (stage) => {
    const spec = small(stage, { groups, editModel: nest });
    await expectWhole(spec);
    const { skipped, tensors } = await inspectSpec(spec);
    expect(skipped).toEqual([]);
    expect(tensors.map(({ copy }) => copy !== undefined)).toEqual(Array(2).fill(stage < 3));
  });

  test('may be neither deep beyond reason nor a circle', async () => {
    const inside = (levels: number): Py => (levels === 0 ? new Map() : new Map([['in', inside(levels - 1)]]));
    const circle = new PyRaw(pickle('}q\x05(', unicode('again'), 'h\x05u'));
    const found = (value: Py) =>
      rejectionOf(
        inspect(memoryTree(writeCheckpoint(small(2, { editModel: (root) => root.set('module', value) })).files)),
      );
    expect(await found(inside(30))).toMatchObject({ code: 'bad-field', facts: { file: MODEL, found: 'a dict' } });
    expect(await found(circle)).toMatchObject({
      code: 'bad-field',
      facts: { file: MODEL, field: 'module["again"]', expected: 'a tensor', found: 'a dict' },
    });
  });

  test('must not hold a name twice', async () => {
    const twice = (root: PyMap) => {
      const bias = moduleIn(root).map.get('language_model.encoder.layers.0.bias') ?? null;
      nest(root);
      const module = root.get('module');
      if (module instanceof Map) module.set('language_model.encoder.layers.0.bias', bias);
    };
    const refused = await rejectionOf(
      inspect(memoryTree(writeCheckpoint(small(2, { groups, editModel: twice })).files)),
    );
    expect(refused).toMatchObject({
      code: 'name-twice',
      facts: { file: MODEL, tensor: 'language_model.encoder.layers.0.bias' },
    });
    expect(await problemsIn(small(2, { groups, editModel: nest }))).toEqual([]);
  });
});

describe('shapes', () => {
  test.each(['size', 'tuple', 'list'] as const)('may be stored as %s', async (shapesAs) => {
    const frozen = [{ name: 'base', shape: [3, 4] }];
    for (const stage of STAGES) await expectWhole(small(stage, { shapesAs, frozen }));
  });
});

describe('two runs in one folder', () => {
  test.each([1, 2, 3] as const)('a stray file of the other prefix does not matter (stage %i)', async (stage) => {
    const written = writeCheckpoint(small(stage, { modelDtype: 'F16' }));
    const stray = writeCheckpoint(small(stage)).files[optimOf(0)] ?? new Uint8Array();
    const files = { ...written.files, [optimOf(0)]: stray };
    expect((await inspect(memoryTree(files))).warnings.map(({ code }) => code)).toEqual(['other-optim-set']);
    expect(await toSafetensors(files)).toEqual(expectedOf(written, 'F32'));
  });
});

describe("training code that overwrites DeepSpeed's own keys", () => {
  test.each<[key: string, value: Py]>([
    ['module', 'mine'],
    ['param_shapes', 'mine'],
    ['shared_params', ['mine']],
    ['buffer_names', new Map([['mine', 1]])],
    ['frozen_param_shapes', 7],
  ])('%s', async (key, value) => {
    const spec = (edited: Py | undefined) =>
      small(3, { editModel: (root) => (edited === undefined ? undefined : void root.set(key, edited)) });
    const refused = await rejectionOf(inspect(memoryTree(writeCheckpoint(spec(value)).files)));
    expect(refused).toMatchObject({ code: 'bad-field', facts: { file: modelOf(0), field: key } });
    expect(await problemsIn(spec(undefined))).toEqual([]);
  });
});

describe('files of another kind of run', () => {
  const layer = 'global_step7/layer_03-model_states.pt';
  const optimizer = 'global_step7/expp_rank_0_mp_rank_00_optim_states.pt';

  test.each([0, 1, 2, 3] as const)('are passed over, and that is told (stage %i)', async (stage) => {
    const written = writeCheckpoint(small(stage));
    // What such files hold: a state dict, and masters that would be those of a model with these values.
    const other = writeCheckpoint(small(0, { groups: [[{ name: 'other.weight', shape: [5, 3] }]] })).files[MODEL];
    const files = { ...written.files, [layer]: other ?? new Uint8Array(), [optimizer]: other ?? new Uint8Array() };
    const { problems, warnings } = await inspect(memoryTree(files));
    expect({ problems, codes: warnings.map(({ code }) => code) }).toEqual({
      problems: [],
      codes: ['files-unused', 'files-unused'],
    });
    expect(warnings.map(({ message }) => message)).toEqual([
      expect.stringContaining('layer_03-model_states.pt'),
      expect.stringContaining('expp_rank_0_mp_rank_00_optim_states.pt'),
    ]);
    expect(await toSafetensors(files)).toEqual(expectedOf(written, 'F32'));
  });
});
