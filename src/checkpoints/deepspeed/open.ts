/**
 * Opens the files of a tag folder.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { isUnshardError, type UnshardError } from '../../base/errors.js';
import { readTorchFile } from '../../formats/torch/read.js';
import { SourcePool } from '../../io/pool.js';
import type { ByteSource, FileTree } from '../../io/types.js';
import type { SourceFile } from '../inventory.js';
import type { InspectOptions } from '../options.js';
import { isOfOneRank, joinPath, type ShardName } from './files.js';
import type { Shard } from './states.js';

/** Shards opened at once: more does not help a disk or a browser. */
const OPEN_LANES = 8;

/** Shards that were read, and the files that they are read from further. */
export interface OpenShards {
  readonly sources: SourceFile[];
  readonly shards: Shard[];
  readonly pool: SourcePool;
  /** Why files were left out that cannot be read: of single ranks, in a partial recovery. */
  readonly failures: readonly UnshardError[];
}

/** Reads the object of every file, in natural order of their names. The caller closes the pool. */
export async function openShards(
  tree: FileTree,
  folder: string,
  names: readonly ShardName[],
  options: InspectOptions,
): Promise<OpenShards> {
  const order = new Intl.Collator('en', { numeric: true });
  const sorted = names.toSorted((a, b) => order.compare(a.name, b.name));
  const paths = sorted.map(({ name }) => joinPath(folder, name));
  const sources: SourceFile[] = [];
  const pool = new SourcePool((index) => tree.open(paths[index] ?? ''));
  const failures: UnshardError[] = [];
  let done = 0;
  const open = async (name: ShardName, index: number): Promise<Shard> => {
    const path = paths[index] ?? '';
    sources[index] = { path, size: 0, modified: 0 };
    const { size, modified, name: shown } = await pool.use(index, async (source) => source);
    sources[index] = { path, size, modified };
    const source: ByteSource = {
      name: shown,
      size,
      modified,
      read: (offset, into, signal) => pool.read(index, offset, into, signal),
      close: async () => undefined,
    };
    const file = await readTorchFile(source, options.signal);
    options.onProgress?.({ done: ++done, total: sorted.length, file: path });
    return { name, path, source: index, file };
  };
  try {
    const shards = await mapBounded(sorted, OPEN_LANES, async (name, index) => {
      try {
        return [await open(name, index)];
      } catch (error) {
        if (!options.partial || !isOfOneRank(name) || !isUnshardError(error)) throw error;
        failures.push(error);
        return [];
      }
    });
    return { sources, shards: shards.flat(), pool, failures };
  } catch (error) {
    await pool.close();
    throw error;
  }
}

/** True for a shard of one kind. */
export function isKind<K extends ShardName['kind']>(
  shard: Shard,
  kind: K,
): shard is Shard<Extract<ShardName, { kind: K }>> {
  return shard.name.kind === kind;
}
