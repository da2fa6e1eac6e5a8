import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { folderOutput, openFolder } from '../../../src/io/node.js';
import { readBytes } from '../../../src/io/read.js';
import { temporaryFolder } from '../../helpers/cli.js';
import { rejectionOf } from '../../helpers/errors.js';
import { patternBytes } from '../../helpers/pattern.js';

const LINUX = process.platform === 'linux';

/** Names of the unfinished files in a folder. */
function partials(folder: string): string[] {
  return readdirSync(folder).filter((name) => name.includes('.partial-'));
}

/** Paths that this process has open in a folder. */
function openPaths(folder: string): string[] {
  const links = readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return [];
    }
  });
  return links.filter((path) => path.startsWith(folder));
}

test('a path that names no folder is a usage error', async () => {
  const root = await temporaryFolder();
  writeFileSync(join(root, 'file'), '');
  const missing = join(root, 'missing');
  expect(await rejectionOf(openFolder(missing))).toMatchObject({
    kind: 'usage',
    code: 'folder-missing',
    facts: { file: missing },
  });
  expect(await rejectionOf(openFolder(join(root, 'file')))).toMatchObject({ kind: 'usage', code: 'not-a-folder' });
  expect((await openFolder(root)).name).toBe(root.slice(root.lastIndexOf('/') + 1));
});

test('symbolic links are followed, and one that leads nowhere says so when it is opened', async () => {
  const root = await temporaryFolder();
  mkdirSync(join(root, 'blobs'));
  writeFileSync(join(root, 'blobs', 'abc'), 'weights');
  symlinkSync('blobs/abc', join(root, 'model.pt'));
  symlinkSync('blobs', join(root, 'step'));
  symlinkSync('gone', join(root, 'lost.pt'));
  symlinkSync('loop.pt', join(root, 'loop.pt'));
  const tree = await openFolder(root);
  const kinds = new Map((await tree.list('')).map(({ name, kind }) => [name, kind]));
  expect(kinds).toEqual(
    new Map([
      ['blobs', 'directory'],
      ['model.pt', 'file'],
      ['step', 'directory'],
      ['lost.pt', 'file'],
      ['loop.pt', 'file'],
    ]),
  );
  for (const path of ['model.pt', 'step/abc']) {
    const source = await tree.open(path);
    expect(new TextDecoder().decode(await readBytes(source, 0, source.size))).toBe('weights');
    await source.close();
  }
  for (const path of ['lost.pt', 'loop.pt']) {
    expect(await rejectionOf(tree.open(path))).toMatchObject({ code: 'source-missing', facts: { file: path } });
  }
});

test.runIf(LINUX)('a named pipe is not opened, which would wait for ever', async () => {
  const root = await temporaryFolder();
  execFileSync('mkfifo', [join(root, 'pipe.pt')]);
  const detail = await rejectionOf((await openFolder(root)).open('pipe.pt'));
  expect(detail).toMatchObject({ code: 'source-not-a-file', facts: { file: 'pipe.pt' } });
});

test.runIf(LINUX)('a file takes a handle from its first read until it is closed', async () => {
  const root = await temporaryFolder();
  writeFileSync(join(root, 'a.pt'), 'weights');
  const source = await (await openFolder(root)).open('a.pt');
  expect(openPaths(root)).toEqual([]);
  await Promise.all([readBytes(source, 0, 3), readBytes(source, 3, 4)]);
  expect(openPaths(root)).toEqual([join(root, 'a.pt')]);
  await source.close();
  expect(openPaths(root)).toEqual([]);
});

test.each<[string, (path: string) => void]>([
  ['grew', (path) => writeFileSync(path, 'x', { flag: 'a' })],
  ['was cut', (path) => truncateSync(path, 5)],
  ['was written again, as long as before', (path) => writeFileSync(path, 'WEIGHTS')],
])('a file that %s while it was read is refused', async (_, change) => {
  const root = await temporaryFolder();
  const path = join(root, 'a.pt');
  writeFileSync(path, 'weights');
  utimesSync(path, 1_700_000_000, 1_700_000_000);
  const source = await (await openFolder(root)).open('a.pt');
  expect(source.modified).toBe(1_700_000_000_000);
  expect(await readBytes(source, 0, 7)).toHaveLength(7);
  change(path);
  const detail = await rejectionOf(readBytes(source, 0, 7));
  expect(detail).toMatchObject({ kind: 'source', code: 'source-changed', facts: { file: 'a.pt' } });
  await source.close();
});

