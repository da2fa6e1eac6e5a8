import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { folderOutput, openFolder } from '../../src/io/node.js';
import { temporaryFolder } from '../helpers/cli.js';
import { sinkContract } from './sink.js';
import { sourceContract } from './source.js';
import { treeContract } from './tree.js';

async function folderOf(files: Readonly<Record<string, Uint8Array>>): Promise<string> {
  const root = join(await temporaryFolder(), 'root');
  await mkdir(root);
  for (const [path, bytes] of Object.entries(files)) {
    await mkdir(join(root, dirname(path)), { recursive: true });
    await writeFile(join(root, path), bytes);
  }
  return root;
}

sourceContract('A file on disk', async (bytes) =>
  (await openFolder(await folderOf({ 'dir/data.bin': bytes }))).open('dir/data.bin'),
);
treeContract('A folder on disk', async (files) => openFolder(await folderOf(files)));
sinkContract('A folder on disk', async () => folderOutput(join(await temporaryFolder(), 'root')));
