/**
 * Reads and writes through the browser's file APIs and does nothing else.
 *
 * @module
 */

import { mapBounded } from '../../../src/base/concurrent.js';
import { type BareCopy, type BareTile, bareTiles, FILES_AT_ONCE, lanesOfFile, PIECE_BYTES } from './bare-copy.js';

/** What the page asks of the worker. Without an output, files are made in the browser's own storage. */
export interface BareTask {
  readonly copy: BareCopy;
  readonly input: FileSystemDirectoryHandle;
  readonly output: FileSystemDirectoryHandle | undefined;
}

/** A handle as dedicated workers have it. The DOM library describes the page only. */
interface WorkerFileHandle extends FileSystemFileHandle {
  createSyncAccessHandle(): Promise<{
    write(bytes: ArrayBuffer, options: { readonly at: number }): number;
    close(): void;
  }>;
}

interface Sink {
  write(at: number, bytes: ArrayBuffer): Promise<void> | void;
  close(): Promise<void> | void;
}

addEventListener('message', ({ data }: MessageEvent<BareTask>) => {
  copyAll(data).then(
    (files) => postMessage({ files }),
    (error: unknown) => postMessage({ error: String(error) }),
  );
});

/** Gives the files that lie in the browser's own storage. */
async function copyAll({ copy, input, output }: BareTask): Promise<File[]> {
  const tiles = bareTiles(copy);
  const sources = new Map<string, File>();
  for (const path of new Set(copy.reads.map((read) => read.path))) sources.set(path, await fileAt(input, path));
  const lanes = lanesOfFile(tiles.filter((ofFile) => ofFile.length > 1).length);
  const home = output ?? (await navigator.storage.getDirectory());
  await mapBounded([...copy.files.entries()], FILES_AT_ONCE, async ([i, { path }]) => {
    const handle = await home.getFileHandle(path, { create: true });
    const sink = await (output ? folderSink(handle) : storageSink(handle as WorkerFileHandle));
    await mapBounded(tiles[i] ?? [], lanes, async (tile) => sink.write(tile.at, await bytesFor(tile, sources)));
    await sink.close();
  });
  if (output) return [];
  return Promise.all(copy.files.map(async ({ path }) => (await home.getFileHandle(path)).getFile()));
}

/** As many bytes as the tile has: of what is read where that is enough, for what is written does not matter. */
async function bytesFor(tile: BareTile, sources: ReadonlyMap<string, File>): Promise<ArrayBuffer> {
  const read: (ArrayBuffer | undefined)[] = await Promise.all(
    tile.reads.map(({ path, offset, length }) =>
      sources
        .get(path)
        ?.slice(offset, offset + length)
        .arrayBuffer(),
    ),
  );
  const long = read.find((bytes) => bytes !== undefined && bytes.byteLength >= tile.length);
  if (!long) return new ArrayBuffer(tile.length);
  return tile.length === PIECE_BYTES ? long : long.slice(0, tile.length);
}

async function folderSink(handle: FileSystemFileHandle): Promise<Sink> {
  const writable = await handle.createWritable();
  return {
    write: (position, data) => writable.write({ type: 'write', position, data }),
    close: () => writable.close(),
  };
}

async function storageSink(handle: WorkerFileHandle): Promise<Sink> {
  const access = await handle.createSyncAccessHandle();
  return {
    write: (at, bytes) => {
      access.write(bytes, { at });
    },
    close: () => access.close(),
  };
}

async function fileAt(root: FileSystemDirectoryHandle, path: string): Promise<File> {
  const names = path.split('/');
  let folder = root;
  for (const name of names.slice(0, -1)) folder = await folder.getDirectoryHandle(name);
  return (await folder.getFileHandle(names.at(-1) ?? '')).getFile();
}
