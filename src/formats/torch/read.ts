/**
 * Opens files that `torch.save` wrote. Reads the object and leaves the bytes of tensors where they are.
 *
 * @module
 */

import { readBytes } from '../../io/read.js';
import type { ByteSource } from '../../io/types.js';
import { MAGIC_LENGTH, nameOfForeignFormat } from '../magic.js';
import { badTorch } from './fault.js';
import type { TorchFile } from './file.js';
import { locateInLegacy, readLegacyFile } from './legacy-file.js';
import type { KnownObjects } from './objects.js';
import type { StorageRecord, TorchStorage } from './tensor.js';
import { locateInZip, readZipFile } from './zip-file.js';

export { type FileNotice, ownTensor, type TorchFile } from './file.js';
export { KnownObjects } from './objects.js';

/** First bytes of a zip file, and of a pickle of protocol 2 or later. */
const ZIP_MAGIC = [0x50, 0x4b, 0x03, 0x04];
const PICKLE_MAGIC = [0x80];

const NOT_TORCH = 'Put a whole copy of the right file in its place.';

/**
 * Opens a torch file: the zip container, or the older one of pickles in a row. Nothing is tried a second way when it
 * fails. A pickle that says the same as one of the `known` ones is not parsed again: the tensors of the file are then what
 * `ownTensor` makes of those of its object.
 *
 * @throws UnshardError of kind `bad-file` or `unsupported`.
 */
export async function readTorchFile(
  source: ByteSource,
  signal?: AbortSignal,
  known?: KnownObjects,
): Promise<TorchFile> {
  const head = await readBytes(source, 0, Math.min(source.size, MAGIC_LENGTH), signal);
  if (head.length > 0 && startsWith(head, ZIP_MAGIC)) return readZipFile(source, signal, known);
  const found = nameOfForeignFormat(head);
  if (found !== undefined) {
    const facts = { found, size: source.size };
    throw badTorch(source.name, 'torch-foreign-format', `it is ${found}, not a torch file`, facts, NOT_TORCH);
  }
  if (startsWith(head, PICKLE_MAGIC)) return readLegacyFile(source, signal);
  const facts = { size: source.size };
  throw badTorch(source.name, 'torch-not-torch', 'it does not begin as a torch file does', facts, NOT_TORCH);
}

/**
 * Finds where the given storages of a file lie. Only the headers in front of them are read, so it costs little to ask
 * for a few of many.
 *
 * @throws UnshardError of kind `bad-file` where a header contradicts the directory or the pickle.
 */
export async function locateStorages(
  file: TorchFile,
  storages: Iterable<TorchStorage>,
  signal?: AbortSignal,
): Promise<ReadonlyMap<TorchStorage, StorageRecord>> {
  const wanted = [...new Set(storages)];
  return file.container === 'zip' ? locateInZip(file, wanted, signal) : locateInLegacy(file, wanted, signal);
}

/** True where `head` starts with `magic`, as far as it goes. */
function startsWith(head: Uint8Array, magic: readonly number[]): boolean {
  return magic.every((byte, i) => i >= head.length || head[i] === byte);
}