test.each([100, 200_000])(
  'reads of %i bytes are right, refuse a file that changed, and leave it closed',
  async (length) => {
    const root = await temporaryFolder();
    const bytes = patternBytes(0, 300_000);
    writeFileSync(join(root, 'a.pt'), bytes);
    const source = await (await openFolder(root)).open('a.pt');
    expect(await readBytes(source, 0, 10)).toEqual(bytes.slice(0, 10));
    expect(await readBytes(source, 70_000, length)).toEqual(bytes.slice(70_000, 70_000 + length));
    writeFileSync(join(root, 'a.pt'), bytes.fill(1));
    utimesSync(join(root, 'a.pt'), 1, 1);
    expect(await rejectionOf(readBytes(source, 70_000, length))).toMatchObject({ code: 'source-changed' });
    await source.close();
    if (LINUX) expect(openPaths(root)).toEqual([]);
  },
);

test('a file that was replaced or removed before its first read is refused', async () => {
  const root = await temporaryFolder();
  for (const name of ['a.pt', 'b.pt']) writeFileSync(join(root, name), 'weights');
  const tree = await openFolder(root);
  const replaced = await tree.open('a.pt');
  const removed = await tree.open('b.pt');
  writeFileSync(join(root, 'new'), 'weights!');
  renameSync(join(root, 'new'), join(root, 'a.pt'));
  unlinkSync(join(root, 'b.pt'));
  expect(await rejectionOf(readBytes(replaced, 0, 7))).toMatchObject({ code: 'source-changed' });
  expect(await rejectionOf(readBytes(removed, 0, 7))).toMatchObject({ code: 'source-missing' });
  await Promise.all([replaced.close(), removed.close()]);
});

test('a file is written beside its place and leaves nothing else there', async () => {
  const root = await temporaryFolder();
  const sink = await folderOutput(join(root, 'new', 'folder')).create('a.bin', 3);
  await sink.write(0, new Uint8Array([1, 2, 3]));
  expect(partials(join(root, 'new', 'folder'))).toEqual([
    expect.stringMatching(new RegExp(`^a\\.bin\\.partial-[0-9a-f]+-${process.pid}-[0-9a-f]+-[0-9a-f]+$`)),
  ]);
  await sink.close();
  expect(readdirSync(join(root, 'new', 'folder'))).toEqual(['a.bin']);
});

