/**
 * What becomes of tensors that lie partly in lost files: another copy of the same bits is taken, or in a partial recovery
 * the model file's copy. The others cannot be had.
 *
 * @module
 */

import { assert } from '../../base/errors.js';
import { isRankCut, type Partition, type Piece, pieceLength } from '../../base/extent.js';
import { slicePieces } from '../../base/slice.js';
import { counted } from '../../base/words.js';
import type { Notice, StoredBits, TensorEntry } from '../inventory.js';
import type { Draft } from './draft.js';

/** Lost files that are named where a tensor is skipped. */
const MAX_NAMED = 3;

/**
 * Decides about every tensor of a draft whose tensors and tied names are all there. In a partial recovery no tensor has a
 * fault afterwards: what cannot be had is skipped, with the names that are tied to it.
 */
export function settleLost(draft: Draft): void {
  const copied: string[] = [];
  for (const entry of [...draft.tensors.values()]) {
    const settled = settleEntry(draft, entry);
    if ('reason' in settled) skip(draft, entry.name, settled.reason);
    else if (settled !== entry) draft.tensors.set(entry.name, settled);
    if ('origin' in settled && settled.origin === 'copy') copied.push(entry.name);
  }
  if (copied.length > 0 && draft.lost.length > 0) draft.warnings.push(copiesTaken(draft, copied));
  if (draft.partial) draft.faults.splice(0);
  for (const [i, list] of draft.partitions.entries()) if (list.some(isLost)) draft.partitions[i] = [];
}

function settleEntry(draft: Draft, entry: TensorEntry): TensorEntry | { readonly reason: string } {
  if (entry.fault) return draft.partial ? { reason: entry.fault.message } : entry;
  if (draft.lost.length === 0) return entry;
  const { proofs: all = [], meanOf, stored, ...rest } = entry;
  const proofs = all.filter((proof) => !touchesLost(draft, proof)).map((proof) => withoutCuts(draft, proof));
  const withProofs = (kept: typeof proofs) => (kept.length > 0 ? { proofs: kept } : {});
  const own = meanOf ?? [stored];
  if (!own.some((bits) => touchesLost(draft, bits))) {
    const mean = meanOf ? { meanOf: meanOf.map((bits) => withoutCuts(draft, bits)) } : {};
    return { ...rest, stored: withoutCuts(draft, stored), ...mean, ...withProofs(proofs) };
  }
  const replica = proofs.find(({ check, dtype }) => !meanOf && check === 'replicated' && dtype === stored.dtype);
  if (replica) {
    const { check: _, ...bits } = replica;
    return { ...rest, stored: bits, ...withProofs(proofs.filter((proof) => proof !== replica)) };
  }
  if (!draft.partial) {
    const fault = draft.faults.find(({ kind }) => kind === 'missing-shard');
    assert(fault, `a part of ${entry.name} is lost without a reason`);
    return { ...rest, stored: { dtype: stored.dtype, pieces: [] }, fault };
  }
  const { copy, ...bare } = rest;
  if (copy) return { ...bare, origin: 'copy', stored: copy, ...withProofs(proofs) };
  const files = lostFiles(
    draft,
    own.flatMap(({ pieces }) => pieces),
  );
  return { reason: `a part of it was in ${filesText(files)}, which is lost` };
}

function skip(draft: Draft, name: string, reason: string): void {
  draft.tensors.delete(name);
  draft.skipped.push({ name, reason });
  for (const [alias, owner] of [...draft.aliases]) {
    if (owner !== name) continue;
    draft.aliases.delete(alias);
    draft.skipped.push({ name: alias, reason: `tied to ${owner}, which cannot be had` });
  }
}

function copiesTaken(draft: Draft, tensors: readonly string[]): Notice {
  const message = `Of ${counted(tensors.length, 'tensor')} parts are in lost files (${filesText(draft.lost)}). In their place the copies in the model file are taken, at the precision of the training.`;
  return { code: 'copies-taken', message, tensors };
}

function filesText(files: readonly string[]): string {
  const more = files.length > MAX_NAMED ? ` and ${files.length - MAX_NAMED} more files` : '';
  return `${files.slice(0, MAX_NAMED).join(', ')}${more}`;
}

/** True where a part of the bits lies in a lost file. */
export function touchesLost(draft: Draft, { pieces }: StoredBits): boolean {
  return draft.lost.length > 0 && lostFiles(draft, pieces).length > 0;
}

function lostFiles({ lost, partitions }: Draft, pieces: readonly Piece[]): string[] {
  const sources = pieces.flatMap((piece): readonly Partition[] => {
    if (!isRankCut(piece)) return pieceLength(piece) > 0 ? [piece] : [];
    return (partitions[piece.over] ?? []).filter((_, rank) => rank * piece.share < piece.length);
  });
  const touched = new Set(sources.filter(isLost).map(({ source }) => source));
  return [...touched].toSorted((a, b) => b - a).map((source) => lost[-1 - source] ?? '');
}

/** The bits without cuts over lists in which a rank is lost, though it holds nothing of them. */
function withoutCuts<Bits extends StoredBits>({ partitions }: Draft, bits: Bits): Bits {
  const hasLost = (piece: Piece) => isRankCut(piece) && (partitions[piece.over] ?? []).some(isLost);
  if (!bits.pieces.some(hasLost)) return bits;
  const pieces = bits.pieces.flatMap((piece): Piece[] => {
    if (!hasLost(piece)) return [piece];
    return [...slicePieces([piece], partitions, 0, piece.at + pieceLength(piece)).runs];
  });
  return { ...bits, pieces };
}

function isLost({ source }: { readonly source: number }): boolean {
  return source < 0;
}
