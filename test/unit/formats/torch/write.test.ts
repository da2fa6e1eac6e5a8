import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { crc32 } from '../../../../src/base/crc32.js';
import type { DType } from '../../../../src/base/dtype.js';
import { locateStorages, readTorchFile } from '../../../../src/formats/torch/read.js';
import { TorchTensor } from '../../../../src/formats/torch/tensor.js';
import { layoutTorchFile, type StorageToWrite, type TensorToWrite } from '../../../../src/formats/torch/write.js';
import { emitZipTail } from '../../../../src/formats/zip/write.js';
import { bytesSource } from '../../../helpers/source.js';

/** What `model` of vectors/make.py saves. */
const TENSORS: readonly TensorToWrite[] = [
  { name: 'embed.weight', dtype: 'F32', shape: [2, 3], storage: 0 },
  { name: 'layer.bias', dtype: 'BF16', shape: [3], storage: 1 },
  { name: 'layer.scale', dtype: 'F8_E4M3', shape: [5], storage: 2 },
  { name: 'layer.index', dtype: 'U16', shape: [], storage: 3 },
  { name: 'layer.empty', dtype: 'F32', shape: [0, 4], storage: 4 },
  { name: 'layer.wide', dtype: 'U8', shape: [300], storage: 5 },
  { name: 'head.weight', dtype: 'F32', shape: [2, 3], storage: 0 },
  ...Array.from({ length: 12 }, (_, i): TensorToWrite => {
    return { name: `step.${i}`, dtype: 'I64', shape: [], storage: 6 + i };
  }),
  { name: 'größe.😀', dtype: 'F16', shape: [], storage: 18 },
];

const STORAGES: readonly StorageToWrite[] = [
  { dtype: 'F32', byteLength: 24 },
  { dtype: 'BF16', byteLength: 6 },
  { dtype: 'F8_E4M3', byteLength: 5 },
  { dtype: 'U16', byteLength: 2 },
  { dtype: 'F32', byteLength: 0 },
  { dtype: 'U8', byteLength: 300 },
  ...Array.from({ length: 12 }, (): StorageToWrite => ({ dtype: 'I64', byteLength: 8 })),
  { dtype: 'F16', byteLength: 2 },
];

/** Bytes of the storages, as `model` fills them. */
function storageBytes(index: number): Uint8Array {
  if (index === 0) return new Uint8Array(Float32Array.of(0, 1, 2, 3, 4, 5).buffer);
  if (index === 3) return new Uint8Array(Uint16Array.of(300).buffer);
  if (index >= 6 && index < 18) return new Uint8Array(BigInt64Array.of(BigInt(index - 6)).buffer);
  return new Uint8Array(STORAGES[index]?.byteLength ?? 0);
}

/** Writes a whole file. */
function write(
  tensors: readonly TensorToWrite[],
  storages: readonly StorageToWrite[],
  bytesOf: (index: number) => Uint8Array,
): Uint8Array {
  const layout = layoutTorchFile(tensors, storages, 'model');
  const file = new Uint8Array(layout.byteLength);
  for (const { at, bytes } of layout.literals) file.set(bytes, at);
  const crcs = new Map<number, number>();
  for (const [index, offset] of layout.storages.entries()) {
    file.set(bytesOf(index), offset);
    crcs.set(offset, crc32(bytesOf(index)));
  }
  const records = layout.records.map((record) => ({ ...record, crc32: record.crc32 ?? crcs.get(record.at) ?? 0 }));
  for (const { at, bytes } of emitZipTail(records)) file.set(bytes, at);
  return file;
}

