/**
 * The inventory while it is put together: sources, storages that were located, problems and warnings. The layouts
 * (zero12, zero3, zero0) add tensors to it.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { bytesOf, type DType } from '../../base/dtype.js';
import { assert } from '../../base/errors.js';
import type { Partition } from '../../base/extent.js';
import { tensorExtents } from '../../formats/torch/extents.js';
import { locateStorages } from '../../formats/torch/read.js';
import type { StorageRecord, TorchStorage, TorchTensor } from '../../formats/torch/tensor.js';
import type { ByteSource } from '../../io/types.js';
import type {
  CheckReport,
  Notice,
  Problem,
  RecordedCrc,
  SkippedTensor,
  StoredBits,
  TensorEntry,
} from '../inventory.js';
import type { Shard } from './states.js';

/** Files whose storages are located at once. */
const LOCATE_LANES = 8;

/** A storage that was located: its record and the source it lies in. */
interface Place {
  readonly source: number;
  readonly record: StorageRecord;
}

/** What the layouts fill. */
export interface Draft {
  /** Take what can be had where files are lost. */
  readonly partial: boolean;
  /** Paths of files that are lost. Source `-1 - i` stands for number `i`; nothing can be read of it. */
  readonly lost: string[];
  readonly tensors: Map<string, TensorEntry>;
  readonly aliases: Map<string, string>;
  readonly partitions: Partition[][];
  /** What stands in the way of everything. */
  readonly problems: Problem[];
  /** What stands in the way of single tensors. */
  readonly faults: Problem[];
  readonly warnings: Notice[];
  readonly skipped: SkippedTensor[];
  /** Checks that were made; one for each model-parallel rank where there are several. */
  readonly checks: CheckReport[];
  readonly places: Map<TorchStorage, Place>;
  /** The open files of located storages, by the index of their source. */
  readonly files: Map<number, ByteSource>;
}

/** An empty draft. */
export function newDraft(partial = false): Draft {
  return {
    partial,
    lost: [],
    tensors: new Map(),
    aliases: new Map(),
    partitions: [],
    problems: [],
    faults: [],
    warnings: [],
    skipped: [],
    checks: [],
    places: new Map(),
    files: new Map(),
  };
}

/** A draft for one part of the model: its own tensors and tied names, and the rest of `draft`. */
export function partOf(draft: Draft): Draft {
  return { ...draft, tensors: new Map(), aliases: new Map() };
}

/**
 * Finds where the storages of `tensors` start in their file, so that `bitsOf` and `startOf` can be asked for them. Those
 * that were found before are left as they are.
 */
export async function locate(
  draft: Draft,
  wanted: readonly { readonly shard: Pick<Shard, 'file' | 'source'>; readonly tensors: Iterable<TorchTensor> }[],
  signal?: AbortSignal,
): Promise<void> {
  await mapBounded(wanted, LOCATE_LANES, async ({ shard, tensors }) => {
    const wanted = [...tensors].filter(({ numel, storage }) => numel > 0 && !draft.places.has(storage));
    const storages = new Set(wanted.map((tensor) => tensor.storage));
    draft.files.set(shard.source, shard.file.source);
    const records = await locateStorages(shard.file, storages, signal);
    for (const [storage, record] of records) draft.places.set(storage, { source: shard.source, record });
  });
}

/** The bits of a located tensor. */
export function bitsOf(draft: Draft, tensor: TorchTensor): StoredBits {
  const flip = tensor.flip === undefined ? {} : { flip: tensor.flip };
  if (tensor.numel === 0) return { dtype: tensor.dtype, pieces: [], ...flip };
  const place = placeOf(draft, tensor);
  return { dtype: tensor.dtype, pieces: tensorExtents(tensor, place.record, place.source), ...flip };
}

/** True for a one-dimensional tensor whose elements lie one after another, to be taken as they are. */
export function isFlat({ shape, stride, flip, numel }: TorchTensor): boolean {
  return shape.length === 1 && flip === undefined && (numel < 2 || stride[0] === 1);
}

/** Where the first element of a located flat tensor lies. */
export function startOf(draft: Draft, tensor: TorchTensor): Partition {
  const place = placeOf(draft, tensor);
  return { source: place.source, offset: place.record.offset + tensor.offset * bytesOf(tensor.dtype) };
}

/** The recorded CRC-32 of every storage that was located, in the order of the files, whichever answered first. */
export function recordedCrcs(draft: Draft): RecordedCrc[] {
  return [...draft.places.values()]
    .flatMap(({ source, record }) =>
      record.crc32 === undefined || record.length === 0
        ? []
        : [{ source, offset: record.offset, length: record.length, crc32: record.crc32 }],
    )
    .sort((a, b) => a.source - b.source || a.offset - b.offset);
}

/** Adds a tensor; a name that is there already is a contradiction in the checkpoint. */
export function addTensor(draft: Draft, entry: TensorEntry, file: string): void {
  const other = draft.tensors.get(entry.name);
  if (!other) {
    draft.tensors.set(entry.name, entry);
    return;
  }
  draft.problems.push({
    kind: 'inconsistent',
    code: 'name-twice',
    message: `${file}: ${entry.name} is there twice, as ${other.origin} and as ${entry.origin}.`,
    advice: 'The files may belong to different runs. Check the folder.',
    facts: { file, tensor: entry.name, expected: other.origin, found: entry.origin },
  });
}

/** Adds a tensor that cannot be had, though others can, and tells why. */
export function addFaulty(
  draft: Draft,
  { dtype, ...tensor }: Pick<TensorEntry, 'name' | 'shape' | 'origin'> & { readonly dtype: DType },
  fault: Problem,
  file: string,
): void {
  draft.faults.push(fault);
  addTensor(draft, { ...tensor, stored: { dtype, pieces: [] }, fault }, file);
}

/** Adds the tensors of a part. Names that are copied on every part are compared; all others are there once. */
export function addPart(draft: Draft, part: Draft, isCopied: (name: string) => boolean, file: string): void {
  for (const entry of part.tensors.values()) {
    const other = draft.tensors.get(entry.name);
    if (!other || !isCopied(entry.name) || !isAlike(entry, other)) addTensor(draft, entry, file);
    else {
      const copies = [entry.stored, ...(entry.copy && !other.copy ? [entry.copy] : [])];
      const proofs = copies.map((bits) => ({ check: 'replicated', ...bits }));
      draft.tensors.set(entry.name, { ...other, proofs: [...(other.proofs ?? []), ...proofs] });
    }
  }
}

function isAlike(entry: TensorEntry, other: TensorEntry): boolean {
  return String(entry.shape) === String(other.shape) && entry.stored.dtype === other.stored.dtype;
}

function placeOf(draft: Draft, tensor: TorchTensor): Place {
  const place = draft.places.get(tensor.storage);
  assert(place, `storage ${tensor.storage.key} was not located`);
  return place;
}
