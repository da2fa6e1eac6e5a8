import { expect, test } from 'vitest';
import { fileListTree } from '../../src/io/files.js';
import { readBytes } from '../../src/io/read.js';
import { detailOf } from '../helpers/errors.js';
import { patternBytes } from '../helpers/pattern.js';
import { treeContract } from './tree.js';

/** A file as a browser gives it after a folder was picked: its path starts with the folder's name. */
function picked(path: string, bytes: Uint8Array<ArrayBuffer>): File {
  const file = new File([bytes], path.slice(path.lastIndexOf('/') + 1), { lastModified: 1_700_000_000_123 });
  return Object.defineProperty(file, 'webkitRelativePath', { value: path });
}

treeContract('A picked folder', async (files) =>
  fileListTree(Object.entries(files).map(([path, bytes]) => picked(`root/${path}`, bytes))),
);

test('a source of a picked folder has the time of change of its file', async () => {
  const source = await fileListTree([picked('root/a.pt', patternBytes(0, 3))]).open('a.pt');
  expect(source.modified).toBe(1_700_000_000_123);
});

test('files that were picked one by one lie side by side', async () => {
  const tree = fileListTree([new File([patternBytes(0, 3)], 'a.pt'), new File([patternBytes(9, 3)], 'b.pt')]);
  expect(tree.name).toBe('selected files');
  expect((await tree.list('')).map(({ name }) => name)).toEqual(['a.pt', 'b.pt']);
  expect(await readBytes(await tree.open('b.pt'), 0, 3)).toEqual(patternBytes(9, 3));
});

test('two files of one path are refused', () => {
  const files = [new File([], 'a.pt'), new File([], 'a.pt')];
  expect(detailOf(() => fileListTree(files))).toMatchObject({ code: 'duplicate-file', facts: { file: 'a.pt' } });
  expect(fileListTree(files.slice(1)).name).toBe('selected files');
});
