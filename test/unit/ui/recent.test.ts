import { expect, it } from 'vitest';
import { MAX_RECENT, withFirst } from '../../../src/ui/recent.js';

/** A handle that is the same entry as every other of its name. */
function folder(name: string): FileSystemHandle {
  return {
    name,
    kind: 'directory',
    isSameEntry: async (other) => other.name === name,
    queryPermission: async () => 'granted',
    requestPermission: async () => 'granted',
  };
}

async function namesAfter(...opened: string[]): Promise<string[]> {
  let folders: readonly FileSystemHandle[] = [];
  for (const name of opened) folders = await withFirst(folders, folder(name));
  return folders.map(({ name }) => name);
}

it('puts the newest folder first', async () => {
  expect(await namesAfter('a', 'b')).toEqual(['b', 'a']);
});

it('holds each folder once', async () => {
  expect(await namesAfter('a', 'b', 'a')).toEqual(['a', 'b']);
});

it('lets go of the oldest', async () => {
  const names = await namesAfter('1', '2', '3', '4', '5', '6');
  expect(names).toEqual(['6', '5', '4', '3', '2']);
  expect(names).toHaveLength(MAX_RECENT);
});
