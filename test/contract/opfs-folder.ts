import { onTestFinished } from 'vitest';

/** An empty folder named `root` in the browser's own storage, which is a real file system. It goes when the test ends. */
export async function emptyFolder(): Promise<FileSystemDirectoryHandle> {
  const storage = await navigator.storage.getDirectory();
  const name = `test-${crypto.randomUUID()}`;
  const parent = await storage.getDirectoryHandle(name, { create: true });
  onTestFinished(() => storage.removeEntry(name, { recursive: true }));
  return parent.getDirectoryHandle('root', { create: true });
}

/** Such a folder with the given files by path, written by the browser itself. */
export async function folderOf(
  files: Readonly<Record<string, Uint8Array<ArrayBuffer>>>,
): Promise<FileSystemDirectoryHandle> {
  const root = await emptyFolder();
  for (const [path, bytes] of Object.entries(files)) await put(root, path, bytes);
  return root;
}

/** Writes or replaces one file, not by our adapters. */
export async function put(
  root: FileSystemDirectoryHandle,
  path: string,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const folders = path.split('/');
  const name = folders.pop() ?? '';
  let folder = root;
  for (const segment of folders) folder = await folder.getDirectoryHandle(segment, { create: true });
  const stream = await (await folder.getFileHandle(name, { create: true })).createWritable();
  await stream.write(bytes);
  await stream.close();
}
