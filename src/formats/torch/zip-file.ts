/**
 * The zip container of torch files: which records there are, and what they must say.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { crc32 } from '../../base/crc32.js';
import { counted } from '../../base/words.js';
import type { ByteSource } from '../../io/types.js';
import { MAX_PICKLE_BYTES } from '../pickle/limits.js';
import { unpickle } from '../pickle/read.js';
import { locateEntries, readEntry, readZip, type ZipArchive } from '../zip/read.js';
import { badTorch, unsupportedTorch } from './fault.js';
import { noticeList, type ZipTorchFile } from './file.js';
import type { KnownObjects, Looked, Parsed, TorchObject } from './objects.js';
import { torchReducers } from './rebuild.js';
import { type DeclaredStorage, newStorageTable } from './storages.js';
import type { StorageRecord, TorchStorage } from './tensor.js';

/** Largest of the small records in bytes: a number, a word, 40 digits. */
const MAX_SMALL_RECORD = 64;

/** Versions of the container that torch reads. */
const OLDEST_VERSION = 1;
const NEWEST_VERSION = 10;

/** Small records and the pickle, read at once. */
const READ_LANES = 4;

/** Opens a zip file of torch. Reads the directory, the pickle and three small records. */
export async function readZipFile(
  source: ByteSource,
  signal: AbortSignal | undefined,
  known: KnownObjects | undefined,
): Promise<ZipTorchFile> {
  const archive = await readZip(source, signal, known?.directories);
  const rootName = archive.root ?? rootOf(archive);
  if (archive.root === undefined) refuseOtherArchives(archive, rootName);
  const version = archive.entries.has(`${rootName}/version`) ? 'version' : '.data/version';
  const names = ['data.pkl', version, 'byteorder', '.data/serialization_id'];
  let looked: Looked | undefined;
  const crcOf = (content: Uint8Array): number => {
    looked = known?.look(content);
    return looked?.crc32 ?? crc32(content);
  };
  const [pickle, ...small] = await mapBounded(names, READ_LANES, async (name, index) => {
    const path = `${rootName}/${name}`;
    if (!archive.entries.has(path)) return undefined;
    if (index > 0) return readEntry(archive, path, MAX_SMALL_RECORD, signal);
    return readEntry(archive, path, MAX_PICKLE_BYTES, signal, crcOf);
  });
  const [versionText, byteOrder, serializationId] = small.map((bytes) => bytes && new TextDecoder().decode(bytes));
  if (!pickle) throw missingRecord(archive, rootName, 'data.pkl');
  if (versionText === undefined) throw missingRecord(archive, rootName, 'version');
  checkVersion(source.name, versionText);
  checkByteOrder(source.name, byteOrder);

  const { object, isOfAnother } = objectOf(source.name, pickle, known, looked);
  const unused = checkStorages(archive, rootName, object);
  const message = `${source.name} holds ${counted(unused, 'storage')} of no tensor.`;
  return {
    container: 'zip',
    source,
    archive,
    rootName,
    value: object.value,
    globals: object.globals,
    uninterpreted: object.uninterpreted,
    warnings: [
      ...archive.warnings,
      ...object.notices,
      ...(unused > 0 ? [{ code: 'torch-unused-storages', message }] : []),
    ],
    ...(serializationId === undefined ? {} : { serializationId }),
    ...(isOfAnother ? { ownStorages: new Map() } : {}),
  };
}

/** The object of a pickle, and whether it was parsed for another file. */
function objectOf(
  file: string,
  pickle: Uint8Array,
  known: KnownObjects | undefined,
  looked: Looked | undefined,
): { readonly object: TorchObject; readonly isOfAnother: boolean } {
  if (looked?.object) return { object: looked.object, isOfAnother: true };
  const parsed = parseObject(file, pickle, looked?.watched);
  const object = known && looked ? known.keep(pickle, looked, parsed) : parsed.object;
  return { object, isOfAnother: object !== parsed.object };
}

function parseObject(file: string, pickle: Uint8Array, watched: number | undefined): Parsed {
  const { notices, warn } = noticeList();
  const table = newStorageTable(file, 'zip');
  const { value, end, globals, uninterpreted, isWatchedInString } = unpickle(pickle, {
    file,
    persistentLoad: table.load,
    reducers: torchReducers(file, warn),
    watched,
  });
  if (end < pickle.length) {
    const found = pickle.length - end;
    throw badTorch(file, 'pickle-trailing-bytes', `${found} bytes follow its pickle`, { found });
  }
  const { declared } = table;
  return { object: { value, globals, uninterpreted, declared, notices, unusedIn: new WeakMap() }, isWatchedInString };
}

