/**
 * Several folders as one: the shards of a run may lie on more than one disk or node. Folders of one tag are laid over each
 * other; a file that is in two of them must be the same in both.
 *
 * @module
 */

import { isUnshardError, UnshardError } from '../base/errors.js';
import { once } from '../base/once.js';
import { readZip, type ZipArchive } from '../formats/zip/read.js';
import { sourceFailure } from '../io/failures.js';
import { pathSegments, plainFilePath } from '../io/path.js';
import { readBytes } from '../io/read.js';
import type { ByteSource, FileTree, TreeEntry } from '../io/types.js';
import { findTags, joinPath } from './deepspeed/files.js';
import type { TagChoice } from './inventory.js';

/** Bytes of two files that are compared at once. */
const COMPARE_STEP = 4 * 2 ** 20;

/** A tree whose root lies at a folder of the merged tree. */
interface Mount {
  readonly tree: FileTree;
  readonly at: string;
}

/**
 * One folder that holds what is in any of `trees`, under the name of the first. Each may be the outer folder, `checkpoint-N`
 * or `global_stepN` itself; what was picked deepest is put where the others have a folder of that tag.
 *
 * A path that is in several trees is there once. Opening it compares the files, by size and by the CRC-32s of their
 * records, or byte by byte where they have none.
 *
 * @throws UnshardError `folders-differ` of kind `inconsistent`, when a path is listed or opened that is not the same in two
 * trees. Beside that the tree rejects as `trees` do.
 */
export function mergeTrees(trees: readonly FileTree[]): FileTree {
  const mounts = once(() => placeTrees(trees));
  const compared = new Map<string, Promise<void>>();

  async function open(path: string): Promise<ByteSource> {
    plainFilePath(path, 'source');
    const holders = await holdersOf(await mounts(), path);
    const [first, ...others] = holders;
    if (!first) throw sourceFailure('source-missing', path);
    try {
      const comparison = compared.get(path) ?? compareAll(path, first, others);
      compared.set(path, comparison);
      await comparison;
    } catch (error) {
      await first.source.close();
      throw error;
    } finally {
      await Promise.all(others.map(({ source }) => source.close()));
    }
    const { source } = first;
    return {
      name: path,
      size: source.size,
      modified: source.modified,
      read: (offset, into, signal) => source.read(offset, into, signal),
      close: () => source.close(),
    };
  }

  return {
    name: trees[0]?.name ?? '',
    async list(path) {
      pathSegments(path, 'source');
      return unite(path, await mounts());
    },
    open,
  };
}

/** Where each tree lies. The one whose tags lie deepest is the outermost folder, and decides. */
async function placeTrees(trees: readonly FileTree[]): Promise<Mount[]> {
  const found = await Promise.all(trees.map(async (tree) => ({ tree, tags: (await findTags(tree)).tags })));
  const depth = (tags: readonly TagChoice[]) =>
    Math.max(-1, ...tags.map(({ path }) => pathSegments(path, 'source').length));
  const [outer] = found.toSorted((a, b) => depth(b.tags) - depth(a.tags));
  return found.map(({ tree, tags }) => ({ tree, at: placeOf(tags, outer?.tags ?? []) }));
}

/** The folder of the outermost tree that a tree with `tags` is laid over. */
function placeOf(tags: readonly TagChoice[], outer: readonly TagChoice[]): string {
  for (const { tag, path } of tags) {
    if (outer.some((other) => other.path === path)) return '';
    const same = outer.find((other) => other.tag === tag && other.path.endsWith(path === '' ? '' : `/${path}`));
    if (same) return path === '' ? same.path : same.path.slice(0, -path.length - 1);
  }
  // Shards in a folder under a name of their own can only be of the one tag that there is.
  const [only, second] = outer;
  return only && !second && tags.some(({ path }) => path === '') ? only.path : '';
}

/** The path in a tree that lies at `at`; undefined for one beside it or above. */
function pathWithin(path: string, at: string): string | undefined {
  if (at === '' || path === at) return path.slice(at.length);
  return path.startsWith(`${at}/`) ? path.slice(at.length + 1) : undefined;
}

