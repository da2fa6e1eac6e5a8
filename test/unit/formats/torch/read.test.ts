import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DTYPES } from '../../../../src/base/dtype.js';
import { PyGlobal, PyObject, type PyValue } from '../../../../src/formats/pickle/values.js';
import { tensorExtents } from '../../../../src/formats/torch/extents.js';
import { locateStorages, readTorchFile, type TorchFile } from '../../../../src/formats/torch/read.js';
import { TorchTensor } from '../../../../src/formats/torch/tensor.js';
import { dict, int, pickle, tuple, unicode } from '../../../helpers/pickle.js';
import { bytesSource } from '../../../helpers/source.js';
import { gather, legacyFile, storage, tensor, torchZip } from '../../../helpers/torch.js';

/** What torch says of a tensor. `hex` is its elements in row-major order, before what `flip` asks for. */
interface Expected {
  readonly dtype: string;
  readonly shape: number[];
  readonly stride: number[];
  readonly offset: number;
  readonly storage: number;
  readonly flip: string;
  readonly hex: string;
}

const VECTORS = new URL('vectors/', import.meta.url);
const EXPECTED: Record<string, Record<string, Expected>> = JSON.parse(
  readFileSync(new URL('expected.json', VECTORS), 'utf8'),
);

function vector(name: string): Uint8Array {
  return new Uint8Array(readFileSync(new URL(name, VECTORS)));
}

function open(name: string): Promise<TorchFile> {
  return readTorchFile(bytesSource(vector(name), name));
}

function entries(file: TorchFile): ReadonlyMap<PyValue, PyValue> {
  if (file.value instanceof Map) return file.value;
  throw new Error('the object is no dict');
}

function tensorAt(file: TorchFile, name: string): TorchTensor {
  const value = entries(file).get(name);
  if (value instanceof TorchTensor) return value;
  throw new Error(`${name} is no tensor`);
}

describe('readTorchFile reads what torch saves', () => {
  it.each(Object.entries(EXPECTED))('%s', async (name, expected) => {
    const bytes = vector(name);
    const file = await readTorchFile(bytesSource(bytes, name));
    const tensors = [...entries(file)].flatMap(([key, value]) =>
      value instanceof TorchTensor ? [[String(key), value] as const] : [],
    );
    const records = await locateStorages(
      file,
      tensors.map(([, { storage: of }]) => of),
    );
    const found = tensors.map(([key, value]) => {
      const record = records.get(value.storage);
      if (!record) throw new Error(`${key} was not located`);
      const described: Expected = {
        dtype: DTYPES[value.dtype].torch,
        shape: [...value.shape],
        stride: [...value.stride],
        offset: value.offset,
        storage: record.length,
        flip: value.flip ?? '',
        hex: Buffer.from(gather(bytes, tensorExtents(value, record, 0))).toString('hex'),
      };
      return [key, described] as const;
    });
    expect(Object.fromEntries(found)).toEqual(expected);
    expect(found.map(([key]) => key)).toEqual(Object.keys(expected));
  });

  it('says how a file was saved', async () => {
    const zip = await open('shared.pt');
    expect(zip).toMatchObject({ container: 'zip', rootName: 'shared', warnings: [] });
    expect(zip.serializationId).toMatch(/^\d{40}$/);
    const legacy = await open('legacy.pt');
    expect(legacy).toMatchObject({ container: 'legacy', warnings: [] });
    expect([legacy.rootName, legacy.serializationId]).toEqual([undefined, undefined]);
  });

  it('gives tied tensors the same storage, and others their own', async () => {
    for (const name of ['shared.pt', 'legacy-protocol4.pt']) {
      const file = await open(name);
      const embed = tensorAt(file, 'embed');
      expect(tensorAt(file, 'head').storage).toBe(embed.storage);
      expect(tensorAt(file, 'part').storage).toBe(embed.storage);
    }
    const file = await open('wrappers.pt');
    expect(tensorAt(file, 'parameter').storage).not.toBe(tensorAt(file, 'buffer').storage);
  });

  it('reads a state dict that carries metadata of its modules', async () => {
    expect([...entries(await open('module.pt')).keys()]).toEqual([
      '0.weight',
      '0.bias',
      '1.weight',
      '1.bias',
      '1.running_mean',
      '1.running_var',
      '1.num_batches_tracked',
    ]);
  });

  it('takes a subclass for a plain tensor, with a warning, and parameters and buffers without', async () => {
    const { warnings } = await open('wrappers.pt');
    expect(warnings).toEqual([
      { code: 'tensor-subclass', message: 'Tensors of the class __main__.Subclass are taken as plain tensors.' },
    ]);
  });

  it('leaves tensors uninterpreted that safetensors cannot hold', async () => {
    const file = await open('opaque.pt');
    const kinds = [...entries(file)].map(([key, value]) => [
      key,
      value instanceof PyObject ? value.type.name : 'tensor',
    ]);
    expect(Object.fromEntries(kinds)).toEqual({
      quantized: '_rebuild_qtensor',
      sparse: '_rebuild_sparse_tensor',
      meta: '_rebuild_meta_tensor_no_storage',
      complex128: '_rebuild_tensor_v2',
      plain: 'tensor',
    });
    expect(file.uninterpreted).toBe(4);
  });

  it.each(['objects.pt', 'objects-protocol4.pt', 'objects-protocol5.pt'])(
    'reads what training scripts keep beside their weights: %s',
    async (name) => {
      const file = await open(name);
      const values = Object.fromEntries(entries(file));
      expect(values).toMatchObject({
        namespace: { type: { path: 'argparse.Namespace' }, state: new Map([['lr', 0.1]]) },
        numpy_state: 'MT19937',
        datetime: { type: { path: 'datetime.datetime' } },
        path: { type: { path: 'pathlib.PurePosixPath' } },
        set: new Set([1, 2]),
        frozenset: new Set([3]),
        bytes: Uint8Array.of(0, 255),
        bytearray: Uint8Array.of(97, 98),
        big: 2n ** 70n,
        negative: -(2 ** 31) - 1,
        float: 0.1,
        none: null,
        counter: new Map([
          ['a', 2],
          ['b', 1],
        ]),
        defaultdict: new Map([['a', [1]]]),
        size: [2, 3],
        dtype: new PyGlobal('torch', 'bfloat16'),
        device: 'cuda:1',
        layout: new PyGlobal('torch', 'strided'),
        optimizer: new PyGlobal('torch.optim.sgd', 'SGD'),
      });
      // The namespace, the date, the path, the array and the scalar, each of these two with its dtype.
      expect(file.uninterpreted).toBe(7);
      expect(file.globals.get('argparse.Namespace')).toEqual(new PyGlobal('argparse', 'Namespace'));
    },
  );
});

