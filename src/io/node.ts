/**
 * Folders of the local disk under Node. Symbolic links are followed when reading.
 *
 * @module
 */

import { closeSync, fstatSync, openSync, type Stats, statSync } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir, rename, rm, rmdir, stat, unlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { crc32 } from '../base/crc32.js';
import { UnshardError } from '../base/errors.js';
import { shortRead, sinkFailure, sourceFailure } from './failures.js';
import { fillNow } from './node-blocking.js';
import { errnoOf, nodeSinkFailure, nodeSourceFailure } from './node-failures.js';
import { QuickCalls } from './node-quick.js';
import { pathSegments, splitFilePath } from './path.js';
import { makeSink, type RawSink } from './sink.js';
import { makeSource, type RawSource, READ_PIECE } from './source.js';
import type { ByteSource, FileTree, SharedOutput, TreeEntry } from './types.js';

/** Reads of at most so many bytes may block (128 KiB): those of an inspection. */
const QUICK_BYTES = 2 ** 17;

/** Those of this process: what is read in it mostly lies on one disk. */
const quick = new QuickCalls(() => setImmediate());

/** This machine in the names of unfinished files, whatever its own name. */
const HOST = crc32(new TextEncoder().encode(hostname())).toString(16);

/** This process in the names of unfinished files. Its number alone is that of an earlier process too, in a container always. */
const PROCESS = `${process.pid}-${randomHex()}`;

/** Tells names apart and need not be secret: a file of a name that is taken is never opened. */
function randomHex(): string {
  return Math.floor(Math.random() * 2 ** 32).toString(16);
}

/** What follows the name of an unfinished file: the machine, the process by two numbers, and a number of the file's own. */
const PARTIAL = /^\.partial-([0-9a-f]+)-((\d+)-[0-9a-f]+)-[0-9a-f]+$/;

/**
 * A folder to read from.
 *
 * @throws UnshardError of kind `usage`: `folder-missing`, `not-a-folder`; of kind `source` where it cannot be looked at.
 */
export async function openFolder(path: string): Promise<FileTree> {
  const root = resolve(path);
  const found = await statOrMissing(root).catch((error) => Promise.reject(nodeSourceFailure(path, error)));
  const advice = 'Name the folder that the checkpoint is in.';
  if (found === undefined) throw usage('folder-missing', `${path} is not there.`, path, advice);
  if (!found.isDirectory()) throw usage('not-a-folder', `${path} is not a folder.`, path, advice);
  return {
    name: basename(root) || root,
    async list(folder) {
      return listFolder(join(root, ...pathSegments(folder, 'source')), folder === '' ? path : folder);
    },
    open: (file) => openFile(root, file),
  };
}

/**
 * A folder to write to; it and its sub-folders are made when a file is created, and go again where no file of this output
 * came to stay in them. A file is written as
 * `NAME.partial-MACHINE-PROCESS-NUMBER` beside its place and renamed by `close`. What processes of this machine that
 * are no more have left of a file is removed when it is created. It is not synced to the disk: what a power failure
 * cuts, the reader of the file finds.
 */
export function folderOutput(path: string): SharedOutput {
  const root = resolve(path);
  const writing = new Set<string>();
  /** Folders that were made, with those in them. */
  const made = new Set<string>();
  const removeMade = async (target: string): Promise<void> => {
    const isMade = (folder: string) => [...made].some((top) => `${folder}${sep}`.startsWith(`${top}${sep}`));
    for (let folder = dirname(target); writing.size === 0 && isMade(folder); folder = dirname(folder)) {
      const isEmpty = await rmdir(folder).then(
        () => true,
        () => false,
      );
      if (!isEmpty) return;
    }
  };
  return {
    name: basename(root) || root,
    async has(file) {
      const target = targetOf(root, file);
      try {
        return (await statOrMissing(target))?.isFile() ?? false;
      } catch (error) {
        throw nodeSinkFailure(file, error);
      }
    },
    async create(file, byteLength) {
      const target = targetOf(root, file);
      if (writing.has(target)) throw sinkFailure('sink-locked', file, undefined, byteLength);
      const explain = (error: unknown) => nodeSinkFailure(file, error, byteLength);
      writing.add(target);
      try {
        const top = await makeFolder(dirname(target));
        if (top !== undefined) made.add(top);
        const raw = await startFile(target, file, byteLength, () => writing.delete(target));
        const drop = async () => {
          await raw.drop();
          await removeMade(target);
        };
        return makeSink(file, byteLength, { ...raw, drop }, explain);
      } catch (error) {
        writing.delete(target);
        await removeMade(target);
        await refuseNoFolder(path, root);
        throw explain(error);
      }
    },
    open: (file) => openFile(root, file),
    async remove(file) {
      try {
        await unlink(targetOf(root, file));
        await removeMade(targetOf(root, file));
      } catch (error) {
        if (!isNothing(error)) throw nodeSinkFailure(file, error);
      }
    },
    async sweep(files) {
      const targets = new Set(files.map((file) => targetOf(root, file)));
      for (const folder of new Set([...targets].map((target) => dirname(target)))) {
        try {
          await removePartials(folder, (name) => targets.has(join(folder, name)));
        } catch (error) {
          throw nodeSinkFailure(folder, error);
        }
      }
    },
    async removeFolder(folder) {
      try {
        await rm(targetOf(root, folder), { recursive: true, force: true });
      } catch (error) {
        throw nodeSinkFailure(folder, error);
      }
    },
  };
}

