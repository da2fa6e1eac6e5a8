import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import { mergeTrees } from '../../../src/checkpoints/merge-trees.js';
import { memoryTree } from '../../../src/io/memory.js';
import { readBytes } from '../../../src/io/read.js';
import type { FileTree } from '../../../src/io/types.js';
import { BAD_PATHS } from '../../contract/tree.js';
import { MODEL, optimOf, small } from '../../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../../helpers/deepspeed/write.js';
import { rejectionOf } from '../../helpers/errors.js';
import { patternBytes } from '../../helpers/pattern.js';

type Files = Record<string, Uint8Array>;

const WHOLE: Files = { ...writeCheckpoint(small(2)).files };
const TAG = 'global_step7';

/** A folder of the given name. */
function folder(name: string, files: Files): FileTree {
  return { ...memoryTree(files), name };
}

/** The files of the run that belong to `paths`, below a folder in which they lie. */
function pick(paths: readonly string[], below = ''): Files {
  return Object.fromEntries(paths.map((path) => [path.slice(below.length), WHOLE[path] ?? patternBytes(0, 0)]));
}

const NODE_0 = [MODEL, optimOf(0)];
const NODE_1 = [optimOf(1), optimOf(2)];

/** What an inventory says of the model, without where the files lie. */
async function modelOf(tree: FileTree, tag?: string) {
  const { problems, tensors, tag: chosen } = await inspect(tree, tag === undefined ? {} : { tag });
  const names = tensors.map(({ name, shape }) => ({ name, shape }));
  return { codes: problems.map(({ code }) => code), names, path: chosen.path };
}

describe('folders of one run', () => {
  test('the whole run has no problem, and each half lacks the ranks of the other', async () => {
    expect((await modelOf(memoryTree(WHOLE))).codes).toEqual([]);
    const { problems } = await inspect(folder('run', pick(NODE_0)));
    expect(problems).toMatchObject([{ code: 'missing-optim-rank', facts: { missing: '1, 2' } }]);
    expect((await inspect(folder('run', pick(NODE_1)))).problems.length).toBeGreaterThan(0);
  });

  const outer = (paths: readonly string[], name = 'run') => folder(name, pick(paths));
  const tagFolder = (paths: readonly string[], name = TAG) => folder(name, pick(paths, `${TAG}/`));
  const deep = (paths: readonly string[]) =>
    folder(
      'out',
      Object.fromEntries(Object.entries(pick(paths)).map(([path, bytes]) => [`checkpoint-7/${path}`, bytes])),
    );
  test.each([
    ['two outer folders', outer(NODE_0), outer(NODE_1, 'other'), TAG],
    ['an outer folder and a tag folder', outer(NODE_0), tagFolder(NODE_1), TAG],
    ['a tag folder and an outer folder', tagFolder(NODE_0), outer(NODE_1), TAG],
    ['an outer folder and a tag folder of another name', outer(NODE_0), tagFolder(NODE_1, 'node1'), TAG],
    ['two tag folders', tagFolder(NODE_0), tagFolder(NODE_1), ''],
    ['two tag folders of different names', tagFolder(NODE_0, 'a'), tagFolder(NODE_1, 'b'), ''],
    ['the folder of the output and checkpoint-N', deep(NODE_0), outer(NODE_1), `checkpoint-7/${TAG}`],
    ['checkpoint-N and the folder of the output', outer(NODE_0), deep(NODE_1), `checkpoint-7/${TAG}`],
    ['the folder of the output and a tag folder', deep(NODE_0), tagFolder(NODE_1), `checkpoint-7/${TAG}`],
  ])('%s make one checkpoint', async (_, first, second, path) => {
    const expected = await modelOf(memoryTree(WHOLE));
    expect(await modelOf(mergeTrees([first, second]))).toEqual({ ...expected, path });
  });

  test('a third folder fills what two leave', async () => {
    const [one, two, three] = [outer(NODE_0), tagFolder([optimOf(1)]), tagFolder([optimOf(2)])];
    const { problems } = await inspect(mergeTrees([one, two]));
    expect(problems).toMatchObject([{ code: 'missing-optim-rank', facts: { missing: '2' } }]);
    expect((await inspect(mergeTrees([one, two, three]))).problems).toEqual([]);
  });

  test('a tag folder is laid over the folder of its own tag, where there are several', async () => {
    const second = Object.fromEntries(
      Object.entries(WHOLE).map(([path, bytes]) => [path.replace(TAG, 'other'), bytes]),
    );
    const first = folder('run', { ...pick(NODE_0), ...second });
    expect((await modelOf(mergeTrees([first, tagFolder(NODE_1)]), TAG)).codes).toEqual([]);
  });
});

