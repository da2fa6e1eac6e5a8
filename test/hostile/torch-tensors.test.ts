import { describe, expect, it } from 'vitest';
import { PyObject } from '../../src/formats/pickle/values.js';
import { readTorchFile } from '../../src/formats/torch/read.js';
import type { TorchTensor } from '../../src/formats/torch/tensor.js';
import { call, dict, int, type PicklePart, pickle, tuple, unicode } from '../helpers/pickle.js';
import { refusalOf } from '../helpers/refusal.js';
import { bytesSource } from '../helpers/source.js';
import { storage, tensor, torchZip } from '../helpers/torch.js';

/** A storage of 24 floats. */
const FLOATS = storage('FloatStorage', '0', 24);

function open(w: PicklePart, storages: Readonly<Record<string, Uint8Array>> = { 0: new Uint8Array(96) }) {
  const object = pickle('\x80\x02', dict({ w }), '.');
  return readTorchFile(bytesSource(torchZip({ object, storages }), 'a.pt'));
}

async function entry(w: PicklePart, storages?: Readonly<Record<string, Uint8Array>>): Promise<unknown> {
  return ((await open(w, storages)).value as Map<string, unknown>).get('w');
}

describe('a view', () => {
  it.each([
    ['one element too long', [25], [1], 0],
    ['one element too far', [24], [1], 1],
    ['with strides that lead outside', [2, 4], [24, 1], 0],
    ['with a stride of 2^53 - 1', [2], [Number.MAX_SAFE_INTEGER], 0],
    ['with an offset of 2^53 - 1', [1], [1], Number.MAX_SAFE_INTEGER],
    ['of which many strides add up', Array.from({ length: 64 }, () => 2), Array.from({ length: 64 }, () => 1), 0],
  ])('%s is refused', async (_, shape, stride, offset) => {
    const elements = shape.reduce((product, size) => product * size, 1);
    const code = elements > Number.MAX_SAFE_INTEGER ? 'tensor-size' : 'tensor-outside-storage';
    expect(await refusalOf(() => open(tensor(FLOATS, shape, stride, offset)))).toMatchObject({
      kind: 'bad-file',
      code,
      facts: { file: 'a.pt', storage: '0' },
    });
  });

  it('is refused with both numbers', async () => {
    const { message, facts } = await refusalOf(() => open(tensor(FLOATS, [4, 6], [7, 1])));
    expect(facts).toMatchObject({ expected: '108', found: 96 });
    expect(message).toContain('needs 108 bytes of it, but it has 96');
  });

  it.each([
    ['that fills its storage', [4, 6], [6, 1], 0],
    ['without elements at the end', [0], [1], 24],
    ['without elements beyond the end', [0, 4], [1, 1], 99],
    ['that is one element', [], [], 23],
    ['that is broadcast to 2^40 elements', [2 ** 40], [0], 0],
  ])('%s is taken', async (_, shape, stride, offset) => {
    expect(await entry(tensor(FLOATS, shape, stride, offset))).toMatchObject({ dtype: 'F32', shape, stride, offset });
  });

  it.each([
    ['a negative size', tensor(FLOATS, [-1], [1])],
    ['a negative stride', tensor(FLOATS, [2], [-1], 1)],
    ['a negative offset', tensor(FLOATS, [2], [1], -1)],
    ['a size of 2^53', tensor(FLOATS, [2n ** 53n], [1])],
    ['a size of 2^62, and none', tensor(FLOATS, [0, 2n ** 62n], [1, 1])],
    ['more sizes than strides', tensor(FLOATS, [2, 2], [1])],
    ['more strides than sizes', tensor(FLOATS, [2], [1, 1])],
    ['a size that is text', call('torch._utils', '_rebuild_tensor_v2', FLOATS, int(0), unicode('2'), 'K\x01\x85')],
    ['a fraction as size', call('torch._utils', '_rebuild_tensor', FLOATS, int(0), 'F1.5\n\x85', 'K\x01\x85')],
    ['no stride', call('torch._utils', '_rebuild_tensor', FLOATS, int(0), 'K\x01\x85')],
  ])('with %s is refused', async (_, w) => {
    expect(await refusalOf(() => open(w))).toMatchObject({ code: 'tensor-geometry' });
  });

  it.each([
    ['2^64', [2 ** 32, 2 ** 32], [0, 0]],
    ['2^53', [2 ** 53 / 4, 4], [0, 0]],
    ['2^64 but for a size of 0', [2 ** 32, 0, 2 ** 32], [0, 0, 0]],
  ])('of %s elements is refused', async (_, shape, stride) => {
    expect(await refusalOf(() => open(tensor(FLOATS, shape, stride)))).toMatchObject({ code: 'tensor-size' });
  });

  it('of 65 dimensions is refused, of 64 taken', async () => {
    const ones = (n: number) => Array.from({ length: n }, () => 1);
    expect(await refusalOf(() => open(tensor(FLOATS, ones(65), ones(65))))).toMatchObject({
      code: 'tensor-dimensions',
      facts: { limit: 64, found: 65 },
    });
    expect(await entry(tensor(FLOATS, ones(64), ones(64)))).toMatchObject({ shape: ones(64) });
  });

  it('keeps its shape when the pickle changes the list it was made of', async () => {
    const shape = pickle(']K\x02aq\x09');
    const made = call('torch._utils', '_rebuild_tensor', FLOATS, int(0), shape, 'K\x01\x85');
    expect(await entry(pickle(made, 'h\x09M\xe7\x03a0'))).toMatchObject({ shape: [2] });
  });
});

