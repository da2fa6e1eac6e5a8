/**
 * Folders of the File System Access API: those that the user picked or dropped, and those of the browser's own storage.
 *
 * @module
 */

import { blobSource } from './blob.js';
import { domSinkFailure, domSourceFailure, isMissing } from './dom-failures.js';
import { sinkFailure } from './failures.js';
import { pathSegments, splitFilePath } from './path.js';
import { makeSink, type RawSink } from './sink.js';
import type { ByteSource, FileTree, OutputTree } from './types.js';

/** Refuses a second writer. The DOM library does not know the option yet; browsers without it ignore it. */
const ONE_WRITER: FileSystemCreateWritableOptions & { readonly mode: 'exclusive' } = { mode: 'exclusive' };

/** The folder of a handle that may be read. */
export function directoryTree(root: FileSystemDirectoryHandle): FileTree {
  return {
    name: root.name,
    async list(path) {
      try {
        const folder = await folderAt(root, pathSegments(path, 'source'));
        const entries = [];
        for await (const { name, kind } of folder.values()) entries.push({ name, kind });
        return entries;
      } catch (error) {
        throw domSourceFailure(path === '' ? root.name : path, error);
      }
    },
    open: (path) => openFile(root, path),
  };
}

/**
 * The folder of a handle that may be written. A browser shows an empty file under the name of one that is being
 * written; its bytes are beside it until `close`. Sub-folders are made when a file is created in them.
 */
export function directoryOutput(root: FileSystemDirectoryHandle): OutputTree {
  return {
    name: root.name,
    async has(path) {
      const { folders, name } = splitFilePath(path, 'sink');
      try {
        return (await existingFile(root, folders, name)) !== undefined;
      } catch (error) {
        throw domSinkFailure(path, error);
      }
    },
    async create(path, byteLength) {
      const { folders, name } = splitFilePath(path, 'sink');
      const explain = (error: unknown) => domSinkFailure(path, error, byteLength);
      try {
        const folder = await folderAt(root, folders, { create: true });
        return makeSink(path, byteLength, await startFile(folder, name, byteLength), explain);
      } catch (error) {
        if (error instanceof TypeError) throw sinkFailure('sink-bad-name', path, error, byteLength);
        throw explain(error);
      }
    },
    // What is read back is compared with what was written: no need to ask whether it has changed meanwhile.
    open: (path) => openFile(root, path, false),
    async remove(path) {
      const { folders, name } = splitFilePath(path, 'sink');
      try {
        if ((await existingFile(root, folders, name)) === undefined) return;
        await (await folderAt(root, folders)).removeEntry(name);
      } catch (error) {
        throw domSinkFailure(path, error);
      }
    },
  };
}

async function openFile(root: FileSystemDirectoryHandle, path: string, isWatched = true): Promise<ByteSource> {
  const { folders, name } = splitFilePath(path, 'source');
  try {
    const handle = await (await folderAt(root, folders)).getFileHandle(name);
    if (isWatched) return await openHandle(path, handle);
    const file = await handle.getFile();
    return blobSource(path, file, file.lastModified);
  } catch (error) {
    throw domSourceFailure(path, error);
  }
}

/**
 * Opens the `place` of a source that another thread has opened from a `File`, a folder or the browser's own storage.
 *
 * @throws UnshardError of kind `source`.
 */
export async function openPlace(path: string, place: unknown): Promise<ByteSource> {
  if (place instanceof File) return blobSource(path, place, place.lastModified);
  try {
    return await openHandle(path, place as FileSystemFileHandle);
  } catch (error) {
    throw domSourceFailure(path, error);
  }
}

async function openHandle(path: string, handle: FileSystemFileHandle): Promise<ByteSource> {
  const file = await handle.getFile();
  return blobSource(path, file, file.lastModified, () => handle.getFile(), handle);
}

async function startFile(folder: FileSystemDirectoryHandle, name: string, byteLength: number): Promise<RawSink> {
  const existed = (await existingFile(folder, [], name)) !== undefined;
  const handle = await folder.getFileHandle(name, { create: true });
  const removeIfOurs = async () => {
    if (!existed && (await handle.getFile()).size === 0) await folder.removeEntry(name);
  };
  try {
    const stream = await handle.createWritable(ONE_WRITER);
    // One sparse step to the full size: a disk that cannot hold the file is found before any byte is written.
    await stream.truncate(byteLength);
    return {
      // Streams do not take shared memory, which nothing here uses.
      write: (position, bytes) => stream.write({ type: 'write', position, data: bytes as Uint8Array<ArrayBuffer> }),
      finish: () => stream.close(),
      async drop() {
        await stream.abort().catch(() => undefined);
        await removeIfOurs();
      },
    };
  } catch (error) {
    await removeIfOurs().catch(() => undefined);
    throw error;
  }
}

async function folderAt(
  root: FileSystemDirectoryHandle,
  segments: readonly string[],
  options: FileSystemGetDirectoryOptions = {},
): Promise<FileSystemDirectoryHandle> {
  let folder = root;
  for (const segment of segments) folder = await folder.getDirectoryHandle(segment, options);
  return folder;
}

/** The handle of a file that is there; undefined where it or a folder on its way is not. */
async function existingFile(root: FileSystemDirectoryHandle, folders: readonly string[], name: string) {
  try {
    return await (await folderAt(root, folders)).getFileHandle(name);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
