/**
 * Opens the files of a tag folder.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { assert, isUnshardError, type UnshardError } from '../../base/errors.js';
import { inNaturalOrder } from '../../base/natural-order.js';
import { KnownObjects, readTorchFile } from '../../formats/torch/read.js';
import { type Ends, readAhead, SpareMemory } from '../../io/ahead.js';
import { SourcePool } from '../../io/pool.js';
import type { ByteSource, FileTree } from '../../io/types.js';
import type { SourceFile } from '../inventory.js';
import type { InspectProgress } from '../options.js';
import { isOfOneRank, joinPath, type ShardName } from './files.js';
import type { Shard } from './states.js';

/** Shards opened at once: more does not help a disk or a browser. */
const OPEN_LANES = 16;

/** Bytes of the ends of files that all lanes hold together (64 MiB); one lane may exceed it. */
const AHEAD_BYTES = 2 ** 26;

/** Bytes to read of either end of the first file of a kind (64 KiB): more costs time, less costs no less. */
const FIRST_ENDS: Ends = { head: 2 ** 16, tail: 2 ** 16 };

/** Names grow with the number of the rank, and all that names it with them: this share more is read, and 4 KiB. */
const SPARE_SHARE = 1 / 16;
const SPARE_BYTES = 4096;

/** Shards that were read, and the files that they are read from further. */
export interface OpenShards {
  readonly sources: SourceFile[];
  readonly shards: Shard[];
  readonly pool: SourcePool;
  /** Why files were left out that cannot be read: of single ranks, in a partial recovery. */
  readonly failures: readonly UnshardError[];
}

/** What to do while shards are opened. */
export interface OpenSteps {
  readonly signal: AbortSignal | undefined;
  /** Leave out files of single ranks that cannot be read. */
  readonly partial: boolean;
  /** Called with each shard while the ends of its file are at hand. */
  visit(shard: Shard): Promise<void>;
  /** Called after each file. */
  onProgress(progress: InspectProgress): void;
}

/**
 * Reads the object of every file, in natural order of their names; the first of each kind before all others. The caller
 * closes the pool.
 */
export async function openShards(
  tree: FileTree,
  folder: string,
  names: readonly ShardName[],
  { signal, partial, visit, onProgress }: OpenSteps,
): Promise<OpenShards> {
  const sorted = inNaturalOrder(names, ({ name }) => name);
  const paths = sorted.map(({ name }) => joinPath(folder, name));
  const sources: SourceFile[] = [];
  const shards: Shard[] = [];
  const pool = new SourcePool((index) => tree.open(paths[index] ?? ''));
  const failures: UnshardError[] = [];
  const known = new KnownObjects();
  const memory = new SpareMemory();
  const endsOf = new Map<ShardName['kind'], Ends>();
  const firsts = [...new Map(sorted.map(({ kind }, index) => [kind, index] as const).toReversed()).values()];
  let done = 0;
  const open = async (index: number): Promise<void> => {
    const [name, path] = [sorted[index], paths[index]];
    assert(name && path !== undefined, `there is no file ${index} of ${sorted.length}`);
    sources[index] = { path, size: 0, modified: 0 };
    const { size, modified, name: shown } = await pool.use(index, async (source) => source);
    sources[index] = { path, size, modified };
    const pooled: ByteSource = {
      name: shown,
      size,
      modified,
      read: (offset, into, readSignal) => pool.read(index, offset, into, readSignal),
      close: async () => undefined,
    };
    const source = await readAhead(pooled, endsOf.get(name.kind) ?? FIRST_ENDS, signal, memory);
    const file = await readTorchFile(source, signal, isHollow(name) ? known : undefined);
    endsOf.set(name.kind, withSpare(source.asked()));
    const shard = { name, path, source: index, file };
    shards[index] = shard;
    await visit(shard);
    source.release();
    onProgress({ done: ++done, total: sorted.length, file: path });
  };
  const openUnlessLost = async (index: number): Promise<void> => {
    try {
      await open(index);
    } catch (error) {
      const name = sorted[index];
      if (!partial || !name || !isOfOneRank(name) || !isUnshardError(error)) throw error;
      failures.push(error);
    }
  };
  try {
    await mapBounded(firsts, OPEN_LANES, openUnlessLost);
    const most = Math.max(1, ...[...endsOf.values()].map(({ head, tail }) => head + tail));
    const lanes = Math.min(OPEN_LANES, Math.max(1, Math.floor(AHEAD_BYTES / most)));
    const rest = [...sorted.keys()].filter((index) => !firsts.includes(index));
    await mapBounded(rest, lanes, openUnlessLost);
    return { sources, shards: shards.flat(), pool, failures };
  } catch (error) {
    await pool.close();
    throw error;
  }
}

/**
 * True for the model files of stage 3. Those of many ranks say the same, and `modelStates` takes what they share. Those of
 * other stages hold tensors of their own.
 */
function isHollow(name: ShardName): boolean {
  return name.kind === 'model' && name.dp !== undefined;
}

function withSpare({ head, tail }: Ends): Ends {
  const spare = (bytes: number) => Math.ceil(bytes * (1 + SPARE_SHARE)) + SPARE_BYTES;
  return { head: spare(head), tail: spare(tail) };
}

/** True for a shard of one kind. */
export function isKind<K extends ShardName['kind']>(
  shard: Shard,
  kind: K,
): shard is Shard<Extract<ShardName, { kind: K }>> {
  return shard.name.kind === kind;
}
