/**
 * Lays out a `pytorch_model.bin`: the pickle and the records of a zip file as `torch.save` writes an `OrderedDict` of
 * tensors. The tensor bytes themselves are not needed.
 *
 * @module
 */

import { crc32 } from '../../base/crc32.js';
import { bytesOf, DTYPES, type DType } from '../../base/dtype.js';
import { assert } from '../../base/errors.js';
import { numelOf } from '../../base/shape.js';
import { type Emittable, emitPickle, type PyCall } from '../pickle/emit.js';
import { PyGlobal } from '../pickle/values.js';
import type { PlannedZipRecord } from '../zip/layout.js';
import { layoutZip, type PlacedBytes } from '../zip/write.js';

/** A tensor to write: contiguous, and from the first byte of its storage. */
export interface TensorToWrite {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** Index of its storage. Tied tensors name the same one. */
  readonly storage: number;
}

/** A storage to write: the bytes of a tensor, or of several tied ones. */
export interface StorageToWrite {
  readonly dtype: DType;
  readonly byteLength: number;
}

/** A file before the bytes of its storages. */
export interface TorchFileLayout {
  /** Size of the finished file. */
  readonly byteLength: number;
  /** What `emitZipTail` needs once the CRC-32 of every storage is known. */
  readonly records: readonly PlannedZipRecord[];
  /** Every byte of the file but the storages and what `emitZipTail` gives. */
  readonly literals: readonly PlacedBytes[];
  /** Offset of each storage. */
  readonly storages: readonly number[];
}

/** A record of the zip file: its data, or the index of the storage that is the data. */
interface TorchRecord {
  readonly name: string;
  readonly data: Uint8Array<ArrayBuffer> | number;
}

const REBUILD_TYPED = new PyGlobal('torch._utils', '_rebuild_tensor_v2');
const REBUILD_UNTYPED = new PyGlobal('torch._utils', '_rebuild_tensor_v3');

/**
 * Lays out a file. Every storage is used by at least one tensor; `rootName` is the file's name without its extension,
 * as `torch.save` takes it.
 */
export function layoutTorchFile(
  tensors: readonly TensorToWrite[],
  storages: readonly StorageToWrite[],
  rootName: string,
): TorchFileLayout {
  const records = torchRecords(tensors, storages);
  const zip = layoutZip(
    records.map(({ name, data }) => {
      const length = typeof data === 'number' ? at(storages, data).byteLength : data.length;
      // The bytes of a storage come later, unless there are none.
      const crc = typeof data === 'number' ? (length === 0 ? 0 : undefined) : crc32(data);
      return { name: `${rootName}/${name}`, length, ...(crc === undefined ? {} : { crc32: crc }) };
    }),
  );
  const literals: PlacedBytes[] = [...zip.headers];
  const offsets = new Array<number>(storages.length);
  for (const [i, { data }] of records.entries()) {
    const offset = at(zip.records, i).at;
    if (typeof data === 'number') offsets[data] = offset;
    else literals.push({ at: offset, bytes: data });
  }
  return { byteLength: zip.byteLength, records: zip.records, literals, storages: offsets };
}

/**
 * The records in torch's order, without its last one: `.data/serialization_id` is a digest of all tensor bytes, which are
 * not known before they are written. torch reads files without it, and an id that says nothing would mislead.
 */
function torchRecords(tensors: readonly TensorToWrite[], storages: readonly StorageToWrite[]): TorchRecord[] {
  const keys = storageKeys(tensors, storages);
  const state = new Map(tensors.map((tensor) => [tensor.name, tensorCall(tensor, storages, keys)]));
  assert(state.size === tensors.length, 'two tensors of one file have the same name');
  return [
    { name: 'data.pkl', data: emitPickle(state) },
    { name: '.format_version', data: ascii('1') },
    { name: '.storage_alignment', data: ascii('64') },
    { name: 'byteorder', data: ascii('little') },
    ...[...keys].map(([storage, key]) => ({ name: `data/${key}`, data: storage })),
    { name: 'version', data: ascii('3\n') },
  ];
}

/** torch numbers storages in the order in which it meets them. */
function storageKeys(
  tensors: readonly TensorToWrite[],
  storages: readonly StorageToWrite[],
): ReadonlyMap<number, string> {
  const keys = new Map<number, string>();
  for (const { storage } of tensors) if (!keys.has(storage)) keys.set(storage, String(keys.size));
  assert(keys.size === storages.length, `${storages.length} storages, of which tensors use ${keys.size}`);
  return keys;
}

function tensorCall(
  { name, dtype, shape, storage }: TensorToWrite,
  storages: readonly StorageToWrite[],
  keys: ReadonlyMap<number, string>,
): PyCall {
  const { dtype: stored, byteLength } = at(storages, storage);
  const numel = numelOf(shape);
  assert(stored === dtype && numel * bytesOf(dtype) === byteLength, `${name} does not fill its storage`);
  const { storage: storageClass, torch } = DTYPES[dtype];
  const typed = storageClass !== undefined;
  const type = typed ? new PyGlobal('torch', storageClass) : new PyGlobal('torch.storage', 'UntypedStorage');
  const elements = typed ? numel : byteLength;
  const persistentId = ['storage', type, keys.get(storage) ?? '', 'cpu', elements];
  const requiresGrad = false;
  const hooks = new Map<string, Emittable>();
  const args = [{ persistentId }, 0, shape, contiguousStride(shape), requiresGrad, hooks];
  return typed
    ? { callable: REBUILD_TYPED, args }
    : { callable: REBUILD_UNTYPED, args: [...args, new PyGlobal('torch', torch)] };
}

/** Row-major strides in elements; a dimension of size 0 counts as 1, as in torch. */
function contiguousStride(shape: readonly number[]): number[] {
  const stride: number[] = [];
  let step = 1;
  for (const size of shape.toReversed()) {
    stride.unshift(step);
    step *= Math.max(size, 1);
  }
  return stride;
}

function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  assert(item !== undefined, `there is no item ${index} of ${items.length}`);
  return item;
}

function ascii(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
