/**
 * Torch files of any size whose storages are zeros, kept as the few bytes that are not: in memory, or as files with holes.
 *
 * @module
 */

import { closeSync, ftruncateSync, linkSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { combineCrc32 } from '../../../src/base/crc32.js';
import { emitZipTail, layoutZip, type PlacedBytes } from '../../../src/formats/zip/write.js';
import type { ByteSource, FileTree } from '../../../src/io/types.js';
import { crcOfZeros } from './zeros.js';

/** A file: `pieces` at their places in ascending order, and zeros. */
export interface SparseFile {
  readonly byteLength: number;
  readonly pieces: readonly PlacedBytes[];
}

/** A storage: `start`, and zeros behind it up to `byteLength`. */
export interface SparseStorage {
  readonly byteLength: number;
  readonly start: Uint8Array<ArrayBuffer>;
}

/** A file as `torch.save` writes it to a path (`root` is its name without `.pt`) or to a stream (`archive`). */
export function sparseTorchFile(
  root: string,
  object: Uint8Array<ArrayBuffer>,
  storages: readonly SparseStorage[],
): SparseFile {
  const records: readonly (readonly [name: string, storage: SparseStorage])[] = [
    ['data.pkl', whole(object)],
    ['.format_version', whole(Buffer.from('1'))],
    ['.storage_alignment', whole(Buffer.from('64'))],
    ['byteorder', whole(Buffer.from('little'))],
    ...storages.map((storage, key) => [`data/${key}`, storage] as const),
    ['version', whole(Buffer.from('3\n'))],
  ];
  const layout = layoutZip(records.map(([name, { byteLength }]) => ({ name: `${root}/${name}`, length: byteLength })));
  const finished = layout.records.map((record, i) => ({ ...record, crc32: crcOf(records[i]?.[1] ?? whole(object)) }));
  const contents = layout.records.flatMap(({ at }, i) => {
    const bytes = records[i]?.[1].start;
    return bytes && bytes.length > 0 ? [{ at, bytes }] : [];
  });
  const pieces = [...layout.headers, ...contents, ...emitZipTail(finished)].toSorted((a, b) => a.at - b.at);
  return { byteLength: layout.byteLength, pieces: joined(pieces) };
}

/** A folder of files that are made when they are opened. */
export function sparseTree(name: string, files: ReadonlyMap<string, () => SparseFile>): FileTree {
  return {
    name,
    async list(folder) {
      const below = [...files.keys()].filter((path) => folder === '' || path.startsWith(`${folder}/`));
      const rests = below.map((path) => (folder === '' ? path : path.slice(folder.length + 1)).split('/'));
      const kinds = new Map(rests.map(([first = '', ...more]) => [first, more.length > 0]));
      return [...kinds].map(([entry, isFolder]) => ({ name: entry, kind: isFolder ? 'directory' : 'file' }));
    },
    async open(path) {
      const make = files.get(path);
      if (!make) throw new Error(`There is no file ${path}.`);
      return sourceOf(path, make());
    },
  };
}

/** Writes files with holes into a folder. What is the same object under several paths is one file with several names. */
export function writeSparse(folder: string, files: ReadonlyMap<string, () => SparseFile>): void {
  const written = new Map<SparseFile, string>();
  for (const [path, make] of files) {
    const target = join(folder, path);
    mkdirSync(join(target, '..'), { recursive: true });
    const made = make();
    const same = written.get(made);
    if (same !== undefined) linkSync(same, target);
    else {
      writeSparseFile(target, made);
      written.set(made, target);
    }
  }
}

function writeSparseFile(path: string, { byteLength, pieces }: SparseFile): void {
  const file = openSync(path, 'wx');
  try {
    ftruncateSync(file, byteLength);
    for (const { at, bytes } of pieces) writeSync(file, bytes, 0, bytes.length, at);
  } finally {
    closeSync(file);
  }
}

function sourceOf(name: string, { byteLength, pieces }: SparseFile): ByteSource {
  return {
    name,
    size: byteLength,
    modified: 0,
    async read(offset, into, signal) {
      signal?.throwIfAborted();
      const end = offset + into.length;
      if (offset < 0 || end > byteLength) throw new RangeError(`read [${offset}, ${end}) of ${byteLength}`);
      let done = offset;
      for (let i = firstEndingAfter(pieces, offset); i < pieces.length; i++) {
        const { at, bytes } = pieces[i] ?? { at: end, bytes: new Uint8Array() };
        const [from, to] = [Math.max(at, offset), Math.min(at + bytes.length, end)];
        if (from >= to) break;
        into.fill(0, done - offset, from - offset);
        into.set(bytes.subarray(from - at, to - at), from - offset);
        done = to;
      }
      into.fill(0, done - offset);
    },
    async close() {},
  };
}

/** Index of the first piece that ends after `offset`. */
function firstEndingAfter(pieces: readonly PlacedBytes[], offset: number): number {
  let [low, high] = [0, pieces.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const piece = pieces[middle];
    if (piece && piece.at + piece.bytes.length <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}

function whole(start: Uint8Array<ArrayBuffer>): SparseStorage {
  return { byteLength: start.length, start };
}

function crcOf({ byteLength, start }: SparseStorage): number {
  const rest = byteLength - start.length;
  return combineCrc32(crc32(start), crcOfZeros(rest), rest);
}

/** Pieces that touch as one. */
function joined(pieces: readonly PlacedBytes[]): PlacedBytes[] {
  const runs: PlacedBytes[][] = [];
  for (const piece of pieces) {
    const last = runs.at(-1)?.at(-1);
    if (last && last.at + last.bytes.length === piece.at) runs.at(-1)?.push(piece);
    else runs.push([piece]);
  }
  return runs.flatMap((run) => {
    const [first] = run;
    return first ? [{ at: first.at, bytes: new Uint8Array(Buffer.concat(run.map(({ bytes }) => bytes))) }] : [];
  });
}