describe('unfinished files', () => {
  const sinkOf = async (root: string, file = 'a.bin') => folderOutput(root).create(file, 2);

  /** Leaves an unfinished a.bin, as a process of this number would. */
  async function leave(root: string, pid: number, host?: string): Promise<string> {
    const sink = await sinkOf(root);
    const [, own] = /^a\.bin\.partial-([0-9a-f]+)-/.exec(partials(root)[0] ?? '') ?? [];
    await sink.abort();
    const name = `a.bin.partial-${host ?? own}-${pid}-f00-ba4`;
    writeFileSync(join(root, name), 'left');
    return name;
  }

  test('of a process that is no more are removed when the file is written again', async () => {
    const root = await temporaryFolder();
    const { pid } = spawnSync('true');
    const left = await leave(root, pid);
    expect(readFileSync(join(root, left), 'utf8')).toBe('left');
    const sink = await sinkOf(root);
    expect(existsSync(join(root, left))).toBe(false);
    await sink.write(0, new Uint8Array([7]));
    await sink.close();
    expect(readdirSync(root)).toEqual(['a.bin']);
    expect([...readFileSync(join(root, 'a.bin'))]).toEqual([7, 0]);
  });

  test('of an earlier process of our number are removed: in a container all have the same', async () => {
    const root = await temporaryFolder();
    const left = await leave(root, process.pid);
    await (await sinkOf(root)).close();
    expect(left).toContain(`-${process.pid}-f00-`);
    expect(readdirSync(root)).toEqual(['a.bin']);
  });

  test('of a process that still runs, of another machine, and of other files stay', async () => {
    const root = await temporaryFolder();
    const { pid } = spawnSync('true');
    const running = await leave(root, process.ppid);
    await (await sinkOf(root)).close();
    expect(partials(root)).toEqual([running]);
    unlinkSync(join(root, running));
    const elsewhere = await leave(root, pid, 'abc');
    await (await sinkOf(root)).close();
    expect(partials(root)).toEqual([elsewhere]);
    unlinkSync(join(root, elsewhere));
    const left = await leave(root, pid);
    await (await sinkOf(root, 'other.bin')).close();
    expect(partials(root)).toEqual([left]);
  });

  test('of all writers of the named files are swept', async () => {
    const root = await temporaryFolder();
    const [running, sink] = [await leave(root, process.ppid), await sinkOf(root, 'sub/b.bin')];
    const mine = await sinkOf(root, 'mine.bin');
    writeFileSync(join(root, 'a.bin.partial-notes'), 'of somebody');
    const output = folderOutput(root);
    await output.sweep(['a.bin', 'sub/b.bin', 'none/c.bin']);
    expect(existsSync(join(root, running))).toBe(false);
    expect(readdirSync(join(root, 'sub'))).toEqual([]);
    expect(await rejectionOf(sink.close())).toMatchObject({ kind: 'sink', code: 'sink-locked' });
    await sink.abort();
    await mine.close();
    expect(readdirSync(root).sort()).toEqual(['a.bin.partial-notes', 'mine.bin']);
  });

  test('of two writers of one file both get to its end, and the last one stands', async () => {
    const root = await temporaryFolder();
    const [first, second] = [await sinkOf(root), await sinkOf(root)];
    expect(partials(root)).toHaveLength(2);
    await first.write(0, new Uint8Array([1, 1]));
    await second.write(0, new Uint8Array([2, 2]));
    await first.close();
    await second.close();
    expect([...readFileSync(join(root, 'a.bin'))]).toEqual([2, 2]);
    expect(readdirSync(root)).toEqual(['a.bin']);
  });

  test('that were taken away are neither put in place nor removed', async () => {
    const root = await temporaryFolder();
    const sink = await sinkOf(root);
    const partial = join(root, partials(root)[0] ?? '');
    unlinkSync(partial);
    writeFileSync(partial, 'theirs');
    expect(await rejectionOf(sink.close())).toMatchObject({ kind: 'sink', code: 'sink-locked' });
    await sink.abort();
    expect(readFileSync(partial, 'utf8')).toBe('theirs');
    expect(existsSync(join(root, 'a.bin'))).toBe(false);
  });
});

test('a sub-folder is removed with what is in it, and nothing happens where there is none', async () => {
  const root = await temporaryFolder();
  const output = folderOutput(root);
  for (const file of ['sub/deep/a.bin', 'b.bin']) await (await output.create(file, 1)).close();
  await output.removeFolder('sub');
  await output.removeFolder('sub');
  expect(readdirSync(root)).toEqual(['b.bin']);
  expect(await rejectionOf(output.removeFolder('..'))).toMatchObject({ kind: 'sink', code: 'bad-path' });
  expect(await rejectionOf(output.removeFolder(''))).toMatchObject({ kind: 'sink', code: 'bad-path' });
});

describe('a folder that was made for an output', () => {
  test('goes with it, and the ones around it that were made too', async () => {
    const folder = await temporaryFolder();
    const sink = await folderOutput(join(folder, 'a/b')).create('sub/model.safetensors', 4);
    await sink.write(0, new Uint8Array(4));
    await sink.abort();
    expect(readdirSync(folder)).toEqual([]);
  });

  test('goes with the last finished file that is removed', async () => {
    const folder = await temporaryFolder();
    const output = folderOutput(join(folder, 'weights'));
    for (const name of ['one', 'two']) await (await output.create(name, 0)).close();
    await output.remove('one');
    expect(readdirSync(folder)).toEqual(['weights']);
    await output.remove('two');
    expect(readdirSync(folder)).toEqual([]);
  });

  test('stays with what others put in it, and as long as another file is written', async () => {
    const folder = await temporaryFolder();
    const output = folderOutput(join(folder, 'weights'));
    const [first, second] = [await output.create('one', 0), await output.create('two', 0)];
    await first.abort();
    expect(partials(join(folder, 'weights'))).toHaveLength(1);
    writeFileSync(join(folder, 'weights/notes'), '');
    await second.abort();
    expect(readdirSync(join(folder, 'weights'))).toEqual(['notes']);
  });

  test('stays where it was there before', async () => {
    const folder = await temporaryFolder();
    await (await folderOutput(folder).create('one', 0)).abort();
    expect(existsSync(folder)).toBe(true);
  });
});

