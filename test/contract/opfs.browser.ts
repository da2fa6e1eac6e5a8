import { type Remote, wrap } from 'comlink';
import { expect, onTestFinished, test } from 'vitest';
import { UnshardError } from '../../src/base/errors.js';
import { opfsOutput } from '../../src/io/opfs.js';
import type { OutputTree } from '../../src/io/types.js';
import { rejectionOf } from '../helpers/errors.js';
import { patternBytes } from '../helpers/pattern.js';
import type { Answer, OpfsApi } from './opfs.worker.js';
import { contentOf, sinkContract, writeFile } from './sink.js';

interface TestOutput extends OutputTree {
  file(path: string): Promise<File>;
  clear(): Promise<void>;
}

/** What a call gave, as if it had been made here. */
async function settle<T>(answer: Promise<Answer<T>>): Promise<T> {
  const result = await answer;
  if ('value' in result) return result.value;
  throw 'detail' in result ? new UnshardError(result.detail) : new Error(result.message);
}

function startWorker(): Remote<OpfsApi> {
  const worker = new Worker(new URL('./opfs.worker.ts', import.meta.url), { type: 'module' });
  onTestFinished(() => worker.terminate());
  return wrap<OpfsApi>(worker);
}

/** The output of a worker as an output of the page. */
async function openOutput(folder: string, api = startWorker()): Promise<TestOutput> {
  const id = await settle(api.openOutput(folder));
  return {
    name: 'root',
    has: (path) => settle(api.has(id, path)),
    remove: (path) => settle(api.remove(id, path)),
    file: (path) => settle(api.file(id, path)),
    clear: () => settle(api.clear(id)),
    async create(path, byteLength) {
      const sink = await settle(api.create(id, path, byteLength));
      return {
        write: (offset, bytes) => settle(api.write(sink, offset, bytes)),
        close: () => settle(api.closeSink(sink)),
        abort: () => settle(api.abort(sink)),
      };
    },
    async open(path) {
      const { id: source, ...facts } = await settle(api.openFile(id, path));
      return {
        ...facts,
        read: async (offset, into) => into.set(await settle(api.read(source, offset, into.length))),
        close: () => settle(api.closeSource(source)),
      };
    },
  };
}

function freshName(): string {
  const name = `test-${crypto.randomUUID()}`;
  onTestFinished(async () => {
    const storage = await navigator.storage.getDirectory();
    await storage.removeEntry(name, { recursive: true }).catch(() => undefined);
  });
  return name;
}

async function storedFolders(): Promise<string[]> {
  const names = [];
  for await (const name of (await navigator.storage.getDirectory()).keys()) names.push(name);
  return names;
}

sinkContract("The browser's own storage", () => openOutput(freshName()));

test('a finished file can be had as a file of its own name, outside the worker', async () => {
  const output = await openOutput(freshName());
  await writeFile(output, 'sub/model.safetensors', patternBytes(0, 3_000_000));
  const file = await output.file('sub/model.safetensors');
  expect(file.name).toBe('model.safetensors');
  expect(file.size).toBe(3_000_000);
  const middle = await file.slice(2_000_000, 2_000_100).arrayBuffer();
  expect(new Uint8Array(middle)).toEqual(patternBytes(2_000_000, 100));
  expect(await rejectionOf(output.file('model.safetensors'))).toMatchObject({ code: 'source-missing' });
});

test('an unfinished file cannot be had', async () => {
  const output = await openOutput(freshName());
  const sink = await output.create('a.bin', 5);
  expect(await rejectionOf(output.file('a.bin'))).toMatchObject({ code: 'source-missing' });
  await sink.abort();
});

test('clearing removes all files and the folder, which can then be written to again', async () => {
  const name = freshName();
  const output = await openOutput(name);
  await writeFile(output, 'a.bin', patternBytes(0, 5));
  expect(await storedFolders()).toContain(name);
  await output.clear();
  expect(await storedFolders()).not.toContain(name);
  expect(await output.has('a.bin')).toBe(false);
  await writeFile(output, 'b.bin', patternBytes(9, 5));
  expect(await contentOf(output, 'b.bin')).toEqual(patternBytes(9, 5));
});

test('a dropped or replaced file takes no space', async () => {
  const name = freshName();
  const output = await openOutput(name);
  await (await output.create('dropped.bin', 5)).abort();
  await writeFile(output, 'a.bin', patternBytes(0, 5));
  await writeFile(output, 'a.bin', patternBytes(0, 7));
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle(name);
  const sizes = [];
  for await (const handle of folder.values()) sizes.push((await (handle as FileSystemFileHandle).getFile()).size);
  expect(sizes).toEqual([7]);
});

test('what an earlier worker left is removed at the start', async () => {
  const name = freshName();
  const storage = await navigator.storage.getDirectory();
  const folder = await storage.getDirectoryHandle(name, { create: true });
  await folder.getFileHandle('left', { create: true });
  const output = await openOutput(name);
  expect(await storedFolders()).not.toContain(name);
  await writeFile(output, 'a.bin', patternBytes(0, 5));
  expect(await storedFolders()).toContain(name);
});

test('a folder that another worker writes to is refused and left as it is', async () => {
  const name = freshName();
  const first = await openOutput(name);
  await writeFile(first, 'done.bin', patternBytes(0, 5));
  const sink = await first.create('a.bin', 5);
  const detail = await rejectionOf(openOutput(name));
  expect(detail).toMatchObject({ kind: 'sink', code: 'sink-locked', facts: { file: name } });
  await sink.write(0, patternBytes(0, 5));
  await sink.close();
  expect(await contentOf(first, 'a.bin')).toEqual(patternBytes(0, 5));
  expect(await contentOf(first, 'done.bin')).toEqual(patternBytes(0, 5));
});

test('a folder name that is a path is refused', async () => {
  expect(await rejectionOf(opfsOutput('../other'))).toMatchObject({ kind: 'sink', code: 'bad-path' });
});
