/**
 * The browser's own storage as the place where downloads are made, for browsers that cannot write to a local folder.
 * Dedicated workers only: the fast way to write there exists nowhere else.
 *
 * @module
 */

import { blobSource } from './blob.js';
import { domSinkFailure, domSourceFailure, isMissing } from './dom-failures.js';
import { sinkFailure, sourceFailure, storageMissing } from './failures.js';
import { plainFilePath, splitFilePath } from './path.js';
import { makeSink, type RawSink } from './sink.js';
import type { OutputTree } from './types.js';

/** A file of the browser's own storage, opened for this worker alone. */
export interface SyncAccessHandle {
  write(bytes: Uint8Array, options: { readonly at: number }): number;
  read(into: Uint8Array, options: { readonly at: number }): number;
  truncate(byteLength: number): void;
  close(): void;
}

/** A handle as dedicated workers have it, in browsers that have it. The DOM library describes the page only. */
interface WorkerFileHandle extends FileSystemFileHandle {
  createSyncAccessHandle?(): Promise<SyncAccessHandle>;
}

/**
 * The browser's own storage.
 *
 * @throws UnshardError `storage-missing` of kind `sink` where the page has none: over plain http, in some private windows.
 */
export async function openStorage(): Promise<FileSystemDirectoryHandle> {
  try {
    return await navigator.storage.getDirectory();
  } catch (error) {
    throw storageMissing(error);
  }
}

/**
 * Opens a file of the browser's own storage.
 *
 * @throws UnshardError `storage-missing` of kind `sink` where the browser has no such thing, else what the browser throws.
 */
export async function openAlone(handle: WorkerFileHandle): Promise<SyncAccessHandle> {
  if (!handle.createSyncAccessHandle) throw storageMissing();
  try {
    return await handle.createSyncAccessHandle();
  } catch (error) {
    throw error instanceof DOMException && error.name === 'NotSupportedError' ? storageMissing(error) : error;
  }
}

/** A folder of the browser's own storage. */
export interface OpfsOutput extends OutputTree {
  /** A finished file, for a download link. It can be read until `clear`. Rejects with kind `source` where there is none. */
  file(path: string): Promise<File>;
  /** Removes the folder and all files in it, finished or not. Files that are being written must be dropped before. */
  clear(): Promise<void>;
}

/**
 * An empty folder of the given name, which is a plain file name. What an earlier run left in it is removed.
 *
 * @throws UnshardError of kind `sink`: `sink-locked` where another tab writes to it.
 */
export async function opfsOutput(folderName: string): Promise<OpfsOutput> {
  const { name } = splitFilePath(folderName, 'sink');
  await removeFolder(name);
  // Files have numbers for names and get their paths here when they are finished: a file that is not complete has none,
  // and one that is replaced stays until then. Nothing needs the paths after the worker has ended.
  const finished = new Map<string, FileSystemFileHandle>();
  const writing = new Set<string>();
  let folder: FileSystemDirectoryHandle | undefined;
  let files = 0;

  const start = async (path: string, byteLength: number): Promise<RawSink> => {
    folder ??= await (await openStorage()).getDirectoryHandle(name, { create: true });
    const home = folder;
    const handle = await home.getFileHandle(`${files++}`, { create: true });
    const access = await openAlone(handle);
    const drop = async () => {
      access.close();
      await home.removeEntry(handle.name);
      writing.delete(path);
    };
    try {
      access.truncate(byteLength);
    } catch (error) {
      await drop();
      throw error;
    }
    return {
      async write(offset, bytes) {
        let done = 0;
        while (done < bytes.byteLength) {
          const count = access.write(bytes.subarray(done), { at: offset + done });
          if (count === 0) throw new Error(`Nothing of ${bytes.byteLength - done} bytes was written.`);
          done += count;
        }
      },
      async read(offset, into) {
        const filled = access.read(into, { at: offset });
        if (filled < into.byteLength) throw new Error(`Of ${into.byteLength} bytes ${filled} were read back.`);
      },
      async finish() {
        access.close();
        const replaced = finished.get(path);
        finished.set(path, handle);
        writing.delete(path);
        // The new file is there. An old one that cannot be removed costs space until `clear`, nothing else.
        if (replaced !== undefined) await home.removeEntry(replaced.name).catch(() => undefined);
      },
      drop,
    };
  };

  const file = async (path: string): Promise<File> => {
    const handle = finished.get(plainFilePath(path, 'source'));
    if (handle === undefined) throw sourceFailure('source-missing', path);
    try {
      const stored = await handle.getFile();
      return new File([stored], path.slice(path.lastIndexOf('/') + 1), { lastModified: stored.lastModified });
    } catch (error) {
      throw domSourceFailure(path, error);
    }
  };

  return {
    name,
    file,
    async has(path) {
      return finished.has(plainFilePath(path, 'sink'));
    },
    async create(path, byteLength) {
      if (writing.has(plainFilePath(path, 'sink'))) throw sinkFailure('sink-locked', path, undefined, byteLength);
      const explain = (error: unknown) => domSinkFailure(path, error, byteLength);
      writing.add(path);
      try {
        return makeSink(path, byteLength, await start(path, byteLength), explain);
      } catch (error) {
        writing.delete(path);
        throw explain(error);
      }
    },
    async open(path) {
      const stored = await file(path);
      return blobSource(path, stored, stored.lastModified);
    },
    async remove(path) {
      const handle = finished.get(plainFilePath(path, 'sink'));
      if (handle === undefined) return;
      finished.delete(path);
      await folder?.removeEntry(handle.name).catch((error) => Promise.reject(domSinkFailure(path, error)));
    },
    async clear() {
      finished.clear();
      folder = undefined;
      await removeFolder(name);
    },
  };
}

async function removeFolder(name: string): Promise<void> {
  try {
    await (await openStorage()).removeEntry(name, { recursive: true });
  } catch (error) {
    if (!isMissing(error)) throw domSinkFailure(name, error);
  }
}