test.each(['', '/sub/folder'])(
  'a file in the place of a folder to write to is told (below it: "%s")',
  async (below) => {
    const file = join(await temporaryFolder(), 'weights');
    writeFileSync(file, 'mine');
    const failure = await rejectionOf(folderOutput(file + below).create('model.safetensors', 4));
    expect(failure).toMatchObject({ kind: 'usage', code: 'not-a-folder', facts: { file } });
    expect(readFileSync(file, 'utf8')).toBe('mine');
  },
);

test('a link in the way of an output is replaced, not followed', async () => {
  const root = await temporaryFolder();
  writeFileSync(join(root, 'precious'), 'keep me');
  symlinkSync('precious', join(root, 'a.bin'));
  const sink = await folderOutput(root).create('a.bin', 1);
  await sink.close();
  expect(readFileSync(join(root, 'precious'), 'utf8')).toBe('keep me');
  expect(lstatSync(join(root, 'a.bin')).isFile()).toBe(true);
});

test('a name that is taken or too long is refused before anything is written', async () => {
  const root = await temporaryFolder();
  mkdirSync(join(root, 'folder'));
  writeFileSync(join(root, 'file'), '');
  symlinkSync('/dev/null', join(root, 'device'));
  const output = folderOutput(root);
  for (const name of ['folder', 'device']) {
    expect(await rejectionOf(output.create(name, 1))).toMatchObject({ kind: 'sink', code: 'sink-name-taken' });
  }
  expect(await rejectionOf(output.create('file/a.bin', 1))).toMatchObject({ kind: 'sink', code: 'sink-name-taken' });
  expect(await rejectionOf(folderOutput(join(root, 'file')).create('a.bin', 1))).toMatchObject({
    code: 'not-a-folder',
  });
  const long = 'x'.repeat(300);
  expect(await rejectionOf(output.create(long, 1))).toMatchObject({ code: 'sink-bad-name', facts: { file: long } });
  expect(readdirSync(root).sort()).toEqual(['device', 'file', 'folder']);
  expect(lstatSync(join(root, 'device')).isSymbolicLink()).toBe(true);
});

test.runIf(LINUX)('a folder that may not be written is refused', async () => {
  const detail = await rejectionOf(folderOutput('/sys/unshard').create('a.bin', 1));
  expect(detail).toMatchObject({ kind: 'sink', code: 'sink-not-allowed', facts: { file: 'a.bin', needed: 1 } });
});

// The folder above is there, and still a new one is "not found": so it is in /proc, and where an automounter has /home.
test.runIf(LINUX)('a folder that takes no new ones is refused, and not asked for ever', async () => {
  for (const path of ['/proc/unshard', '/proc/unshard/deeper']) {
    const detail = await rejectionOf(folderOutput(path).create('a.bin', 1));
    expect(detail).toMatchObject({ kind: 'sink', code: 'sink-gone', facts: { file: 'a.bin', needed: 1 } });
  }
});

/** Writes a file of 2 MiB to a disk of 1 MiB, which exists for this one process only. Prints what became of it. */
const FULL_DISK = `
  const { folderOutput } = await import(process.argv[1]);
  const { readdirSync } = await import('node:fs');
  const sink = await folderOutput(process.argv[2]).create('a.bin', 2097152);
  let detail;
  for (let at = 0; at < 2097152 && !detail; at += 65536) {
    await sink.write(at, new Uint8Array(65536)).catch((error) => { detail = error.detail; });
  }
  await sink.abort();
  console.log(JSON.stringify({ detail, left: readdirSync(process.argv[2]) }));
`;

const canMount = spawnSync('unshare', ['-rm', 'true']).status === 0;

test.skipIf(!canMount)('a disk that is full is told with the bytes that were needed, and left clean', async () => {
  const disk = await temporaryFolder();
  const node = fileURLToPath(new URL('../../../src/io/node.ts', import.meta.url));
  const mountAndRun =
    'mount -t tmpfs -o size=1m none "$1" && exec "$2" --import tsx --input-type=module -e "$3" "$4" "$1"';
  const args = ['-rm', 'sh', '-c', mountAndRun, 'sh', disk, process.execPath, FULL_DISK, node];
  const { detail, left } = JSON.parse(execFileSync('unshare', args, { encoding: 'utf8' }));
  expect(detail).toMatchObject({ kind: 'sink', code: 'sink-no-space', facts: { file: 'a.bin', needed: 2_097_152 } });
  expect(left).toEqual([]);
});
