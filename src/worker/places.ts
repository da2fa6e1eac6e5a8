/**
 * From the descriptors that the page sends to the folders that the library reads and writes.
 *
 * @module
 */

import { directoryOutput, directoryTree, type FileTree, mergeTrees, type OutputTree } from '../index.js';
import { blobSource } from '../io/blob.js';
import { flatTree } from '../io/flat.js';
import { openDownloads } from './downloads.js';
import type { FileView, FolderFile, InputRef, OutputRef } from './protocol.js';
import { fetchSample } from './sample.js';

/** A folder to write to, and how its finished files reach the user. */
export interface OutputPlace {
  readonly tree: OutputTree;
  /** The files to offer as downloads; none where they are in a folder of the user already. */
  downloads(files: readonly FileView[]): Promise<readonly FolderFile[]>;
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

/** Opens a folder of destination. */
export async function openOutput(output: OutputRef): Promise<OutputPlace> {
  if (output.kind === 'directory') return { tree: directoryOutput(output.handle), downloads: async () => [] };
  const tree = await openDownloads();
  return {
    tree,
    downloads: (files) => Promise.all(files.map(async ({ path }) => ({ path, file: await tree.file(path) }))),
  };
}