describe('a file in two folders', () => {
  const model = WHOLE[MODEL] ?? patternBytes(0, 0);
  const opened = async (a: Uint8Array, b: Uint8Array, path = MODEL) =>
    mergeTrees([folder('one', { ...pick([optimOf(0)]), [path]: a }), folder('two', { [path]: b })]).open(path);

  test.each([
    ['of torch', MODEL, model],
    ['of text', 'latest', patternBytes(0, 3)],
    ['that is empty', 'notes', patternBytes(0, 0)],
  ])('%s is there once where both are the same', async (_, path, bytes) => {
    const source = await opened(bytes, bytes.slice(), path);
    expect(source.name).toBe(path);
    expect(await readBytes(source, 0, source.size)).toEqual(bytes);
    await source.close();
    const tree = mergeTrees([folder('one', { [path]: bytes }), folder('two', { [path]: bytes })]);
    expect(await tree.list(path.slice(0, Math.max(0, path.lastIndexOf('/'))))).toHaveLength(1);
  });

  test('is refused with both names where the sizes differ', async () => {
    const detail = await rejectionOf(opened(model, model.slice(1)));
    const facts = { file: MODEL, first: 'one', second: 'two' };
    expect(detail).toMatchObject({ kind: 'inconsistent', code: 'folders-differ', facts });
  });

  test('is refused where a recorded CRC-32 differs', async () => {
    const other = writeCheckpoint(small(2, { modelDtype: 'F16' })).files[MODEL] ?? patternBytes(0, 0);
    const size = Math.min(model.length, other.length);
    expect([other.length, size]).toEqual([model.length, model.length]);
    expect(await rejectionOf(opened(model, other.slice()))).toMatchObject({ code: 'folders-differ' });
  });

  test('is refused where a byte differs in a file without CRC-32s', async () => {
    const changed = patternBytes(0, 5_000_000);
    changed[4_999_999] = (changed[4_999_999] ?? 0) ^ 1;
    expect(await rejectionOf(opened(patternBytes(0, 5_000_000), changed, 'notes'))).toMatchObject({
      code: 'folders-differ',
    });
  });

  test('that is a folder in the other is refused when it is listed', async () => {
    const tree = mergeTrees([folder('one', { a: patternBytes(0, 1) }), folder('two', { 'a/b': patternBytes(0, 1) })]);
    expect(await rejectionOf(tree.list(''))).toMatchObject({ code: 'folders-differ', facts: { file: 'a' } });
  });
});

describe('a merged tree', () => {
  const tree = mergeTrees([folder('one', pick(NODE_0)), folder('two', pick(NODE_1))]);

  test.each(['nothing', `${TAG}/nothing`])('has no %s', async (path) => {
    const expected = { kind: 'source', code: 'source-missing', facts: { file: path } };
    expect(await rejectionOf(tree.open(path))).toMatchObject(expected);
    expect(await rejectionOf(tree.list(path))).toMatchObject(expected);
  });

  test.each(BAD_PATHS)('refuses the path %j', async (path) => {
    expect(await rejectionOf(tree.open(path))).toMatchObject({ code: 'bad-path' });
    expect(await rejectionOf(tree.list(path))).toMatchObject({ code: 'bad-path' });
  });

  test('bears the name of the first, and rejects as a tree does that fails', async () => {
    expect(tree.name).toBe('one');
    const broken: FileTree = { ...folder('two', {}), list: () => Promise.reject(new Error('unplugged')) };
    await expect(mergeTrees([folder('one', pick(NODE_0)), broken]).list('')).rejects.toThrow('unplugged');
  });
});
