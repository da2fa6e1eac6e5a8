import { UnshardError } from '../base/errors.js';
import { blobSource } from './blob.js';
import { flatTree } from './flat.js';
import type { ByteSource, FileTree } from './types.js';

/** Name of a tree of files that were picked one by one, so that no folder names them. */
const NO_FOLDER = 'selected files';

/**
 * The folder that the user picked with `<input type="file" webkitdirectory>`, for browsers without the File System
 * Access API. Each file's path starts with the folder's name, which becomes the tree's. Files picked one by one lie side
 * by side.
 *
 * @throws UnshardError `duplicate-file` where two files have one path.
 */
export function fileListTree(files: Iterable<File>): FileTree {
  const opened = new Map<string, () => ByteSource>();
  let name = NO_FOLDER;
  for (const file of files) {
    const slash = file.webkitRelativePath.indexOf('/');
    if (slash > 0) name = file.webkitRelativePath.slice(0, slash);
    const path = slash > 0 ? file.webkitRelativePath.slice(slash + 1) : file.name;
    if (opened.has(path)) throw duplicate(path);
    opened.set(path, () => blobSource(path, file, file.lastModified));
  }
  return flatTree(name, opened);
}

function duplicate(path: string): UnshardError {
  return new UnshardError({
    kind: 'source',
    code: 'duplicate-file',
    message: `Two of the selected files have the path ${path}.`,
    advice: 'Select one folder.',
    facts: { file: path },
  });
}
