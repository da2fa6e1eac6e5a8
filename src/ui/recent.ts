/**
 * The folders that were opened last, kept as handles in the browser's database. A browser without one remembers none.
 *
 * @module
 */

import { createStore, del, get, set } from 'idb-keyval';

/** How many folders are remembered: as many as can be told apart at a glance. */
export const MAX_RECENT = 5;

const KEY = 'folders';

/** A list of folders, newest first. */
export interface RecentFolders {
  list(): Promise<readonly FileSystemDirectoryHandle[]>;
  /** Puts a folder first. */
  add(handle: FileSystemDirectoryHandle): Promise<readonly FileSystemDirectoryHandle[]>;
  clear(): Promise<void>;
}

/** Opens the list. Its failures are no news for the user: the list is then empty. */
export function openRecentFolders(): RecentFolders {
  async function stored<T>(work: (store: ReturnType<typeof createStore>) => Promise<T>, otherwise: T): Promise<T> {
    try {
      return await work(createStore('unshard', 'recent'));
    } catch {
      return otherwise;
    }
  }

  async function list(): Promise<readonly FileSystemDirectoryHandle[]> {
    return stored(async (store) => (await get<FileSystemDirectoryHandle[]>(KEY, store)) ?? [], []);
  }

  return {
    list,
    async add(handle) {
      const folders = await withFirst(await list(), handle);
      await stored((store) => set(KEY, folders, store), undefined);
      return folders;
    },
    clear: () => stored((store) => del(KEY, store), undefined),
  };
}

/** The list with one folder first, each folder once, cut to its length. */
export async function withFirst<T extends Pick<FileSystemHandle, 'isSameEntry'>>(
  folders: readonly T[],
  first: T & FileSystemHandle,
): Promise<readonly T[]> {
  const same = await Promise.all(folders.map((folder) => folder.isSameEntry(first)));
  return [first, ...folders.filter((_, i) => !same[i])].slice(0, MAX_RECENT);
}
