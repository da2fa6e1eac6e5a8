/**
 * Weight files that lie beside the tag folder. At ZeRO-3 a run may have left its gathered weights there, which are a
 * second copy of what the shards hold; or files whose tensors are empty, which load without an error and hold nothing.
 *
 * @module
 */

import { mapBounded } from '../base/concurrent.js';
import { roundsTo } from '../base/dtype.js';
import { isUnshardError } from '../base/errors.js';
import type { FileTree } from '../io/types.js';
import { joinPath } from './deepspeed/files.js';
import type { Notice, RecordedCrc, SourceFile, TensorEntry } from './inventory.js';
import { readWeightFile, type StoredTensor } from './weights.js';

const WEIGHTS = /^(?:model|pytorch_model)(?:-\d{5}-of-\d{5})?\.(?:safetensors|bin)$/;

/** Files opened at once. */
const LANES = 4;

/** Weights beside a tag folder. */
export interface Gathered {
  /** One for each hollow file. */
  readonly warnings: readonly Notice[];
  readonly sources: readonly SourceFile[];
  readonly crcs: readonly RecordedCrc[];
  /** Tensors of the files that are not hollow. */
  readonly tensors: ReadonlyMap<string, StoredTensor>;
}

/**
 * Looks at the weight files in a folder. `firstSource` is the number of the first of them among the sources; `empty` are the
 * tensors of the checkpoint that have no elements anyway. A file that cannot be read is no input of ours and is passed over.
 */
export async function findGathered(
  tree: FileTree,
  folder: string,
  firstSource: number,
  empty: ReadonlySet<string>,
  signal?: AbortSignal,
): Promise<Gathered> {
  const entries = await tree.list(folder);
  const names = entries.filter(({ kind, name }) => kind === 'file' && WEIGHTS.test(name)).map(({ name }) => name);
  const found = await mapBounded(names.sort(), LANES, async (name, i) => {
    const path = joinPath(folder, name);
    const source = await tree.open(path);
    try {
      const file = { path, size: source.size, modified: source.modified };
      return { file, ...(await readWeightFile(source, firstSource + i, signal)) };
    } catch (error) {
      if (!isUnshardError(error, 'bad-file', 'unsupported')) throw error;
      return { file: { path, size: source.size, modified: source.modified }, tensors: new Map(), crcs: [] };
    } finally {
      await source.close();
    }
  });
  const isHollow = ([name, { shape }]: readonly [string, StoredTensor]) => shape.includes(0) && !empty.has(name);
  const hollow = found.map(({ tensors }) => [...tensors].filter(isHollow).length);
  const whole = found.filter((_, i) => hollow[i] === 0);
  return {
    warnings: found.flatMap(({ file: { path } }, i): Notice[] => {
      if (hollow[i] === 0) return [];
      const message = `${path} is hollow: ${hollow[i]} of its tensors hold no elements. The real weights are in the ZeRO shards.`;
      return [{ code: 'hollow-weights', message }];
    }),
    sources: found.map(({ file }) => file),
    crcs: whole.flatMap(({ crcs }) => crcs),
    tensors: new Map(whole.flatMap(({ tensors }) => [...tensors])),
  };
}

/** Tensors with the gathered weights of the same name and shape as their proof. Buffers may have changed since. */
export function withGathered(entries: readonly TensorEntry[], gathered: Gathered): TensorEntry[] {
  return entries.map((entry) => {
    const other = gathered.tensors.get(entry.name);
    const isSame = other !== undefined && String(other.shape) === String(entry.shape) && entry.origin !== 'buffer';
    if (!isSame || !roundsTo(entry.stored.dtype, other.dtype)) return entry;
    const { shape: _, ...bits } = other;
    return { ...entry, proofs: [...(entry.proofs ?? []), { check: 'master-gathered', ...bits }] };
  });
}
