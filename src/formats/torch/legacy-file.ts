/**
 * The container of torch files before 1.6: five pickles in a row, then the storages one after another.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { isUnshardError } from '../../base/errors.js';
import { counted } from '../../base/words.js';
import { readBytes } from '../../io/read.js';
import type { ByteSource } from '../../io/types.js';
import { MAX_PICKLE_BYTES } from '../pickle/limits.js';
import { type Unpickled, unpickle } from '../pickle/read.js';
import type { PyValue } from '../pickle/values.js';
import { badTorch } from './fault.js';
import { type LegacyPlace, type LegacyTorchFile, noticeList } from './file.js';
import { torchReducers } from './rebuild.js';
import { type DeclaredStorage, newStorageTable } from './storages.js';
import type { StorageRecord, TorchStorage } from './tensor.js';

/** First pickle of every file. */
const MAGIC = 0x1950a86a20f9469cfc6cn;

/** Second pickle. */
const PROTOCOL = 1001;

/** Bytes of the number of elements in front of each storage. */
const HEADER_LENGTH = 8;

/** Bytes read first: the pickles of a file of some thousand tensors. */
const FIRST_READ = 2 ** 20;

/** How much more is read where that was not enough. */
const READ_GROWTH = 4;

/** Headers of storages read at once. */
const LOCATE_LANES = 16;

/** The pickles of a file. */
interface Pickles {
  readonly systemInfo: PyValue;
  readonly object: Unpickled;
  readonly declared: ReadonlyMap<string, DeclaredStorage>;
  /** Keys of the storages in the order in which they follow. */
  readonly keys: PyValue;
  /** The byte after the last pickle. */
  readonly end: number;
}

/** Opens a legacy file. Reads its pickles, as far as they go. */
export async function readLegacyFile(source: ByteSource, signal?: AbortSignal): Promise<LegacyTorchFile> {
  const { notices, warn } = noticeList();
  const { systemInfo, object, declared, keys, end } = await readPickles(source, warn, signal);
  if (systemInfo instanceof Map && systemInfo.get('little_endian') !== true) {
    warn(
      'legacy-endian',
      `${source.name} says that it is not little-endian. torch reads it as such, and so does Unshard.`,
    );
  }
  const places = placeStorages(source, keys, declared, end);
  const last = [...places].at(-1);
  const used = last ? last[1].header + HEADER_LENGTH + last[0].byteLength : end;
  if (used > source.size) {
    const what = `its storages end at byte ${used}, but it has ${source.size} bytes`;
    const advice = 'It is probably an interrupted copy or a save that did not finish: copy it again.';
    throw badTorch(source.name, 'legacy-truncated', what, { expected: used, found: source.size }, advice);
  }
  if (used < source.size) {
    warn('legacy-trailing-bytes', `${source.size - used} bytes follow the last storage of ${source.name}.`);
  }
  const { value, globals, uninterpreted } = object;
  return { container: 'legacy', source, value, globals, uninterpreted, warnings: notices, places };
}

/** Reads and checks the headers of storages. */
export async function locateInLegacy(
  { source, places }: LegacyTorchFile,
  storages: readonly TorchStorage[],
  signal?: AbortSignal,
): Promise<Map<TorchStorage, StorageRecord>> {
  const records = await mapBounded(storages, LOCATE_LANES, async (storage) => {
    const { header, numel } = places.get(storage) ?? missingStorage(source, storage.key);
    const bytes = await readBytes(source, header, HEADER_LENGTH, signal);
    const found = new DataView(bytes.buffer).getBigInt64(0, true);
    if (found !== BigInt(numel)) {
      const what = `storage ${storage.key} should have ${counted(numel, 'element')}; its header at byte ${header} says ${found}`;
      const facts = { storage: storage.key, offset: header, expected: numel, found: String(found) };
      throw badTorch(source.name, 'legacy-storage-size', what, facts);
    }
    return [storage, { offset: header + HEADER_LENGTH, length: storage.byteLength }] as const;
  });
  return new Map(records);
}

/** Reads the pickles: how long they are shows only when they have been read. */
async function readPickles(
  source: ByteSource,
  warn: (code: string, message: string) => void,
  signal?: AbortSignal,
): Promise<Pickles> {
  const limit = Math.min(source.size, MAX_PICKLE_BYTES);
  for (let length = FIRST_READ; ; length *= READ_GROWTH) {
    const bytes = await readBytes(source, 0, Math.min(length, limit), signal);
    try {
      return parsePickles(bytes, source.name, warn);
    } catch (error) {
      const isCut = isUnshardError(error) && error.detail.code === 'pickle-truncated';
      if (!isCut || length >= limit) throw error;
    }
  }
}

function parsePickles(bytes: Uint8Array, file: string, warn: (code: string, message: string) => void): Pickles {
  const magic = unpickle(bytes, { file });
  if (magic.value !== MAGIC) {
    throw badTorch(file, 'legacy-magic', 'it is a pickle, but not one that torch.save wrote', {
      expected: String(MAGIC),
      found: typeof magic.value === 'bigint' ? String(magic.value) : typeof magic.value,
    });
  }
  const protocol = unpickle(bytes, { file, start: magic.end });
  if (protocol.value !== PROTOCOL) {
    const found = typeof protocol.value === 'number' ? protocol.value : typeof protocol.value;
    throw badTorch(file, 'legacy-protocol', `its protocol is ${found}; it must be ${PROTOCOL}`, {
      expected: PROTOCOL,
      found,
    });
  }
  const info = unpickle(bytes, { file, start: protocol.end });
  const table = newStorageTable(file, 'legacy');
  const object = unpickle(bytes, {
    file,
    start: info.end,
    persistentLoad: table.load,
    reducers: torchReducers(file, warn),
  });
  const keys = unpickle(bytes, { file, start: object.end });
  return { systemInfo: info.value, object, declared: table.declared, keys: keys.value, end: keys.end };
}

/** Where each storage lies: they follow the pickles in the order of the key list, each behind its header. */
function placeStorages(
  source: ByteSource,
  keys: PyValue,
  declared: ReadonlyMap<string, DeclaredStorage>,
  end: number,
): Map<TorchStorage, LegacyPlace> {
  const places = new Map<TorchStorage, LegacyPlace>();
  let header = end;
  const fail = (what: string, facts: Readonly<Record<string, string | number>>) =>
    badTorch(source.name, 'legacy-keys', what, facts);
  if (!Array.isArray(keys)) throw fail('it has no list of storages', { found: typeof keys });
  for (const key of keys) {
    const entry = typeof key === 'string' ? declared.get(key) : undefined;
    const shown = typeof key === 'string' ? key.slice(0, 80) : typeof key;
    if (!entry)
      throw fail(`its list of storages names ${JSON.stringify(shown)}, which no tensor uses`, { found: shown });
    if (places.has(entry.storage)) throw fail(`its list of storages names ${shown} twice`, { found: shown });
    places.set(entry.storage, { header, numel: entry.numel });
    header += HEADER_LENGTH + entry.storage.byteLength;
  }
  for (const [key, { storage }] of declared) {
    if (!places.has(storage))
      throw fail(`its list of storages does not name ${key}, which a tensor uses`, { expected: key });
  }
  return places;
}

function missingStorage(source: ByteSource, key: string): never {
  throw badTorch(source.name, 'legacy-keys', `it has no storage ${key}`, { expected: key });
}
