import { sourceFailure } from './failures.js';
import { pathSegments, plainFilePath, splitFilePath } from './path.js';
import type { ByteSource, FileTree, TreeEntry } from './types.js';

/** A tree over files that are known by their full paths, each with what opens it. Folders are those the paths name. */
export function flatTree(name: string, files: ReadonlyMap<string, () => ByteSource>): FileTree {
  const folders = new Map<string, Map<string, TreeEntry>>([['', new Map()]]);
  for (const path of files.keys()) {
    let folder = '';
    const { folders: ancestors, name: file } = splitFilePath(path, 'source');
    for (const ancestor of ancestors) {
      entriesOf(folders, folder).set(ancestor, { name: ancestor, kind: 'directory' });
      folder = folder === '' ? ancestor : `${folder}/${ancestor}`;
    }
    entriesOf(folders, folder).set(file, { name: file, kind: 'file' });
  }
  return {
    name,
    async list(path) {
      const entries = folders.get(pathSegments(path, 'source').join('/'));
      if (entries === undefined) throw sourceFailure('source-missing', path);
      return [...entries.values()];
    },
    async open(path) {
      const open = files.get(plainFilePath(path, 'source'));
      if (open === undefined) throw sourceFailure('source-missing', path);
      return open();
    },
  };
}

function entriesOf(folders: Map<string, Map<string, TreeEntry>>, path: string): Map<string, TreeEntry> {
  const entries = folders.get(path) ?? new Map<string, TreeEntry>();
  folders.set(path, entries);
  return entries;
}