/**
 * Makes a folder and those around it that are missing. Gives the outermost one that was made, if any was.
 *
 * Node's own recursive `mkdir` asks for ever where a file system has no room for a new folder and calls that "not
 * found", as `/proc` does, and an automounter that has the folder.
 */
async function makeFolder(folder: string): Promise<string | undefined> {
  if ((await statOrMissing(folder))?.isDirectory()) return undefined;
  const parent = dirname(folder);
  const top = parent === folder ? undefined : await makeFolder(parent);
  try {
    await mkdir(folder);
    return top ?? folder;
  } catch (error) {
    // Another process may have made it meanwhile.
    if (errnoOf(error) === 'EEXIST' && (await stat(folder)).isDirectory()) return top;
    throw error;
  }
}

/** @throws UnshardError `not-a-folder` of kind `usage` where a file is in the place of a folder to write to, or of one around it. */
async function refuseNoFolder(path: string, root: string): Promise<void> {
  for (let folder = root; dirname(folder) !== folder; folder = dirname(folder)) {
    const found = await stat(folder).catch(() => undefined);
    if (found?.isDirectory()) return;
    if (found) {
      const message = `${folder === root ? path : folder} is not a folder.`;
      throw usage('not-a-folder', message, folder, 'Name a folder to write to. It is made where it is missing.');
    }
  }
}

/** Removes unfinished files of a folder: those whose names will be as `isMeant` says, of writers that are `isGone`. */
async function removePartials(
  folder: string,
  isMeant: (name: string) => boolean,
  isGone: (suffix: RegExpExecArray) => boolean = () => true,
): Promise<void> {
  const entries = await readdir(folder).catch((error) => (isNothing(error) ? [] : Promise.reject(error)));
  for (const entry of entries) {
    const at = entry.lastIndexOf('.partial-');
    const suffix = at < 0 ? null : PARTIAL.exec(entry.slice(at));
    if (!suffix || !isMeant(entry.slice(0, at)) || !isGone(suffix)) continue;
    await unlink(join(folder, entry)).catch((error) => (isNothing(error) ? undefined : Promise.reject(error)));
  }
}

/** True where the writer was a process of this machine that is no more. */
function isAbandoned([, host, writer, pid]: RegExpExecArray): boolean {
  if (host !== HOST || writer === PROCESS) return false;
  if (Number(pid) === process.pid) return true;
  try {
    // Signal 0 asks only whether there is such a process.
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    return errnoOf(error) === 'ESRCH';
  }
}

async function listFolder(folder: string, shown: string): Promise<TreeEntry[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return await Promise.all(
      entries.map(async (entry): Promise<TreeEntry> => {
        // A link that leads nowhere is listed as a file: opening it says what is wrong.
        const linked = entry.isSymbolicLink() ? await stat(join(folder, entry.name)).catch(() => undefined) : entry;
        return { name: entry.name, kind: linked?.isDirectory() ? 'directory' : 'file' };
      }),
    );
  } catch (error) {
    throw nodeSourceFailure(shown, error);
  }
}

async function openFile(root: string, path: string): Promise<ByteSource> {
  const { folders, name } = splitFilePath(path, 'source');
  return openPlace(path, join(root, ...folders, name));
}

/**
 * Opens a file by its full path, which is the `place` of a source. Its handle is opened by the first read: thousands of
 * shards may be looked at and few of them read.
 *
 * @throws UnshardError of kind `source`.
 */
