import { expect, onTestFinished, test } from 'vitest';
import { run } from '../../../src/engine/run.js';
import { fileListTree } from '../../../src/io/files.js';
import { directoryTree } from '../../../src/io/handles.js';
import { memoryOutput } from '../../../src/io/memory.js';
import type { FileTree } from '../../../src/io/types.js';
import { plan } from '../../../src/plan/make.js';
import { openThreads } from '../../../src/worker/threads.js';
import { inventoryOf, masterOf } from '../../helpers/inventory.js';
import { patternBytes } from '../../helpers/pattern.js';

const SIZE = 400_000;
const BYTES = patternBytes(0, SIZE);
const TENSORS = Array.from({ length: 20 }, (_, i) => masterOf(`w${i}`, 4000 + i, i * 17_000));

async function storedFolder(): Promise<FileTree> {
  const root = await navigator.storage.getDirectory();
  const folder = await root.getDirectoryHandle('threads', { create: true });
  onTestFinished(() => root.removeEntry('threads', { recursive: true }));
  const stream = await (await folder.getFileHandle('rank0.pt', { create: true })).createWritable();
  await stream.write(BYTES);
  await stream.close();
  return directoryTree(folder);
}

const FOLDERS: readonly [string, () => Promise<FileTree>][] = [
  ['a folder', storedFolder],
  ['files that were picked', async () => fileListTree([new File([BYTES], 'rank0.pt', { lastModified: 1 })])],
];

test.each(FOLDERS)('workers read %s and write the bytes of one thread', async (_, openTree) => {
  const input = await openTree();
  const { size, modified } = await input.open('rank0.pt');
  const made = plan(inventoryOf(TENSORS, { sources: [{ path: 'rank0.pt', size, modified }] }), {
    dtype: 'bf16',
    maxShardSize: 20_000,
  });
  const [alone, together] = [memoryOutput(), memoryOutput()];
  await run(made, { input, output: alone });
  const threads = openThreads(made, 2);
  if (!threads) throw new Error('two threads were asked for');
  onTestFinished(() => threads.close());
  const report = await run(made, { input, output: together, threads });
  expect(report.backend.threads).toBe(2);
  expect(together.files).toEqual(alone.files);
});
