/**
 * Files in memory, for tests and for outputs that are small enough to be held.
 *
 * @module
 */

import { sinkFailure, sourceFailure } from './failures.js';
import { flatTree } from './flat.js';
import { plainFilePath } from './path.js';
import { makeSink } from './sink.js';
import { makeSource } from './source.js';
import type { ByteSource, FileTree, SharedOutput } from './types.js';

/** A folder in memory whose finished files can be had as arrays. */
export interface MemoryOutput extends SharedOutput {
  /** The finished files by path. */
  readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
}

/** A source over `bytes`, which are not copied and must not change. */
export function memorySource(name: string, bytes: Uint8Array): ByteSource {
  return makeSource(name, bytes.byteLength, 0, {
    async read(offset, into) {
      into.set(bytes.subarray(offset, offset + into.byteLength));
    },
    async close() {},
  });
}

/** A folder of the given files by path. */
export function memoryTree(files: Readonly<Record<string, Uint8Array>>): FileTree {
  const entries = Object.entries(files).map(([path, bytes]) => [path, () => memorySource(path, bytes)] as const);
  return flatTree('memory', new Map(entries));
}

/** An empty folder in memory to write to. */
export function memoryOutput(): MemoryOutput {
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  const writing = new Set<string>();
  return {
    name: 'memory',
    files,
    async has(path) {
      return files.has(plainFilePath(path, 'sink'));
    },
    async create(path, byteLength) {
      if (writing.has(plainFilePath(path, 'sink'))) throw sinkFailure('sink-locked', path);
      const bytes = allocate(path, byteLength);
      writing.add(path);
      const raw = {
        async write(offset: number, part: Uint8Array) {
          bytes.set(part, offset);
        },
        async finish() {
          files.set(path, bytes);
          writing.delete(path);
        },
        async drop() {
          writing.delete(path);
        },
      };
      return makeSink(path, byteLength, raw, (error) => sinkFailure('sink-failed', path, error, byteLength));
    },
    async open(path) {
      const bytes = files.get(plainFilePath(path, 'source'));
      if (bytes === undefined) throw sourceFailure('source-missing', path);
      return memorySource(path, bytes);
    },
    async remove(path) {
      files.delete(plainFilePath(path, 'sink'));
    },
    async sweep() {},
    async removeFolder(path) {
      for (const file of files.keys()) if (file.startsWith(`${plainFilePath(path, 'sink')}/`)) files.delete(file);
    },
  };
}

/** @throws UnshardError `sink-no-space` where the memory is not to be had. */
function allocate(path: string, byteLength: number): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(byteLength);
  } catch (error) {
    throw sinkFailure('sink-no-space', path, error, byteLength);
  }
}
