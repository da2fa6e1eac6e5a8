/**
 * Checks that a plan is what it claims to be. A plan may come from a file, so nothing in it is taken for granted.
 *
 * @module
 */

import { bytesOf, isFloat, isTarget } from '../base/dtype.js';
import { UnshardError } from '../base/errors.js';
import { isRankCut, type Piece, pieceLength } from '../base/extent.js';
import { numelOf } from '../base/shape.js';
import type { StoredBits } from '../checkpoints/inventory.js';
import type { Compute, OutputFile, Plan, PlannedTensor } from './plan.js';

/**
 * Checks a plan: parts cover their files in order and without overlap, tensors are as long as their shape says, pieces cover their
 * tensors and lie inside their sources.
 *
 * @throws UnshardError `plan-invalid` of kind `usage`.
 */
export function checkPlan(plan: Plan): void {
  if (plan.version !== 1) throw invalid('version', 1, plan.version);
  for (const file of plan.files) checkFile(plan, file);
  for (const tensor of plan.tensors) checkTensor(plan, tensor);
}

function checkFile(plan: Plan, file: OutputFile): void {
  // Names come from the plan's file, and must not lead out of the folder that the user chose.
  if (!/^[^/\\\0]+$/.test(file.path) || file.path === '..' || file.path === '.')
    throw invalid('the name of an output file', 'a plain name', file.path);
  let end = 0;
  for (const part of file.parts) {
    if (part.length <= 0 || part.at < end) throw invalid(`a part of ${file.path}`, `at ${end} or later`, part.at);
    // Only a zip file has bytes between its parts: they are written with its end.
    if (part.at > end && !file.zip) throw invalid(`a part of ${file.path}`, `at ${end}`, part.at);
    end = part.at + part.length;
    if (part.kind === 'copy') checkRange(plan, file.path, part.source, 0, part.length);
    if (part.kind === 'tensor') {
      const tensor = plan.tensors[part.tensor];
      if (!tensor) throw invalid(`a part of ${file.path}`, `tensor 0 to ${plan.tensors.length - 1}`, part.tensor);
      const length = numelOf(tensor.shape) * bytesOf(tensor.to);
      if (part.length !== length) throw invalid(`${tensor.name} in ${file.path}`, `${length} bytes`, part.length);
    }
  }
  if (file.zip ? end > file.byteLength : end !== file.byteLength)
    throw invalid(`the length of ${file.path}`, end, file.byteLength);
}

function checkTensor(plan: Plan, tensor: PlannedTensor): void {
  const { name, shape, from, pieces, compute, proofs = [] } = tensor;
  checkPieces(plan, name, bytesOf(from), numelOf(shape), pieces);
  for (const proof of proofs)
    checkPieces(plan, `a proof of ${name}`, bytesOf(proof.dtype), numelOf(shape), proof.pieces);
  if (compute) checkCompute(plan, tensor, compute);
}

/** Operands of a computed tensor: floats, as many as the matrices have elements. */
function checkCompute(plan: Plan, { name, shape, from, to }: PlannedTensor, compute: Compute): void {
  const numel = numelOf(shape);
  const operand = (what: string, bits: StoredBits, count: number) => {
    if (!isFloat(bits.dtype)) throw invalid(`${what} of ${name}`, 'floating point', bits.dtype);
    checkPieces(plan, `${what} of ${name}`, bytesOf(bits.dtype), count, bits.pieces);
  };
  if (!isFloat(from)) throw invalid(`what ${name} is computed from`, 'floating point', from);
  if (!isTarget(to)) throw invalid(`the dtype of ${name}, which is computed,`, 'F32, F16 or BF16', to);
  if (compute.kind === 'mean') {
    if (compute.of.length === 0) throw invalid(`the copies of ${name}`, 'one or more', 0);
    for (const copy of compute.of) operand('a copy', copy, numel);
    return;
  }
  const { a, b, rank, rows, columns, scale, transpose } = compute;
  for (const size of [rank, rows, columns]) {
    if (!Number.isSafeInteger(size) || size <= 0)
      throw invalid(`a dimension of the adapter on ${name}`, 'positive', size);
  }
  if (!Number.isFinite(scale)) throw invalid(`the scale of the adapter on ${name}`, 'a number', scale);
  if (numel % columns !== 0 || numel > rows * columns)
    throw invalid(`the size of ${name}`, `at most ${rows} rows of ${columns}`, numel);
  operand('lora_A', a, rank * (transpose ? rows : columns));
  operand('lora_B', b, rank * (transpose ? columns : rows));
}

/** Pieces of a tensor of `numel` elements of `size` bytes: together they cover it once. */
function checkPieces(plan: Plan, name: string, size: number, numel: number, pieces: readonly Piece[]): void {
  const length = numel * size;
  const covered = pieces.reduce((sum, piece) => sum + pieceLength(piece), 0);
  if (covered !== length) throw invalid(`the pieces of ${name}`, `${length} bytes`, covered);
  for (const piece of pieces) checkPiece(plan, name, piece, length, size);
  if (pieces.some((piece) => !isRankCut(piece) && piece.repeat)) return;
  let at = 0;
  for (const piece of pieces.toSorted((a, b) => a.at - b.at)) {
    if (piece.at !== at) throw invalid(`a piece of ${name}`, `at ${at}`, piece.at);
    at += piece.length;
  }
}

function checkPiece(plan: Plan, name: string, piece: Piece, length: number, size: number): void {
  if (piece.length % size !== 0 || piece.at % size !== 0)
    throw invalid(`a piece of ${name}`, `whole elements of ${size} bytes`, piece.length);
  if (!isRankCut(piece)) {
    const loops = piece.repeat ?? [];
    const span = loops.reduce((sum, loop) => sum + (loop.count - 1) * loop.from, piece.length);
    const reach = loops.reduce((sum, loop) => sum + (loop.count - 1) * loop.to, piece.at + piece.length);
    if (reach > length) throw invalid(`a piece of ${name}`, `at most ${length} bytes`, reach);
    checkRange(plan, name, piece.source, piece.offset, span);
    return;
  }
  const ranks = plan.partitions[piece.over] ?? [];
  if (piece.share <= 0 || ranks.length * piece.share < piece.length)
    throw invalid(`the ranks of ${name}`, `shares of ${piece.length} bytes`, ranks.length * piece.share);
  for (const [rank, partition] of ranks.entries()) {
    const share = Math.min(piece.share, piece.length - rank * piece.share);
    if (share > 0) checkRange(plan, name, partition.source, partition.offset + piece.offset, share);
  }
}

function checkRange(plan: Plan, what: string, source: number, offset: number, length: number): void {
  const file = plan.sources[source];
  if (!file) throw invalid(`a source of ${what}`, `0 to ${plan.sources.length - 1}`, source);
  const inside = Number.isSafeInteger(offset) && offset >= 0 && offset + length <= file.size;
  if (!inside)
    throw invalid(
      `a range of ${file.path} for ${what}`,
      `within ${file.size} bytes`,
      `${offset} to ${offset + length}`,
    );
}

function invalid(what: string, expected: string | number, found: string | number): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'plan-invalid',
    message: `The plan is not valid: ${what} must be ${expected}; it is ${found}.`,
    advice: 'Make the plan again from the checkpoint.',
    facts: { what, expected, found },
  });
}
