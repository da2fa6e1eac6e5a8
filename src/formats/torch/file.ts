/**
 * A torch file that was opened: its object, and where its storages lie.
 *
 * @module
 */

import type { ByteSource } from '../../io/types.js';
import type { PyGlobal, PyValue } from '../pickle/values.js';
import type { ZipArchive } from '../zip/read.js';
import { TorchStorage, TorchTensor } from './tensor.js';

/** Warnings kept of one file. A hostile one could give another warning for every tensor. */
const MAX_NOTICES = 50;

/** Something the user should know about a file. `code` is a stable id. */
export interface FileNotice {
  readonly code: string;
  readonly message: string;
}

/** What `readTorchFile` found. The bytes of storages are not read. */
export type TorchFile = ZipTorchFile | LegacyTorchFile;

/** What every torch file has. */
export interface TorchFileParts {
  readonly source: ByteSource;
  /** The object that was saved. */
  readonly value: PyValue;
  /** Every class and function that the pickle names, by `module.name`. */
  readonly globals: ReadonlyMap<string, PyGlobal>;
  /** Number of Python objects that stayed inert records. */
  readonly uninterpreted: number;
  readonly warnings: readonly FileNotice[];
  /**
   * Present where `value` was parsed for another file whose pickle is the same but for the devices, and holds the storages
   * of that one: the storages of this file by those, as far as they were asked for.
   */
  readonly ownStorages?: Map<TorchStorage, TorchStorage>;
}

/** A tensor of the file's object with the storage of the file itself. */
export function ownTensor({ ownStorages, source }: TorchFile, tensor: TorchTensor): TorchTensor {
  if (!ownStorages) return tensor;
  const { dtype, shape, stride, offset, storage, flip } = tensor;
  const { key, byteLength, dtype: elements } = storage;
  const own = ownStorages.get(storage) ?? new TorchStorage(key, byteLength, elements, source.name);
  ownStorages.set(storage, own);
  return new TorchTensor(dtype, shape, stride, offset, own, flip);
}

/** A file of `torch.save` since 1.6. */
export interface ZipTorchFile extends TorchFileParts {
  readonly container: 'zip';
  readonly archive: ZipArchive;
  /** Folder of all records: the name that the file was saved under, or `archive`. */
  readonly rootName: string;
  /** Digest of names and contents that torch 2.1 and later store. Equal for files with equal contents. */
  readonly serializationId?: string;
}

/** A file of `torch.save` before 1.6, or with `_use_new_zipfile_serialization=False`. */
export interface LegacyTorchFile extends TorchFileParts {
  readonly container: 'legacy';
  readonly places: ReadonlyMap<TorchStorage, LegacyPlace>;
  /** Older files have no root folder and no id. */
  readonly rootName?: undefined;
  readonly serializationId?: undefined;
}

/** Where a storage of a legacy file lies: its header of 8 bytes, which repeats the number of elements, then its bytes. */
export interface LegacyPlace {
  /** Offset of the header. */
  readonly header: number;
  readonly numel: number;
}

/** Collects warnings: each message once, and the last place for a note that there are more. */
export function noticeList(): {
  readonly notices: FileNotice[];
  readonly warn: (code: string, message: string) => void;
} {
  const notices: FileNotice[] = [];
  return {
    notices,
    warn(code, message) {
      if (notices.length >= MAX_NOTICES || notices.some((notice) => notice.message === message)) return;
      const isLast = notices.length === MAX_NOTICES - 1;
      notices.push(
        isLast ? { code: 'torch-more-warnings', message: 'More warnings are left out.' } : { code, message },
      );
    },
  };
}