/** Finds where storages of a zip file start, from the local headers of their records. */
export async function locateInZip(
  { archive, rootName }: ZipTorchFile,
  storages: readonly TorchStorage[],
  signal?: AbortSignal,
): Promise<Map<TorchStorage, StorageRecord>> {
  const names = storages.map((storage) => recordOf(rootName, storage));
  const offsets = await locateEntries(archive, names, signal);
  return new Map(
    storages.map((storage, i) => {
      const name = names[i] ?? '';
      const entry = archive.entries.get(name);
      const offset = offsets.get(name);
      if (!entry || offset === undefined) throw missingRecord(archive, rootName, `data/${storage.key}`);
      const crc = archive.hasCrcs ? { crc32: entry.crc32 } : {};
      return [storage, { offset, length: entry.size, ...crc }];
    }),
  );
}

function recordOf(rootName: string, storage: TorchStorage): string {
  return `${rootName}/data/${storage.key}`;
}

/** The one folder that all records are in. */
function rootOf(archive: ZipArchive): string {
  const file = archive.source.name;
  let root: string | undefined;
  for (const name of archive.entries.keys()) {
    const slash = name.indexOf('/');
    const folder = slash < 0 ? undefined : name.slice(0, slash);
    if (folder === undefined) {
      throw badTorch(file, 'torch-root', `its record ${JSON.stringify(name)} is in no folder`, { record: name });
    }
    root ??= folder;
    if (folder !== root) {
      const folders = `${JSON.stringify(root)} and ${JSON.stringify(folder)}`;
      throw badTorch(file, 'torch-root', `its records are in two folders, ${folders}`, {
        expected: root,
        found: folder,
      });
    }
  }
  if (root === undefined)
    throw badTorch(file, 'torch-record-missing', 'it is an empty zip file', { record: 'data.pkl' });
  return root;
}

/** Programs are saved in zip files too. */
function refuseOtherArchives({ source, entries }: ZipArchive, root: string): void {
  const has = (name: string) => entries.has(`${root}/${name}`);
  const isPackage = has('.data/extern_modules') || has('.data/python_version');
  const isScript = has('constants.pkl') || [...entries.keys()].some((name) => name.startsWith(`${root}/code/`));
  if (!isPackage && !isScript) return;
  const found = isPackage ? 'a torch.package archive' : 'a TorchScript archive';
  const advice = 'Save the state_dict of the module with torch.save.';
  throw unsupportedTorch(source.name, 'torch-program', `it is ${found}, which holds code`, { found }, advice);
}

function checkVersion(file: string, text: string): void {
  const version = /^\d{1,9}\n?$/.test(text) ? Number(text) : undefined;
  if (version !== undefined && version >= OLDEST_VERSION && version <= NEWEST_VERSION) return;
  const found = JSON.stringify(text);
  const expected = `${OLDEST_VERSION} to ${NEWEST_VERSION}`;
  throw badTorch(file, 'torch-version', `its version is ${found}; it must be ${expected}`, { expected, found });
}

/** Files of torch before 2.1 do not say; they are little-endian. */
function checkByteOrder(file: string, text: string | undefined): void {
  if (text === undefined || text === 'little') return;
  if (text === 'big') {
    const advice = 'Load it with PyTorch on a little-endian machine and save it again.';
    throw unsupportedTorch(file, 'torch-big-endian', 'its numbers are big-endian', { found: text }, advice);
  }
  const found = JSON.stringify(text);
  throw badTorch(file, 'torch-byteorder', `its byte order is ${found}`, { expected: 'little', found });
}

/** Checks that all storages are there; gives the number of records that are none of them. */
function checkStorages(archive: ZipArchive, root: string, { declared, unusedIn }: TorchObject): number {
  const { pattern } = archive;
  const known = pattern && unusedIn.get(pattern);
  if (known !== undefined) return known;
  for (const storage of declared.values()) checkStorage(archive, root, storage);
  const unused = countUnused(archive, root, declared);
  if (pattern) unusedIn.set(pattern, unused);
  return unused;
}

function checkStorage(archive: ZipArchive, root: string, { storage, className, numel }: DeclaredStorage): void {
  const { key, byteLength } = storage;
  const file = archive.source.name;
  const entry = archive.entries.get(recordOf(root, storage));
  if (!entry) throw missingRecord(archive, root, `data/${key}`);
  if (entry.size !== byteLength) {
    const what = `storage ${key} is a ${className} of ${counted(numel, 'element')}, ${byteLength} bytes, but its record has ${entry.size}`;
    throw badTorch(file, 'torch-storage-size', what, { storage: key, expected: byteLength, found: entry.size });
  }
}

function countUnused(archive: ZipArchive, root: string, declared: ReadonlyMap<string, unknown>): number {
  const folder = `${root}/data/`;
  let count = 0;
  for (const name of archive.entries.keys()) {
    if (name.startsWith(folder) && !declared.has(name.slice(folder.length))) count++;
  }
  return count;
}

function missingRecord({ source }: ZipArchive, root: string, name: string) {
  const record = `${root}/${name}`;
  return badTorch(source.name, 'torch-record-missing', `it has no record ${JSON.stringify(record)}`, { record });
}
