/**
 * From the descriptors that the page sends to the folders that the library reads and writes.
 *
 * @module
 */

import { directoryOutput, directoryTree, type FileTree, mergeTrees, type OutputTree } from '../index.js';
import { blobSource } from '../io/blob.js';
import { flatTree } from '../io/flat.js';
import { openDownloads } from './downloads.js';
import type { InputRef, OutputRef } from './protocol.js';
import { fetchSample } from './sample.js';
import type { SpaceOptions } from './space.js';

/** A folder to write to. */
export interface OutputPlace {
  readonly tree: OutputTree;
  /** A finished file, for the browser to save; absent where the files are in a folder of the user already. */
  readonly file?: (path: string) => Promise<File>;
}

/** Opens a checkpoint folder, or several as one. */
export async function openInput(input: InputRef, signal: AbortSignal): Promise<FileTree> {
  switch (input.kind) {
    case 'directory':
      return directoryTree(input.handle);
    case 'files':
      return flatTree(
        input.name,
        new Map(input.files.map(({ path, file }) => [path, () => blobSource(path, file, file.lastModified)])),
      );
    case 'sample':
      return fetchSample(input.url, signal);
    case 'several':
      return mergeTrees(await Promise.all(input.parts.map((part) => openInput(part, signal))));
  }
}

/** A folder whose entries are asked for once: a browser takes long to list the files of a thousand ranks. */
export function listedOnce(tree: FileTree): FileTree {
  const lists = new Map<string, ReturnType<FileTree['list']>>();
  return {
    name: tree.name,
    list(path) {
      const known = lists.get(path) ?? tree.list(path);
      lists.set(path, known);
      return known;
    },
    open: (path) => tree.open(path),
  };
}

/** Opens a folder of destination. */
export async function openOutput(output: OutputRef, options: Omit<SpaceOptions, 'spaceFor'>): Promise<OutputPlace> {
  return output.kind === 'directory' ? { tree: directoryOutput(output.handle) } : openDownloads(options);
}
