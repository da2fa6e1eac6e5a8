/**
 * Getting hold of folders: by picker, by drop, by file input. Permission is asked for here, because only a click or a
 * drop may ask.
 *
 * @module
 */

import type { FolderFile } from '../worker/protocol.js';
import type { Destination, Source } from './state.js';

/** What came of a request: the folder, a sentence why not, or undefined where the user left the dialog. */
export type Picked<T> = T | string | undefined;

/** True where folders can be opened and written in place: the File System Access API, which Chromium has. */
export function canOpenFolders(): boolean {
  return 'showDirectoryPicker' in globalThis;
}

/** The checkpoint folder that the user chooses in the browser's dialog. */
export async function pickSource(): Promise<Picked<Source>> {
  return asking(async () => sourceOf(await showDirectoryPicker({ id: 'checkpoint', mode: 'read' })));
}

/** The folder of destination that the user chooses. The dialog starts near the checkpoint. */
export async function pickDestination(source: Source): Promise<Picked<Destination>> {
  const near = source.ref.kind === 'directory' ? { startIn: source.ref.handle } : {};
  return asking(async () => {
    return destinationOf(await showDirectoryPicker({ id: 'output', mode: 'readwrite', ...near }));
  });
}

/** A folder that was opened before. The browser may ask the user again. */
export async function reopen(handle: FileSystemDirectoryHandle): Promise<Picked<Source>> {
  return asking(async () => {
    if (!(await permitted(handle, 'read')))
      return `The browser may not read “${handle.name}”. Choose the folder again.`;
    return sourceOf(handle);
  });
}

/** The checkpoint folder that was dropped. Must be called in the drop event, before anything is awaited. */
export async function droppedSource(data: DataTransfer): Promise<Picked<Source>> {
  const items = fileItems(data);
  if (items.length > 1) return 'Drop one folder, not several items.';
  const item = items[0];
  if (!item) return 'That is not a folder on this machine.';
  if (!item.getAsFileSystemHandle) return droppedFiles(item.webkitGetAsEntry());
  const dropped = item.getAsFileSystemHandle();
  return asking(async () => {
    const handle = await dropped;
    return isDirectory(handle) ? sourceOf(handle) : NOT_A_FOLDER;
  });
}

/** The folder of destination that was dropped. Must be called in the drop event, before anything is awaited. */
export async function droppedDestination(data: DataTransfer): Promise<Picked<Destination>> {
  const items = fileItems(data);
  if (items.length > 1) return 'Drop one folder, not several items.';
  const dropped = items[0]?.getAsFileSystemHandle?.();
  if (!dropped) return 'That is not a folder that this browser can write to.';
  return asking(async () => {
    const handle = await dropped;
    if (!isDirectory(handle)) return NOT_A_FOLDER;
    if (!(await permitted(handle, 'readwrite'))) return `The browser may not write to “${handle.name}”.`;
    return destinationOf(handle);
  });
}

/** The folder of a file input with `webkitdirectory`. */
export function chosenFiles(files: FileList): Picked<Source> {
  const inside = [...files].map((file) => ({ path: file.webkitRelativePath, file }));
  const name = inside[0]?.path.split('/')[0];
  if (!name) return 'That folder holds no files.';
  return { name, ref: { kind: 'files', name, files: inside.map(({ path, file }) => ({ path: below(path), file })) } };
}

/** Asks for the right to read or write, where it is not granted already. */
async function permitted(handle: FileSystemDirectoryHandle, mode: FileSystemPermissionMode): Promise<boolean> {
  if ((await handle.queryPermission({ mode })) === 'granted') return true;
  return (await handle.requestPermission({ mode })) === 'granted';
}

/** A dialog that the user leaves is no failure; every other refusal is a sentence. */
async function asking<T>(request: () => Promise<Picked<T>>): Promise<Picked<T>> {
  try {
    return await request();
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') return undefined;
    return `The browser did not open the folder: ${error instanceof Error ? error.message : String(error)}`;
  }
}

const NOT_A_FOLDER = 'That is a file. Drop the folder that holds it.';

function sourceOf(handle: FileSystemDirectoryHandle): Source {
  return { name: handle.name, ref: { kind: 'directory', handle } };
}

function destinationOf(handle: FileSystemDirectoryHandle): Destination {
  return { name: handle.name, ref: { kind: 'directory', handle } };
}

function fileItems(data: DataTransfer): DataTransferItem[] {
  return [...data.items].filter((item) => item.kind === 'file');
}

function isDirectory(handle: FileSystemHandle | null): handle is FileSystemDirectoryHandle {
  return handle?.kind === 'directory';
}

/** The path without its first folder, which is the picked one. */
function below(path: string): string {
  return path.slice(path.indexOf('/') + 1);
}

async function droppedFiles(entry: FileSystemEntry | null): Promise<Picked<Source>> {
  if (!entry || !isDirectoryEntry(entry)) return NOT_A_FOLDER;
  return asking(async () => {
    const files = await filesBelow(entry, '');
    return { name: entry.name, ref: { kind: 'files', name: entry.name, files } };
  });
}

async function filesBelow(folder: FileSystemDirectoryEntry, path: string): Promise<FolderFile[]> {
  const found: FolderFile[] = [];
  for (const entry of await entriesOf(folder)) {
    if (isDirectoryEntry(entry)) found.push(...(await filesBelow(entry, `${path}${entry.name}/`)));
    else if (isFileEntry(entry)) found.push({ path: `${path}${entry.name}`, file: await fileOf(entry) });
  }
  return found;
}

async function entriesOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    // A reader gives at most a hundred entries at a time, and none when it is through.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}

function isDirectoryEntry(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory;
}

function isFileEntry(entry: FileSystemEntry): entry is FileSystemFileEntry {
  return entry.isFile;
}