describe('readTorchFile accepts', () => {
  const object = (of: Uint8Array) => pickle('\x80\x02', dict({ w: of }), '.');
  const two = Uint8Array.of(0, 0, 128, 63, 0, 0, 0, 64);
  const weight = tensor(storage('FloatStorage', '0', 2), [2], [1]);

  it.each([
    ['a file of torch 1.6, without byte order and id', { version: '3\n' }],
    ['a file with its version in .data', { '.data/version': '10', byteorder: 'little' }],
    ['a file without the records of torch 2.9', { version: '1' }],
  ])('%s', async (_, records) => {
    const file = await readTorchFile(bytesSource(torchZip({ object: object(weight), storages: { 0: two }, records })));
    expect(tensorAt(file, 'w').shape).toEqual([2]);
    expect(file.serializationId).toBeUndefined();
  });

  it.each([
    ['_rebuild_tensor of torch 0.x', '_rebuild_tensor', []],
    ['_rebuild_tensor_v3 with a dtype', '_rebuild_tensor_v3', ['\x89', '}', 'ctorch\nfloat32\n']],
  ] as const)('%s', async (_, name, more) => {
    const of = storage(name.endsWith('v3') ? 'UntypedStorage' : 'FloatStorage', '0', name.endsWith('v3') ? 8 : 2);
    const bytes = pickle(`ctorch._utils\n${name}\n`, tuple(of, int(1), 'K\x01\x85', 'K\x01\x85', ...more), 'R');
    const file = await readTorchFile(bytesSource(torchZip({ object: object(bytes), storages: { 0: two } })));
    expect(tensorAt(file, 'w')).toMatchObject({ dtype: 'F32', shape: [1], offset: 1 });
  });

  it('an integer as the key of a storage', async () => {
    const of = tensor(storage('FloatStorage', int(0), 2), [2], [1]);
    const file = await readTorchFile(bytesSource(torchZip({ object: object(of), storages: { 0: two } })));
    expect(tensorAt(file, 'w').storage.key).toBe('0');
  });

  it.each(['cuda:0', 'cuda:1', 'npu:0', 'mps', 'xpu:3', 'nowhere'])('a storage on %s', async (location) => {
    const id = pickle(
      tuple(unicode('storage'), 'ctorch\nFloatStorage\n', unicode('0'), unicode(location), int(2)),
      'Q',
    );
    const bytes = torchZip({ object: object(tensor(id, [2], [1])), storages: { 0: two } });
    expect(tensorAt(await readTorchFile(bytesSource(bytes)), 'w').numel).toBe(2);
  });

  it('a storage on meta, which has no bytes, as an uninterpreted tensor', async () => {
    const id = pickle(tuple(unicode('storage'), 'ctorch\nFloatStorage\n', unicode('0'), unicode('meta'), int(2)), 'Q');
    const file = await readTorchFile(bytesSource(torchZip({ object: object(tensor(id, [2], [1])) })));
    expect(entries(file).get('w')).toBeInstanceOf(PyObject);
  });

  it('a class in place of a module source, and a part of a storage, in a legacy file', async () => {
    const module = pickle(tuple(unicode('module'), 'c__main__\nNet\n', unicode('net.py'), unicode('…')), 'Q');
    const part = storage('FloatStorage', '7', 3, tuple(unicode('8'), int(1), int(2)));
    const bytes = legacyFile({
      object: pickle('\x80\x02', dict({ net: module, w: tensor(part, [1], [1], 1) }), '.'),
      keys: ['7'],
      storages: [[3, new Uint8Array(12)]],
    });
    const file = await readTorchFile(bytesSource(bytes));
    expect(entries(file).get('net')).toEqual(new PyGlobal('__main__', 'Net'));
    expect(tensorAt(file, 'w')).toMatchObject({ offset: 2, storage: { key: '7', byteLength: 12 } });
  });
});

