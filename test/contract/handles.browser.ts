import { describe, expect, test } from 'vitest';
import { directoryOutput, directoryTree } from '../../src/io/handles.js';
import { readBytes } from '../../src/io/read.js';
import { rejectionOf } from '../helpers/errors.js';
import { patternBytes } from '../helpers/pattern.js';
import { emptyFolder, folderOf, put } from './opfs-folder.js';
import { contentOf, sinkContract, writeFile } from './sink.js';
import { sourceContract } from './source.js';
import { treeContract } from './tree.js';

sourceContract('A file handle', async (bytes) =>
  directoryTree(await folderOf({ 'dir/data.bin': bytes })).open('dir/data.bin'),
);
treeContract('A directory handle', async (files) => directoryTree(await folderOf(files)));
sinkContract('A directory handle', async () => directoryOutput(await emptyFolder()));

describe('a file that is not the one that was opened', () => {
  test.each([
    [10, 'has another size', 11],
    [10, 'has other bytes', 10],
    [2_000_000, 'has other bytes', 2_000_000],
  ])('is refused where it had %i bytes and %s', async (before, _, after) => {
    const root = await folderOf({ 'a.pt': patternBytes(0, before) });
    const source = await directoryTree(root).open('a.pt');
    expect(await readBytes(source, 0, before)).toHaveLength(before);
    // The clocks of file systems are coarse: what is written twice in one tick has one time.
    await new Promise((resolve) => setTimeout(resolve, 50));
    await put(root, 'a.pt', patternBytes(1, after));
    const detail = await rejectionOf(readBytes(source, 0, before));
    expect(detail).toMatchObject({ kind: 'source', code: 'source-changed', facts: { file: 'a.pt' } });
  });

  test('is refused where it was removed', async () => {
    const root = await folderOf({ 'a.pt': patternBytes(0, 10) });
    const source = await directoryTree(root).open('a.pt');
    await root.removeEntry('a.pt');
    expect((await rejectionOf(readBytes(source, 0, 10))).code).toMatch(/^source-(missing|changed)$/);
  });
});

test('a name that belongs to a folder is refused, and the folder stays', async () => {
  const root = await folderOf({ 'a/b': patternBytes(0, 1) });
  const output = directoryOutput(root);
  expect(await rejectionOf(output.create('a', 1))).toMatchObject({ kind: 'sink', code: 'sink-name-taken' });
  expect(await rejectionOf(output.create('a/b/c', 1))).toMatchObject({ kind: 'sink', code: 'sink-name-taken' });
  await output.remove('a');
  expect(await contentOf(output, 'a/b')).toEqual(patternBytes(0, 1));
});

test('a folder that was removed is told', async () => {
  const root = await emptyFolder();
  const output = directoryOutput(await root.getDirectoryHandle('inner', { create: true }));
  await root.removeEntry('inner', { recursive: true });
  expect(await rejectionOf(output.create('a.bin', 1))).toMatchObject({ kind: 'sink', code: 'sink-gone' });
});

/** An object that behaves as `real` does, except for the given methods. */
function withMethods<T extends object>(real: T, changed: Readonly<Partial<T>>): T {
  return new Proxy(real, {
    get(target, key) {
      const value = Reflect.get(key in changed ? changed : target, key);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** A real folder whose files fail in one step of being written, as they do when a permission or a disk ends. */
function failing(
  root: FileSystemDirectoryHandle,
  step: 'getFileHandle' | 'createWritable' | 'write' | 'close',
  error: Error,
): FileSystemDirectoryHandle {
  const fail = () => Promise.reject(error);
  return withMethods(root, {
    async getFileHandle(name, options) {
      if (step === 'getFileHandle' && options?.create) throw error;
      const handle = await root.getFileHandle(name, options);
      if (step === 'getFileHandle') return handle;
      if (step === 'createWritable') return withMethods(handle, { createWritable: fail });
      return withMethods(handle, {
        createWritable: async (settings) => withMethods(await handle.createWritable(settings), { [step]: fail }),
      });
    },
  });
}

describe('a failure of the browser', () => {
  const dom = (name: string) => new DOMException('it failed', name);

  test.each([
    ['getFileHandle', dom('NotAllowedError'), 'sink-not-allowed'],
    ['getFileHandle', new TypeError('Name is not allowed.'), 'sink-bad-name'],
    ['createWritable', dom('NotAllowedError'), 'sink-not-allowed'],
    ['createWritable', dom('InvalidStateError'), 'sink-locked'],
    ['write', dom('QuotaExceededError'), 'sink-no-space'],
    ['write', dom('NotAllowedError'), 'sink-not-allowed'],
    ['close', dom('AbortError'), 'sink-blocked'],
    ['close', dom('NoModificationAllowedError'), 'sink-locked'],
    ['close', new Error('what is this'), 'sink-failed'],
  ] as const)('in %s, %s, is %s and leaves nothing behind', async (step, error, code) => {
    const root = await emptyFolder();
    const output = directoryOutput(failing(root, step, error));
    const detail = await rejectionOf(writeOrDrop(output));
    expect(detail).toMatchObject({ kind: 'sink', code, facts: { file: 'a.bin', needed: 5 } });
    expect(await directoryTree(root).list('')).toEqual([]);
  });

  test('leaves an older file as it was', async () => {
    const root = await folderOf({ 'a.bin': patternBytes(7, 7) });
    const output = directoryOutput(failing(root, 'close', dom('AbortError')));
    expect((await rejectionOf(writeOrDrop(output))).code).toBe('sink-blocked');
    expect(await contentOf(output, 'a.bin')).toEqual(patternBytes(7, 7));
  });

  test('does not come where nothing fails', async () => {
    const output = directoryOutput(withMethods(await emptyFolder(), {}));
    await writeFile(output, 'a.bin', patternBytes(0, 5));
    expect(await contentOf(output, 'a.bin')).toEqual(patternBytes(0, 5));
  });

  test('when a folder is listed or a file is opened is told', async () => {
    const root = await folderOf({ 'a.pt': patternBytes(0, 5) });
    const denied = {
      values: () => {
        throw dom('NotAllowedError');
      },
      getFileHandle: () => Promise.reject(dom('NotAllowedError')),
    };
    const tree = directoryTree(withMethods(root, denied));
    expect(await rejectionOf(tree.list(''))).toMatchObject({ code: 'source-not-allowed', facts: { file: 'root' } });
    expect(await rejectionOf(tree.open('a.pt'))).toMatchObject({ code: 'source-not-allowed', facts: { file: 'a.pt' } });
    expect(await rejectionOf(directoryOutput(withMethods(root, denied)).has('a.pt'))).toMatchObject({
      code: 'sink-not-allowed',
    });
  });

  async function writeOrDrop(output: ReturnType<typeof directoryOutput>): Promise<void> {
    const sink = await output.create('a.bin', 5);
    try {
      await sink.write(0, patternBytes(0, 5));
      await sink.close();
    } catch (error) {
      await sink.abort();
      throw error;
    }
  }
});