describe('layoutTorchFile', () => {
  it('gives the bytes of torch.save, up to the record that hashes them', () => {
    const saved = readFileSync(new URL('vectors/model.bin', import.meta.url));
    const written = Buffer.from(write(TENSORS, STORAGES, storageBytes));
    const id = saved.indexOf('model/.data/serialization_id') - 30;
    expect(written.subarray(0, id).toString('hex')).toBe(saved.subarray(0, id).toString('hex'));
    expect(written.includes('serialization_id')).toBe(false);
  });

  it('gives a file that reads back the same', async () => {
    const source = bytesSource(write(TENSORS, STORAGES, storageBytes), 'model.bin');
    const file = await readTorchFile(source);
    expect(file).toMatchObject({ rootName: 'model', warnings: [], uninterpreted: 0 });
    expect([...file.globals.keys()]).toEqual([
      'collections.OrderedDict',
      'torch._utils._rebuild_tensor_v2',
      'torch.FloatStorage',
      'torch.BFloat16Storage',
      'torch._utils._rebuild_tensor_v3',
      'torch.storage.UntypedStorage',
      'torch.float8_e4m3fn',
      'torch.uint16',
      'torch.ByteStorage',
      'torch.LongStorage',
      'torch.HalfStorage',
    ]);
    const state = file.value as Map<string, TorchTensor>;
    expect([...state].map(([name, { dtype, shape }]) => ({ name, dtype, shape }))).toEqual(
      TENSORS.map(({ name, dtype, shape }) => ({ name, dtype, shape })),
    );
    expect(state.get('head.weight')?.storage).toBe(state.get('embed.weight')?.storage);
    const records = await locateStorages(
      file,
      [...state.values()].map(({ storage }) => storage),
    );
    expect([...records.values()].every(({ offset }) => offset % 64 === 0)).toBe(true);
  });

  it('numbers storages in the order in which tensors use them', () => {
    const storages: StorageToWrite[] = [
      { dtype: 'F32', byteLength: 4 },
      { dtype: 'F32', byteLength: 8 },
    ];
    const tensors: TensorToWrite[] = [
      { name: 'second', dtype: 'F32', shape: [2], storage: 1 },
      { name: 'first', dtype: 'F32', shape: [1], storage: 0 },
    ];
    const { records, storages: offsets } = layoutTorchFile(tensors, storages, 'model');
    const lengths = records.filter(({ name }) => /data\/\d/.test(name)).map(({ name, length }) => [name, length]);
    expect(lengths).toEqual([
      ['model/data/0', 8],
      ['model/data/1', 4],
    ]);
    expect(offsets.map((offset) => records.find(({ at }) => at === offset)?.name)).toEqual([
      'model/data/1',
      'model/data/0',
    ]);
  });

  it.each([
    ['F32', [0], 0],
    ['F8_E5M2', [], 1],
    ['C64', [2, 2], 32],
    ['BOOL', [3], 3],
    ['U64', [1], 8],
  ] as const)('writes %s of shape %j', async (dtype: DType, shape, byteLength) => {
    const file = write(
      [{ name: 'w', dtype, shape, storage: 0 }],
      [{ dtype, byteLength }],
      () => new Uint8Array(byteLength),
    );
    const { value } = await readTorchFile(bytesSource(file));
    const tensor = (value as Map<string, unknown>).get('w');
    expect(tensor).toBeInstanceOf(TorchTensor);
    expect(tensor).toMatchObject({ dtype, shape, offset: 0, storage: { byteLength } });
  });

  it('knows every CRC that does not depend on tensor bytes', () => {
    const { records } = layoutTorchFile(TENSORS, STORAGES, 'model');
    const open = records.filter((record) => record.crc32 === undefined).map(({ name }) => name);
    expect(open).toEqual(STORAGES.flatMap(({ byteLength }, i) => (byteLength > 0 ? [`model/data/${i}`] : [])));
  });

  it('refuses tensors that do not fill their storage, and storages without a tensor', () => {
    const tensor: TensorToWrite = { name: 'w', dtype: 'F32', shape: [2], storage: 0 };
    expect(() => layoutTorchFile([tensor], [{ dtype: 'F32', byteLength: 12 }], 'm')).toThrow('does not fill');
    expect(() => layoutTorchFile([tensor], [{ dtype: 'I32', byteLength: 8 }], 'm')).toThrow('does not fill');
    const storages: StorageToWrite[] = [
      { dtype: 'F32', byteLength: 8 },
      { dtype: 'F32', byteLength: 8 },
    ];
    expect(() => layoutTorchFile([tensor], storages, 'm')).toThrow('2 storages, of which tensors use 1');
    expect(() => layoutTorchFile([tensor, tensor], storages.slice(1), 'm')).toThrow('the same name');
  });
});