describe('what is read of a file', () => {
  const floats = (n: number) => new Uint8Array(n * 4).fill(1);
  const many = Array.from({ length: 50 }, (_, i) => String(i));
  const object = pickle(
    '\x80\x02',
    dict(Object.fromEntries(many.map((key) => [key, tensor(storage('FloatStorage', key, 5000), [5000], [1])]))),
    '.',
  );

  it('of a zip file: not the storages, and for one storage only what lies around it', async () => {
    const storages = Object.fromEntries(many.map((key) => [key, floats(5000)]));
    const source = bytesSource(torchZip({ object, storages }));
    const file = await readTorchFile(source);
    const opened = source.reads.reduce((sum, { length }) => sum + length, 0);
    expect(source.size).toBeGreaterThan(1_000_000);
    expect(opened).toBeLessThan(object.length + 80_000);
    const { storage: seventh } = tensorAt(file, '7');
    const record = (await locateStorages(file, [seventh, seventh])).get(seventh);
    expect(source.reads.reduce((sum, { length }) => sum + length, 0) - opened).toBeLessThan(1000);
    expect(record).toMatchObject({ length: 20_000, crc32: expect.any(Number) });
  });

  it('of a legacy file: the pickles, in growing slices where they are long, and one header per storage', async () => {
    const long = unicode('x'.repeat(3_000_000));
    const bytes = legacyFile({
      object: pickle('\x80\x02', dict({ long, w: tensor(storage('FloatStorage', '5', 5e5), [5e5], [1]) }), '.'),
      keys: ['5'],
      storages: [[5e5, floats(5e5)]],
    });
    const source = bytesSource(bytes);
    const file = await readTorchFile(source);
    const { storage: only } = tensorAt(file, 'w');
    expect(source.reads.map(({ length }) => length)).toEqual([512, 2 ** 20, 2 ** 22]);
    const record = (await locateStorages(file, [only])).get(only);
    expect(source.reads.slice(3)).toMatchObject([{ length: 8 }]);
    expect(record).toEqual({ offset: source.size - 2e6, length: 2e6 });
  });

  it('with the signal of its caller, to the last read', async () => {
    const { signal } = new AbortController();
    for (const name of ['shared.pt', 'legacy.pt']) {
      const source = bytesSource(vector(name), name);
      const file = await readTorchFile(source, signal);
      const storages = [...entries(file).values()].flatMap((value) =>
        value instanceof TorchTensor ? [value.storage] : [],
      );
      await locateStorages(file, storages, signal);
      expect(source.reads.every((read) => read.signal === signal)).toBe(true);
    }
  });
});