describe('lazy operations', () => {
  const withMetadata = (metadata: PicklePart) => tensor(FLOATS, [2], [1], 0, metadata);
  const complex = storage('ComplexFloatStorage', '0', 12);

  it.each([
    ['none', '}', undefined],
    ['none that is set', dict({ neg: '\x89', conj: '\x89' }), undefined],
    ['negation', dict({ neg: '\x88' }), 'neg'],
  ])('%s are kept', async (_, metadata, flip) => {
    expect(await entry(withMetadata(metadata))).toMatchObject({ flip });
  });

  it('conjugation is kept for complex numbers and refused for others', async () => {
    const conj = dict({ conj: '\x88' });
    expect(await entry(tensor(complex, [2], [1], 0, conj))).toMatchObject({ flip: 'conj' });
    expect(await entry(tensor(complex, [2], [1], 0, dict({ conj: '\x88', neg: '\x88' })))).toMatchObject({
      flip: 'neg-conj',
    });
    expect(await refusalOf(() => open(withMetadata(conj)))).toMatchObject({ code: 'tensor-flip' });
  });

  it.each([
    ['of another name', dict({ npu_format: int(2) })],
    ['that are no bools', dict({ neg: int(1) })],
    ['that are no dict', int(1)],
  ])('%s leave the tensor uninterpreted, with a warning', async (_, metadata) => {
    const file = await open(withMetadata(metadata));
    expect((file.value as Map<string, unknown>).get('w')).toBeInstanceOf(PyObject);
    expect(file.warnings).toMatchObject([{ code: 'tensor-metadata' }]);
  });
});

describe('what autograd keeps with a tensor', () => {
  const rebuilt = (flag: PicklePart, hooks: PicklePart) =>
    call('torch._utils', '_rebuild_tensor_v2', FLOATS, int(0), 'K\x02\x85', 'K\x01\x85', flag, hooks);

  it.each([
    ['a flag that is no bool', rebuilt('K\x01', '}')],
    ['hooks', rebuilt('\x89', dict({ a: 'N' }))],
  ])('is ignored with a warning where it is odd: %s', async (_, w) => {
    const file = await open(w);
    expect(file.warnings).toMatchObject([{ code: 'tensor-flags' }]);
    expect((file.value as Map<string, TorchTensor>).get('w')?.numel).toBe(2);
  });

  it('is ignored without a warning where it is plain', async () => {
    expect((await open(rebuilt('\x88', '}'))).warnings).toEqual([]);
  });
});

describe('a tensor that cannot be converted stays uninterpreted', () => {
  it.each([
    ['of a dtype that safetensors has not', storage('ComplexDoubleStorage', '0', 6), [2]],
    ['quantized', storage('QInt8Storage', '0', 96), [2]],
  ])('%s', async (_, of, shape) => {
    expect(await entry(tensor(of, shape, [1]))).toBeInstanceOf(PyObject);
  });

  it.each(['bits8', 'float4_e2m1fn_x2', 'complex128', 'nonsense'])('of the dtype %s', async (name) => {
    const untyped = storage('UntypedStorage', '0', 96);
    const args = [untyped, int(0), 'K\x01\x85', 'K\x01\x85', '\x89', '}', `ctorch\n${name}\n`] as const;
    expect(await entry(call('torch._utils', '_rebuild_tensor_v3', ...args))).toBeInstanceOf(PyObject);
  });

  it('of a function in place of a storage', async () => {
    expect(await entry(tensor(call('os', 'system', unicode('id')), [1], [1]))).toBeInstanceOf(PyObject);
  });

  it('wrapped in a class by a function that makes no tensor', async () => {
    const wrapped = call('torch._tensor', '_rebuild_from_type_v2', 'cos\nsystem\n', 'ctorch\nTensor\n', ')', '}');
    expect(await entry(wrapped)).toBeInstanceOf(PyObject);
    const parameter = call('torch._utils', '_rebuild_parameter', 'N', '\x88', '}');
    expect(await entry(parameter)).toBeInstanceOf(PyObject);
  });
});

