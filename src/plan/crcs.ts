/**
 * What a plan reads, and which of the recorded CRC-32s can be compared with it.
 *
 * @module
 */

import { isRankCut, type Partition, type Piece } from '../base/extent.js';
import type { RecordedCrc, StoredBits } from '../checkpoints/inventory.js';
import type { Compute, PlannedTensor } from './plan.js';

/** The pieces that are read: those of the tensors, of what they are computed from, and of their proofs. */
export function piecesOf(tensors: readonly PlannedTensor[]): Piece[] {
  return tensors.flatMap(({ pieces, compute, proofs = [] }) =>
    [{ pieces }, ...operandsOf(compute), ...proofs].flatMap((bits) => bits.pieces),
  );
}

/** What is read for a computed tensor beside its own pieces. */
function operandsOf(compute: Compute | undefined): readonly StoredBits[] {
  if (!compute) return [];
  return compute.kind === 'lora' ? [compute.a, compute.b] : compute.of.slice(1);
}

/** The recorded CRCs of ranges that at least one tensor reads from. */
export function usedCrcs(
  crcs: readonly RecordedCrc[],
  partitions: readonly (readonly Partition[])[],
  tensors: readonly PlannedTensor[],
): RecordedCrc[] {
  const pieces = piecesOf(tensors);
  const starts = pieces.flatMap((piece) => (isRankCut(piece) ? [] : [piece]));
  const lists = new Set(pieces.flatMap((piece) => (isRankCut(piece) ? [piece.over] : [])));
  const read = [...starts, ...[...lists].flatMap((over) => partitions[over] ?? [])];
  const bySource = new Map<number, number[]>();
  for (const { source, offset } of read) {
    const offsets = bySource.get(source);
    if (offsets) offsets.push(offset);
    else bySource.set(source, [offset]);
  }
  for (const offsets of bySource.values()) offsets.sort((a, b) => a - b);
  return crcs.filter((crc) => {
    const offsets = bySource.get(crc.source) ?? [];
    const first = offsets[lowerBound(offsets, crc.offset)];
    return first !== undefined && first < crc.offset + crc.length;
  });
}

/** Index of the first value that is not below `limit`. */
function lowerBound(sorted: readonly number[], limit: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