async function unite(path: string, mounts: readonly Mount[]): Promise<TreeEntry[]> {
  const lists = await Promise.all(mounts.map(async (mount) => ({ mount, entries: await entriesOf(mount, path) })));
  const united = new Map<string, { readonly mount: Mount; readonly entry: TreeEntry }>();
  let exists = false;
  for (const { mount, entries } of lists) {
    exists ||= entries !== undefined;
    for (const entry of entries ?? []) {
      const other = united.get(entry.name);
      if (!other) united.set(entry.name, { mount, entry });
      else if (other.entry.kind !== entry.kind) {
        const kinds = `a ${other.entry.kind} in the one and a ${entry.kind} in the other`;
        throw foldersDiffer(joinPath(path, entry.name), other.mount.tree, mount.tree, kinds);
      }
    }
  }
  if (!exists) throw sourceFailure('source-missing', path);
  return [...united.values()].map(({ entry }) => entry);
}

/** The entries that a tree adds to a folder; undefined where it has no such folder. */
async function entriesOf({ tree, at }: Mount, path: string): Promise<TreeEntry[] | undefined> {
  const within = pathWithin(path, at);
  if (within !== undefined) return unlessMissing(tree.list(within));
  const below = pathWithin(at, path);
  const name = below?.split('/')[0];
  return name === undefined ? undefined : [{ name, kind: 'directory' }];
}

/** A file of a tree. */
interface Holder {
  readonly tree: FileTree;
  readonly source: ByteSource;
}

async function holdersOf(mounts: readonly Mount[], path: string): Promise<Holder[]> {
  const holders: Holder[] = [];
  try {
    for (const { tree, at } of mounts) {
      const within = pathWithin(path, at);
      const source = within ? await unlessMissing(tree.open(within)) : undefined;
      if (source) holders.push({ tree, source });
    }
    return holders;
  } catch (error) {
    await Promise.all(holders.map(({ source }) => source.close()));
    throw error;
  }
}

async function unlessMissing<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (isUnshardError(error, 'source') && error.detail.code === 'source-missing') return undefined;
    throw error;
  }
}

async function compareAll(path: string, first: Holder, others: readonly Holder[]): Promise<void> {
  for (const other of others) {
    const [a, b] = [first.source, other.source];
    if (a.size !== b.size) {
      throw foldersDiffer(path, first.tree, other.tree, `${a.size} bytes in the one and ${b.size} in the other`);
    }
    if (!(await isSameFile(a, b))) throw foldersDiffer(path, first.tree, other.tree, 'of other content');
  }
}

async function isSameFile(a: ByteSource, b: ByteSource): Promise<boolean> {
  const [zipA, zipB] = await Promise.all([archiveOf(a), archiveOf(b)]);
  return zipA && zipB ? isSameArchive(zipA, zipB) : isSameBytes(a, b);
}

/** The directory of a file, where it is a whole zip file that records CRC-32s. */
async function archiveOf(source: ByteSource): Promise<ZipArchive | undefined> {
  try {
    const archive = await readZip(source);
    return archive.hasCrcs ? archive : undefined;
  } catch (error) {
    if (isUnshardError(error, 'bad-file', 'unsupported')) return undefined;
    throw error;
  }
}

/** True where all records have the same names, places, sizes and CRC-32s. */
function isSameArchive(a: ZipArchive, b: ZipArchive): boolean {
  if (a.entries.size !== b.entries.size) return false;
  return [...a.entries].every(([name, entry]) => {
    const other = b.entries.get(name);
    return other?.crc32 === entry.crc32 && other.size === entry.size && other.headerOffset === entry.headerOffset;
  });
}

async function isSameBytes(a: ByteSource, b: ByteSource): Promise<boolean> {
  for (let at = 0; at < a.size; at += COMPARE_STEP) {
    const length = Math.min(COMPARE_STEP, a.size - at);
    const [left, right] = await Promise.all([readBytes(a, at, length), readBytes(b, at, length)]);
    if (left.some((byte, i) => byte !== right[i])) return false;
  }
  return true;
}

function foldersDiffer(path: string, first: FileTree, second: FileTree, how: string): UnshardError {
  return new UnshardError({
    kind: 'inconsistent',
    code: 'folders-differ',
    message: `${path} is in two of the folders, ${first.name} and ${second.name}, and is ${how}.`,
    advice: 'The folders may be of different runs or steps. Leave one of them out, or remove the wrong copy.',
    facts: { file: path, first: first.name, second: second.name },
  });
}