async function openPlace(path: string, target: string): Promise<ByteSource> {
  const lookUp = () =>
    quick.make(
      () => statSync(target),
      () => stat(target),
    );
  const opened = await missingIfNothing(lookUp).catch((error) => Promise.reject(nodeSourceFailure(path, error)));
  if (!opened || opened.isDirectory()) throw sourceFailure('source-missing', path);
  if (!opened.isFile()) throw sourceFailure('source-not-a-file', path);
  let handle: Promise<FileHandle> | undefined;
  const openOnce = () => {
    handle ??= open(target, 'r').catch((error) => {
      handle = undefined;
      throw error;
    });
    return handle;
  };
  /** For calls that block. The other handle waits for what is under way before it is closed. */
  let descriptor: number | undefined;
  const readNow = (offset: number, into: Uint8Array) => {
    descriptor ??= openSync(target, 'r');
    const filled = fillNow(descriptor, offset, into);
    return { filled, now: fstatSync(descriptor) };
  };
  const readLater = async (offset: number, into: Uint8Array, signal?: AbortSignal) => {
    const file = await openOnce();
    const filled = await fill(file, offset, into, signal);
    return { filled, now: fstatSync(file.fd) };
  };
  const raw: RawSource = {
    async read(offset, into, signal) {
      try {
        const later = () => readLater(offset, into, signal);
        const isSmall = into.byteLength <= QUICK_BYTES;
        const { filled, now } = await (isSmall ? quick.make(() => readNow(offset, into), later) : later());
        // After the read, so that no byte of a changed file is handed out. Asked for in passing it costs microseconds; as a
        // job of its own it would cost as much as a small read.
        if (isChanged(opened, now)) throw sourceFailure('source-changed', path);
        if (filled < into.byteLength) throw shortRead(path, offset, into.byteLength, filled);
      } catch (error) {
        signal?.throwIfAborted();
        throw nodeSourceFailure(path, error);
      }
    },
    async close() {
      if (descriptor !== undefined) closeSync(descriptor);
      descriptor = undefined;
      const file = await handle?.catch(() => undefined);
      await file?.close();
    },
  };
  return makeSource(path, opened.size, opened.mtimeMs, raw, target);
}

/** Resolves to the number of bytes that there were. */
async function fill(file: FileHandle, offset: number, into: Uint8Array, signal?: AbortSignal): Promise<number> {
  let filled = 0;
  while (filled < into.byteLength) {
    signal?.throwIfAborted();
    const length = Math.min(into.byteLength - filled, READ_PIECE);
    const { bytesRead } = await file.read(into, filled, length, offset + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return filled;
}

function isChanged(before: Stats, now: Stats): boolean {
  return before.size !== now.size || before.mtimeMs !== now.mtimeMs;
}

async function startFile(target: string, path: string, byteLength: number, onEnd: () => void): Promise<RawSink> {
  // A file cannot be renamed to the name of a folder: better found now than when all is written. A device could be replaced,
  // `/dev/stdout` for one, and must not be.
  const there = await statOrMissing(target);
  if (there && !there.isFile()) throw sinkFailure('sink-name-taken', path, undefined, byteLength);
  // Without the right to remove it, it stays where it is.
  await removePartials(dirname(target), (name) => name === basename(target), isAbandoned).catch(() => undefined);
  const partial = `${target}.partial-${HOST}-${PROCESS}-${randomHex()}`;
  const file = await open(partial, 'wx+');
  const { dev, ino } = await file.stat();
  const isOurs = async () => {
    const there = await lstat(partial).catch(() => undefined);
    return there?.dev === dev && there.ino === ino;
  };
  const raw: RawSink = {
    place: partial,
    async write(offset, bytes) {
      let done = 0;
      while (done < bytes.byteLength) {
        const { bytesWritten } = await file.write(bytes, done, bytes.byteLength - done, offset + done);
        done += bytesWritten;
      }
    },
    async read(offset, into) {
      const filled = await fill(file, offset, into);
      if (filled < into.byteLength) throw new Error(`Of ${into.byteLength} bytes ${filled} were read back.`);
    },
    async finish() {
      await file.close();
      // Another process may have taken it for abandoned, or have finished all there is to write here.
      if (!(await isOurs())) throw sinkFailure('sink-locked', path, undefined, byteLength);
      await rename(partial, target);
      onEnd();
    },
    async drop() {
      onEnd();
      await file.close().catch(() => undefined);
      if (await isOurs()) await unlink(partial);
    },
  };
  try {
    await file.truncate(byteLength);
    return raw;
  } catch (error) {
    await raw.drop();
    throw error;
  }
}

function targetOf(root: string, path: string): string {
  const { folders, name } = splitFilePath(path, 'sink');
  return join(root, ...folders, name);
}

function statOrMissing(path: string): Promise<Stats | undefined> {
  return missingIfNothing(() => stat(path));
}

async function missingIfNothing(lookUp: () => Promise<Stats>): Promise<Stats | undefined> {
  try {
    return await lookUp();
  } catch (error) {
    if (isNothing(error)) return undefined;
    throw error;
  }
}

/** True where a path leads to nothing: no such name, a file in place of a folder, or links in a circle. */
function isNothing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errnoOf(error));
}

function usage(code: 'folder-missing' | 'not-a-folder', message: string, file: string, advice: string): UnshardError {
  return new UnshardError({ kind: 'usage', code, message, advice, facts: { file } });
}
