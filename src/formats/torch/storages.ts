/**
 * The storages that a pickle of torch refers to. It names each by a persistent id: class, key, device, and number of
 * elements.
 *
 * @module
 */

import { bytesOf, DTYPES, type DType, isDType } from '../../base/dtype.js';
import { counted } from '../../base/words.js';
import { PyExtension, PyGlobal, PyObject, type PyValue } from '../pickle/values.js';
import { badTorch, unsupportedTorch } from './fault.js';
import { TorchStorage } from './tensor.js';

/** What a storage class says about its elements. */
interface StorageClass {
  readonly bytes: number;
  readonly dtype?: DType;
}

/** Storage classes by name. Elements of an untyped storage are bytes. */
const CLASSES: ReadonlyMap<string, StorageClass> = new Map<string, StorageClass>([
  ...Object.entries(DTYPES).flatMap(([dtype, { storage }]) =>
    storage !== undefined && isDType(dtype) ? [[storage, { bytes: bytesOf(dtype), dtype }] as const] : [],
  ),
  ['UntypedStorage', { bytes: 1, dtype: 'U8' }],
  ['_UntypedStorage', { bytes: 1, dtype: 'U8' }],
  // These are never converted, but their size tells where the next storage of a legacy file starts.
  ['ComplexDoubleStorage', { bytes: 16 }],
  ['QInt8Storage', { bytes: 1 }],
  ['QUInt8Storage', { bytes: 1 }],
  ['QInt32Storage', { bytes: 4 }],
  ['QUInt4x2Storage', { bytes: 1 }],
  ['QUInt2x4Storage', { bytes: 1 }],
]);

/** Modules that storage classes come from. */
const MODULES = new Set(['torch', 'torch.storage', 'torch.cuda']);

/** A part of a storage, as files of torch 0.x have them: `byteLength` bytes from byte `start` on. */
export class StorageView extends PyExtension {
  constructor(
    readonly storage: TorchStorage,
    readonly start: number,
    readonly byteLength: number,
  ) {
    super();
  }
}

/** A storage and how the pickle declares it. */
export interface DeclaredStorage {
  readonly storage: TorchStorage;
  readonly className: string;
  readonly numel: number;
}

/** The storages that were met so far. */
export interface StorageTable {
  /** By key. */
  readonly declared: ReadonlyMap<string, DeclaredStorage>;
  /** Makes the storage of a persistent id, or finds it. */
  readonly load: (id: PyValue) => PyValue;
}

/** An empty table for one pickle. Only the legacy container has views of storages and modules. */
export function newStorageTable(file: string, container: 'zip' | 'legacy'): StorageTable {
  const declared = new Map<string, DeclaredStorage>();
  const load = (id: PyValue): PyValue => {
    const parts = Array.isArray(id) ? id : [];
    if (container === 'legacy' && parts[0] === 'module' && parts[1] instanceof PyGlobal) return parts[1];
    const [tag, type, key, location, numel, view = null] = parts;
    const lengths = container === 'zip' ? [5] : [5, 6];
    if (tag !== 'storage' || !(type instanceof PyGlobal) || !lengths.includes(parts.length)) {
      throw badTorch(file, 'torch-persistent-id', 'its pickle refers to something that is no storage');
    }
    if (location === 'meta') return new PyObject(type, parts);
    const storage = declare(file, declared, type, key, numel, location);
    return view === null ? storage.storage : viewOf(file, storage, view);
  };
  return { declared, load };
}

function declare(
  file: string,
  declared: Map<string, DeclaredStorage>,
  type: PyGlobal,
  rawKey: PyValue | undefined,
  numel: PyValue | undefined,
  location: PyValue | undefined,
): DeclaredStorage {
  const info = MODULES.has(type.module) ? CLASSES.get(type.name) : undefined;
  if (!info) {
    throw unsupportedTorch(file, 'torch-storage-class', `it has a storage of the unknown class ${type.path}`, {
      found: type.path,
    });
  }
  const key = typeof rawKey === 'number' ? String(rawKey) : rawKey;
  if (typeof key !== 'string' || !/^\d+$/.test(key)) {
    const found = typeof key === 'string' ? JSON.stringify(key.slice(0, 80)) : typeof key;
    throw badTorch(file, 'torch-storage-key', `it has a storage whose key is no number: ${found}`, { found });
  }
  if (!isCount(numel) || !Number.isSafeInteger(numel * info.bytes)) {
    const found = String(numel).slice(0, 80);
    throw badTorch(file, 'torch-storage-numel', `storage ${key} cannot have ${found} elements`, { key, found });
  }
  const known = declared.get(key);
  if (!known) {
    const storage = new TorchStorage(key, numel * info.bytes, info.dtype, file, String(location));
    const entry = { storage, className: type.name, numel };
    declared.set(key, entry);
    return entry;
  }
  if (known.className !== type.name || known.numel !== numel) {
    const expected = `${known.className} of ${known.numel}`;
    const found = `${type.name} of ${numel}`;
    throw badTorch(
      file,
      'torch-storage-conflict',
      `storage ${key} is a ${expected} in one place, a ${found} in another`,
      {
        key,
        expected,
        found,
      },
    );
  }
  return known;
}

function viewOf(file: string, { storage, numel }: DeclaredStorage, view: PyValue): StorageView {
  const [, offset, size] = Array.isArray(view) ? view : [];
  if (!isCount(offset) || !isCount(size) || offset + size > numel) {
    const { key } = storage;
    throw badTorch(file, 'legacy-view', `a part of storage ${key} does not lie in its ${counted(numel, 'element')}`, {
      key,
      expected: numel,
      found: isCount(offset) && isCount(size) ? offset + size : 'no numbers',
    });
  }
  const itemBytes = numel === 0 ? 0 : storage.byteLength / numel;
  return new StorageView(storage, offset * itemBytes, size * itemBytes);
}

/** True for a whole number of 0 or more that is exact. */
export function isCount(value: PyValue | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
