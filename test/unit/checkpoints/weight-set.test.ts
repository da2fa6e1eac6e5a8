import { describe, expect, test } from 'vitest';
import { readWeightSet } from '../../../src/checkpoints/weight-set.js';
import { memoryTree } from '../../../src/io/memory.js';
import { tensorOf } from '../../helpers/deepspeed/python.js';
import { saveZip } from '../../helpers/deepspeed/torch-save.js';
import { rejectionOf } from '../../helpers/errors.js';
import { recordingTree } from '../../helpers/recording-tree.js';
import { writeSafetensors } from '../../helpers/safetensors.js';
import { sparseSource } from '../../helpers/source.js';

const tensor = { dtype: 'F32', shape: [2], bytes: new Uint8Array(8).fill(7) };
const file = (...names: string[]) => writeSafetensors(Object.fromEntries(names.map((name) => [name, tensor])));
const torchFile = (...names: string[]) =>
  saveZip(new Map(names.map((name) => [name, tensorOf('F32', [2], tensor.bytes, 'other')]))).bytes;
const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const index = (map: Record<string, string>) => json({ metadata: { total_size: 0 }, weight_map: map });

const read = (files: Record<string, Uint8Array>, wanted?: string) => readWeightSet(memoryTree(files), wanted, 10);

const SHARDS = {
  'model-00001-of-00002.safetensors': file('a'),
  'model-00002-of-00002.safetensors': file('b'),
};
const MAP = { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' };

describe('the weights of a folder are', () => {
  test.each([
    ['a safetensors file of any name', { 'x.safetensors': file('a'), 'config.json': json({}) }, ['x.safetensors']],
    ['a torch file', { 'pytorch_model.bin': torchFile('a'), 'optimizer.bin': json(1) }, ['pytorch_model.bin']],
    [
      'the safetensors file of both',
      { 'model.safetensors': file('a'), 'pytorch_model.bin': torchFile('a') },
      ['model.safetensors'],
    ],
    ['the shards that an index names', { ...SHARDS, 'model.safetensors.index.json': index(MAP) }, Object.keys(SHARDS)],
  ])('%s', async (_, files, expected) => {
    const found = await read(files);
    expect(found.files.map(({ path }) => path)).toEqual(expected);
    const pieces = [...found.tensors.values()].flatMap((bits) => bits.pieces);
    expect(pieces.map((piece) => ('over' in piece ? -1 : piece.source)).sort()).toEqual(expected.map((_, i) => 10 + i));
    expect(found.tensors.get('a')).toMatchObject({ dtype: 'F32', shape: [2] });
  });

  test('the one that is asked for, where there are several', async () => {
    const files = { 'one.safetensors': file('a'), 'two.safetensors': file('b'), 'pytorch_model.bin': torchFile('c') };
    for (const [wanted, name] of [
      ['one.safetensors', 'a'],
      ['two.safetensors', 'b'],
      ['pytorch_model.bin', 'c'],
    ] as const) {
      expect([...(await read(files, wanted)).tensors.keys()]).toEqual([name]);
    }
    expect(await rejectionOf(read(files))).toMatchObject({
      kind: 'usage',
      code: 'weights-several',
      facts: { found: 2 },
    });
    expect(await rejectionOf(read(files, 'three.safetensors'))).toMatchObject({ kind: 'source' });
  });

  test('missing where no file is one of weights', async () => {
    const files = { 'config.json': json({}), 'training_args.bin': json(1) };
    expect(await rejectionOf(read(files))).toMatchObject({ kind: 'usage', code: 'weights-missing' });
  });
});

describe('an index is refused', () => {
  test.each([
    ['that is no JSON', new TextEncoder().encode('{')],
    ['without a map', json({ metadata: {} })],
    ['that is a list', json([])],
    ['whose map is a list', json({ weight_map: ['a'] })],
    ['whose map leads to numbers', json({ weight_map: { a: 1 } })],
    ['whose map leads out of the folder', json({ weight_map: { a: '../a.safetensors' } })],
  ])('%s', async (_, bytes) => {
    const detail = await rejectionOf(read({ ...SHARDS, 'model.safetensors.index.json': bytes }));
    expect(detail).toMatchObject({ kind: 'bad-file', code: 'weights-index-bad' });
  });

  test.each([
    ['a tensor in another file', { ...MAP, a: MAP.b, b: MAP.a }, 'a', MAP.b, MAP.a],
    ['a tensor that no file has', { ...MAP, c: MAP.a }, 'c', MAP.a, 'no file'],
  ])('that names %s', async (_, map, name, expected, found) => {
    const detail = await rejectionOf(read({ ...SHARDS, 'model.safetensors.index.json': index(map) }));
    expect(detail.facts).toEqual({ file: 'model.safetensors.index.json', tensor: name, expected, found });
  });

  test('that does not name a tensor of its files', async () => {
    const files = { ...SHARDS, 'model-00002-of-00002.safetensors': file('b', 'c') };
    const detail = await rejectionOf(read({ ...files, 'model.safetensors.index.json': index(MAP) }));
    expect(detail.facts).toMatchObject({ tensor: 'c', expected: 'no file', found: MAP.b });
  });

  test('of which two files hold one tensor', async () => {
    const files = { ...SHARDS, 'model-00002-of-00002.safetensors': file('a', 'b') };
    const detail = await rejectionOf(read({ ...files, 'model.safetensors.index.json': index(MAP) }));
    expect(detail).toMatchObject({ code: 'weights-index-differs', facts: { tensor: 'a', found: MAP.b } });
  });
});

test('an index that is too large to be one is not read', async () => {
  const tree = memoryTree(SHARDS);
  const size = 2 ** 28 + 1;
  const huge = {
    ...tree,
    open: async (path: string) =>
      path === 'x.safetensors.index.json' ? sparseSource(size, [], path) : tree.open(path),
  };
  const detail = await rejectionOf(readWeightSet(huge, 'x.safetensors.index.json', 0));
  expect(detail).toMatchObject({ code: 'weights-index-bad', facts: { found: `${size} bytes` } });
});

test('a name that is on the prototype of objects is a name like others', async () => {
  const found = await read({ 'x.safetensors': file('constructor', '__proto__x') });
  expect([...found.tensors.keys()]).toEqual(['constructor', '__proto__x']);
});

test('every file is closed, also when one is damaged', async () => {
  const tree = recordingTree(memoryTree({ ...SHARDS, 'model.safetensors.index.json': index(MAP) }));
  await readWeightSet(tree, undefined, 0);
  expect(tree.unclosed.size).toBe(0);
  const damaged = { ...SHARDS, [MAP.a]: new Uint8Array(3), 'model.safetensors.index.json': index(MAP) };
  const broken = recordingTree(memoryTree(damaged));
  expect(await rejectionOf(readWeightSet(broken, undefined, 0))).toMatchObject({ kind: 'bad-file' });
  expect(broken.unclosed.size).toBe(0);
});
