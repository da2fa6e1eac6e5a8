import { describe, expect, test } from 'vitest';
import { readBytes } from '../../src/io/read.js';
import type { FileTree } from '../../src/io/types.js';
import { rejectionOf } from '../helpers/errors.js';
import { patternBytes } from '../helpers/pattern.js';

/** Opens a folder named `root` that holds the given files by path. */
export type MakeTree = (files: Readonly<Record<string, Uint8Array<ArrayBuffer>>>) => Promise<FileTree>;

/** Paths that could lead out of the folder, or mean different things on different systems. */
export const BAD_PATHS = ['../a', 'a/../../b', '/a', 'a//b', 'a/', './a', 'a\\b', 'a\0b'];

const FILES = {
  latest: patternBytes(0, 3),
  'step/one.pt': patternBytes(100, 20),
  'step/two.pt': patternBytes(200, 30),
  'step/deep/er/three.pt': patternBytes(300, 40),
};

/** Proves what `FileTree` promises. */
export function treeContract(name: string, make: MakeTree): void {
  describe(`${name} as a tree`, () => {
    const listed = async (tree: FileTree, path: string) =>
      (await tree.list(path)).map((entry) => `${entry.kind} ${entry.name}`).sort();

    test('tells its name and lists each folder', async () => {
      const tree = await make(FILES);
      expect(tree.name).toBe('root');
      expect(await listed(tree, '')).toEqual(['directory step', 'file latest']);
      expect(await listed(tree, 'step')).toEqual(['directory deep', 'file one.pt', 'file two.pt']);
      expect(await listed(tree, 'step/deep')).toEqual(['directory er']);
      expect(await listed(tree, 'step/deep/er')).toEqual(['file three.pt']);
    });

    test('opens files by path, each with its own life', async () => {
      const tree = await make(FILES);
      const first = await tree.open('step/deep/er/three.pt');
      const second = await tree.open('step/deep/er/three.pt');
      expect(first.name).toBe('step/deep/er/three.pt');
      expect(first.size).toBe(40);
      expect(await readBytes(first, 0, 40)).toEqual(patternBytes(300, 40));
      await first.close();
      expect(await readBytes(second, 7, 2)).toEqual(patternBytes(307, 2));
      await second.close();
    });

    test.each(['nothing', 'step/nothing', 'nothing/at/all', 'latest', 'latest/x'])('lists no %s', async (path) => {
      const tree = await make(FILES);
      const detail = await rejectionOf(tree.list(path));
      expect(detail).toMatchObject({ kind: 'source', code: 'source-missing', facts: { file: path } });
    });

    test.each(['nothing', 'step', 'step/nothing', 'nothing/at/all', 'latest/x'])('opens no %s', async (path) => {
      const tree = await make(FILES);
      const detail = await rejectionOf(tree.open(path));
      expect(detail).toMatchObject({ kind: 'source', code: 'source-missing', facts: { file: path } });
    });

    test.each(BAD_PATHS)('refuses the path %j', async (path) => {
      const tree = await make(FILES);
      const expected = { kind: 'source', code: 'bad-path', facts: { file: path } };
      expect(await rejectionOf(tree.open(path))).toMatchObject(expected);
      expect(await rejectionOf(tree.list(path))).toMatchObject(expected);
    });

    test('opens no file by the empty path', async () => {
      const tree = await make(FILES);
      expect(await rejectionOf(tree.open(''))).toMatchObject({ kind: 'source', code: 'bad-path' });
    });

    test.each(['__proto__', 'constructor', 'a b.pt', 'modèle.pt', '模型.pt', '😀.pt'])(
      'takes the name %s',
      async (file) => {
        const path = `${file}/${file}`;
        const tree = await make(Object.fromEntries([[path, patternBytes(0, 5)]]));
        expect(await listed(tree, '')).toEqual([`directory ${file}`]);
        expect(await listed(tree, file)).toEqual([`file ${file}`]);
        const source = await tree.open(path);
        expect(source.size).toBe(5);
        await source.close();
      },
    );
  });
}
