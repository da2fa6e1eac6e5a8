/**
 * Opens the files of a tag folder.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { readTorchFile } from '../../formats/torch/read.js';
import type { ByteSource, FileTree } from '../../io/types.js';
import type { SourceFile } from '../inventory.js';
import type { InspectOptions } from '../options.js';
import { joinPath, type ShardName } from './files.js';
import type { Shard } from './states.js';

/** Shards opened at once: more does not help a disk or a browser. */
const OPEN_LANES = 8;

/** Opens every file, in natural order of their names. The caller closes their sources. */
export async function openShards(
  tree: FileTree,
  folder: string,
  names: readonly ShardName[],
  options: InspectOptions,
): Promise<{ sources: SourceFile[]; shards: Shard[] }> {
  const order = new Intl.Collator('en', { numeric: true });
  const sorted = names.toSorted((a, b) => order.compare(a.name, b.name));
  const sources: SourceFile[] = [];
  const opened: ByteSource[] = [];
  let done = 0;
  try {
    const shards = await mapBounded(sorted, OPEN_LANES, async (name, index): Promise<Shard> => {
      const path = joinPath(folder, name.name);
      const source = await tree.open(path);
      opened.push(source);
      sources[index] = { path, size: source.size, modified: source.modified };
      const file = await readTorchFile(source, options.signal);
      options.onProgress?.({ done: ++done, total: sorted.length, file: path });
      return { name, path, source: index, file };
    });
    return { sources, shards };
  } catch (error) {
    await Promise.all(opened.map((source) => source.close()));
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