it('a warning for every tensor is cut short', async () => {
  const subclass = (i: number) => {
    const args = tuple(FLOATS, int(0), 'K\x01\x85', 'K\x01\x85', '\x89', '}');
    const rebuild = 'ctorch._utils\n_rebuild_tensor_v2\n';
    return call('torch._tensor', '_rebuild_from_type_v2', rebuild, `c__main__\nC${i}\n`, args, '}');
  };
  const { warnings } = await open(tuple(...Array.from({ length: 60 }, (_, i) => subclass(i))));
  expect(warnings).toHaveLength(50);
  expect(warnings[48]?.message).toContain('__main__.C48');
  expect(warnings[49]?.code).toBe('torch-more-warnings');
});

describe('a storage', () => {
  it.each([
    ['one element short', 92],
    ['one byte short', 95],
    ['one byte long', 97],
    ['twice as long', 192],
    ['empty', 0],
  ])('whose record is %s is refused', async (_, length) => {
    const w = tensor(FLOATS, [1], [1]);
    expect(await refusalOf(() => open(w, { 0: new Uint8Array(length) }))).toMatchObject({
      code: 'torch-storage-size',
      facts: { storage: '0', expected: 96, found: length },
    });
  });

  it('that counts elements where its class counts bytes is refused', async () => {
    const untyped = tensor(storage('UntypedStorage', '0', 24), [1], [1]);
    expect(await refusalOf(() => open(untyped))).toMatchObject({ code: 'torch-storage-size', facts: { expected: 24 } });
  });

  it.each([
    ['another number of elements', storage('FloatStorage', '0', 23)],
    ['another class of the same size', storage('IntStorage', '0', 24)],
    ['bytes', storage('UntypedStorage', '0', 96)],
  ])('that is declared again with %s is refused', async (_, other) => {
    const both = tuple(tensor(FLOATS, [1], [1]), tensor(other, [1], [1]));
    expect(await refusalOf(() => open(both))).toMatchObject({ code: 'torch-storage-conflict', facts: { key: '0' } });
  });

  it('that is declared again in the same way is the same', async () => {
    const [a, b] = (await entry(tuple(tensor(FLOATS, [1], [1]), tensor(FLOATS, [2], [1])))) as TorchTensor[];
    expect(a?.storage).toBe(b?.storage);
  });

  it.each(['../data.pkl', '0/../1', '', 'x', '-1', '0 ', '1e3', '٣'])('of the key %j is refused', async (key) => {
    expect(await refusalOf(() => open(tensor(storage('FloatStorage', key, 1), [1], [1])))).toMatchObject({
      code: 'torch-storage-key',
    });
  });

  it.each([
    ['a negative number of elements', storage('FloatStorage', '0', -1)],
    ['2^53 - 1 elements of 4 bytes', storage('FloatStorage', '0', Number.MAX_SAFE_INTEGER)],
  ])('of %s is refused', async (_, of) => {
    expect(await refusalOf(() => open(tensor(of, [1], [1])))).toMatchObject({ code: 'torch-storage-numel' });
  });

  it.each(['EvilStorage', 'system', '__proto__', 'constructor'])('of the class %s is refused', async (name) => {
    expect(await refusalOf(() => open(tensor(storage(name, '0', 24), [1], [1])))).toMatchObject({
      kind: 'unsupported',
      code: 'torch-storage-class',
      facts: { found: `torch.${name}` },
    });
  });

  it.each([
    ['another tag', tuple(unicode('module'), 'c__main__\nNet\n', unicode('a'), unicode('b'))],
    ['too few items', tuple(unicode('storage'), 'ctorch\nFloatStorage\n', unicode('0'), unicode('cpu'))],
    [
      'a part of a storage',
      tuple(unicode('storage'), 'ctorch\nFloatStorage\n', unicode('0'), unicode('cpu'), 'K\x18', 'N'),
    ],
    ['a class that is text', tuple(unicode('storage'), unicode('FloatStorage'), unicode('0'), unicode('cpu'), 'K\x18')],
    ['no tuple', unicode('0')],
  ])('under an id with %s is refused', async (_, id) => {
    expect(await refusalOf(() => open(pickle(id, 'Q')))).toMatchObject({ code: 'torch-persistent-id' });
  });
});
