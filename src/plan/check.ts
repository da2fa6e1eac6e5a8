/**
 * Checks that a plan is what it claims to be. A plan may come from a file, so nothing in it is taken for granted.
 *
 * @module
 */

import { bytesOf, isFloat, isTarget, roundsTo } from '../base/dtype.js';
import { isUnshardError, UnshardError } from '../base/errors.js';
import { isRankCut, type Piece, pieceLength } from '../base/extent.js';
import { numelOf } from '../base/shape.js';
import type { StoredBits } from '../checkpoints/inventory.js';
import { emitZipTail } from '../formats/zip/write.js';
import { pathSegments } from '../io/path.js';
import type { Compute, OutputFile, OutputPart, Plan, PlannedTensor, ZipTail } from './plan.js';

/** Folder in the output where the state of parts is kept. No file of a plan has its name. */
export const STATE_FOLDER = '.unshard';

/** A dimension of an adapter is at most this: rows of this many values are held in memory (64 MiB). */
const MAX_DIMENSION = 2 ** 24;

/** Longest name in a zip file, in bytes: its length is a 16-bit field. */
const MAX_ZIP_NAME = 2 ** 16 - 1;

/**
 * Checks a plan: parts cover their files in order and without overlap, tensors are as long as their shape says, pieces cover their
 * tensors and lie inside their sources, names lead out of no folder, and what is stored can be rounded to what is written.
 *
 * @throws UnshardError `plan-invalid` of kind `usage`.
 */
export function checkPlan(asked: Plan): void {
  const plan: Checked = { ...asked, rooms: roomsOf(asked) };
  if (plan.version !== 1) throw invalidPlan('version', 1, plan.version);
  for (const { path } of plan.sources) checkSourcePath(path);
  for (const crc of plan.crcs) checkRange(plan, 'a CRC-32', crc.source, crc.offset, crc.length);
  for (const file of plan.files) checkFile(plan, file);
  for (const tensor of plan.tensors) checkTensor(plan, tensor);
  const names = new Set(plan.files.map(({ path }) => path));
  if (names.size !== plan.files.length)
    throw invalidPlan(
      'the names of the output files',
      'different',
      `the same ${plan.files.length - names.size + 1} times`,
    );
}

/** A plan that is checked. */
interface Checked extends Plan {
  /** For each partition list and each rank: the least number of bytes behind the starts of the partitions up to that rank. */
  readonly rooms: readonly Float64Array[];
}

/** A partition that lies in no file has no room. */
function roomsOf({ partitions, sources }: Plan): Float64Array[] {
  return partitions.map((ranks) => {
    let least = Number.POSITIVE_INFINITY;
    return Float64Array.from(ranks, ({ source, offset }) => {
      const { size = -1 } = sources[source] ?? {};
      const isPlace = Number.isSafeInteger(size) && Number.isSafeInteger(offset) && offset >= 0;
      least = Math.min(least, isPlace ? size - offset : -1);
      return least;
    });
  });
}

function checkSourcePath(path: string): void {
  try {
    if (pathSegments(path, 'source').length > 0) return;
  } catch (error) {
    if (!isUnshardError(error)) throw error;
  }
  throw invalidPlan('the path of a source', 'a plain path inside the checkpoint', path);
}

function checkFile(plan: Checked, file: OutputFile): void {
  // Names come from the plan's file, and must not lead out of the folder that the user chose.
  if (!/^[^/\\\0]+$/.test(file.path) || ['.', '..', STATE_FOLDER].includes(file.path))
    throw invalidPlan('the name of an output file', 'a plain name', file.path);
  let end = 0;
  for (const part of file.parts) {
    if (file.afterOthers && part.kind !== 'literal')
      throw invalidPlan(`a part of ${file.path}, which comes last,`, 'known bytes', part.kind);
    if (part.length <= 0 || part.at < end) throw invalidPlan(`a part of ${file.path}`, `at ${end} or later`, part.at);
    // Only a zip file has bytes between its parts: they are written with its end.
    if (part.at > end && !file.zip) throw invalidPlan(`a part of ${file.path}`, `at ${end}`, part.at);
    end = part.at + part.length;
    if (part.kind === 'literal') checkLiteral(file.path, part);
    if (part.kind === 'copy') checkRange(plan, file.path, part.source, 0, part.length);
    if (part.kind === 'tensor') {
      const tensor = plan.tensors[part.tensor];
      if (!tensor) throw invalidPlan(`a part of ${file.path}`, `tensor 0 to ${plan.tensors.length - 1}`, part.tensor);
      const length = numelOf(tensor.shape) * bytesOf(tensor.to);
      if (part.length !== length) throw invalidPlan(`${tensor.name} in ${file.path}`, `${length} bytes`, part.length);
    }
  }
  if (file.zip ? end > file.byteLength : end !== file.byteLength)
    throw invalidPlan(`the length of ${file.path}`, end, file.byteLength);
  if (file.zip) checkZip(file, file.zip);
}

function checkLiteral(path: string, { length, base64 }: Extract<OutputPart, { kind: 'literal' }>): void {
  const padding = (3 - (length % 3)) % 3;
  const digits = 4 * Math.ceil(length / 3) - padding;
  const isBase64 =
    base64.length === digits + padding &&
    /^[A-Za-z0-9+/]*={0,2}$/.test(base64) &&
    base64.indexOf('=') === (padding === 0 ? -1 : digits);
  if (!isBase64)
    throw invalidPlan(`the bytes of a part of ${path}`, `${length} bytes as base64`, `${base64.length} characters`);
}

/** The end of a zip file: it lies behind the parts, and every record has its CRC-32 or is a tensor. */
function checkZip(file: OutputFile, { records }: ZipTail): void {
  const lengths = new Map(file.parts.map((part) => [part.at, part]));
  let end = 0;
  for (const record of records) {
    if (record.at < end) throw invalidPlan(`a record of ${file.path}`, `at ${end} or later`, record.at);
    end = record.at + record.length;
    const nameLength = new TextEncoder().encode(record.name).length;
    if (nameLength === 0 || nameLength > MAX_ZIP_NAME)
      throw invalidPlan(`a name in ${file.path}`, `1 to ${MAX_ZIP_NAME} bytes long`, nameLength);
    if (record.crc32 !== undefined || record.length === 0) continue;
    const part = lengths.get(record.at);
    if (part?.kind !== 'tensor' || part.length !== record.length)
      throw invalidPlan(`record ${record.name} of ${file.path}`, 'a tensor', part?.kind ?? 'nothing');
  }
  const taken = file.parts.map(({ at, length }) => ({ at, end: at + length }));
  const tail = emitZipTail(records.map((record) => ({ ...record, crc32: 0 })));
  const all = [...taken, ...tail.map(({ at, bytes }) => ({ at, end: at + bytes.length }))].toSorted(
    (a, b) => a.at - b.at,
  );
  for (const [i, piece] of all.entries()) {
    const stop = all[i + 1]?.at ?? file.byteLength;
    if (piece.end > stop) throw invalidPlan(`the end of ${file.path}`, `at most ${stop}`, piece.end);
  }
}

function checkTensor(plan: Checked, tensor: PlannedTensor): void {
  const { name, shape, from, to, pieces, compute, proofs = [] } = tensor;
  if (!roundsTo(from, to)) throw invalidPlan(`the dtype of ${name}`, `one that ${from} can be rounded to`, to);
  checkPieces(plan, name, bytesOf(from), numelOf(shape), pieces);
  for (const proof of proofs) {
    const { dtype } = proof;
    const isComparable = compute ? dtype === to : dtype === to || roundsTo(from, dtype);
    if (!isComparable)
      throw invalidPlan(`the dtype of a proof of ${name}`, `${to} or what ${from} can be rounded to`, dtype);
    checkPieces(plan, `a proof of ${name}`, bytesOf(proof.dtype), numelOf(shape), proof.pieces);
  }
  if (compute) checkCompute(plan, tensor, compute);
}

/** Operands of a computed tensor: floats, as many as the matrices have elements. */
function checkCompute(plan: Checked, { name, shape, from, to }: PlannedTensor, compute: Compute): void {
  const numel = numelOf(shape);
  const operand = (what: string, bits: StoredBits, count: number) => {
    if (!isFloat(bits.dtype)) throw invalidPlan(`${what} of ${name}`, 'floating point', bits.dtype);
    checkPieces(plan, `${what} of ${name}`, bytesOf(bits.dtype), count, bits.pieces);
  };
  if (!isFloat(from)) throw invalidPlan(`what ${name} is computed from`, 'floating point', from);
  if (!isTarget(to)) throw invalidPlan(`the dtype of ${name}, which is computed,`, 'F32, F16 or BF16', to);
  if (compute.kind === 'mean') {
    if (compute.of.length === 0) throw invalidPlan(`the copies of ${name}`, 'one or more', 0);
    for (const copy of compute.of) operand('a copy', copy, numel);
    return;
  }
  const { a, b, rank, rows, columns, scale, transpose } = compute;
  for (const size of [rank, rows, columns]) {
    if (!Number.isSafeInteger(size) || size <= 0)
      throw invalidPlan(`a dimension of the adapter on ${name}`, 'positive', size);
  }
  if (Math.max(rank, columns) > MAX_DIMENSION)
    throw invalidPlan(`a dimension of the adapter on ${name}`, `at most ${MAX_DIMENSION}`, Math.max(rank, columns));
  if (!Number.isFinite(scale)) throw invalidPlan(`the scale of the adapter on ${name}`, 'a number', scale);
  if (numel % columns !== 0 || numel > rows * columns)
    throw invalidPlan(`the size of ${name}`, `at most ${rows} rows of ${columns}`, numel);
  operand('lora_A', a, rank * (transpose ? rows : columns));
  operand('lora_B', b, rank * (transpose ? columns : rows));
}

/** Pieces of a tensor of `numel` elements of `size` bytes: together they cover it once. */
function checkPieces(plan: Checked, name: string, size: number, numel: number, pieces: readonly Piece[]): void {
  const length = numel * size;
  if (!Number.isSafeInteger(length)) throw invalidPlan(`the size of ${name}`, 'less than 2^53 bytes', length);
  const covered = pieces.reduce((sum, piece) => sum + pieceLength(piece), 0);
  if (covered !== length) throw invalidPlan(`the pieces of ${name}`, `${length} bytes`, covered);
  for (const piece of pieces) checkPiece(plan, name, piece, length, size);
  if (pieces.some((piece) => !isRankCut(piece) && piece.repeat)) return;
  let at = 0;
  for (const piece of pieces.toSorted((a, b) => a.at - b.at)) {
    if (piece.at !== at) throw invalidPlan(`a piece of ${name}`, `at ${at}`, piece.at);
    at += piece.length;
  }
}

function checkPiece(plan: Checked, name: string, piece: Piece, length: number, size: number): void {
  if (piece.length % size !== 0 || piece.at % size !== 0)
    throw invalidPlan(`a piece of ${name}`, `whole elements of ${size} bytes`, piece.length);
  if (!isRankCut(piece)) {
    const loops = piece.repeat ?? [];
    for (const { count, to } of loops)
      if (count < 1 || (count > 1 && to < 1))
        throw invalidPlan(`a loop of ${name}`, 'runs at different places', `${count} runs ${to} apart`);
    const span = loops.reduce((sum, loop) => sum + (loop.count - 1) * loop.from, piece.length);
    const reach = loops.reduce((sum, loop) => sum + (loop.count - 1) * loop.to, piece.at + piece.length);
    if (reach > length) throw invalidPlan(`a piece of ${name}`, `at most ${length} bytes`, reach);
    checkRange(plan, name, piece.source, piece.offset, span);
    return;
  }
  const ranks = plan.partitions[piece.over] ?? [];
  if (piece.share <= 0 || ranks.length * piece.share < piece.length)
    throw invalidPlan(`the ranks of ${name}`, `shares of ${piece.length} bytes`, ranks.length * piece.share);
  // Of ranks with a whole share the one with the least room tells for all; only where it is too little each is looked at.
  const whole = Math.min(Math.floor(piece.length / piece.share), ranks.length);
  const room = plan.rooms[piece.over]?.[whole - 1] ?? Number.POSITIVE_INFINITY;
  const fits = Number.isSafeInteger(piece.offset) && piece.offset >= 0 && piece.offset + piece.share <= room;
  for (const [i, partition] of ranks.slice(fits ? whole : 0).entries()) {
    const share = Math.min(piece.share, piece.length - (fits ? whole + i : i) * piece.share);
    if (share <= 0) break;
    checkRange(plan, name, partition.source, partition.offset + piece.offset, share);
  }
}

function checkRange(plan: Checked, what: string, source: number, offset: number, length: number): void {
  const file = plan.sources[source];
  if (!file) throw invalidPlan(`a source of ${what}`, `0 to ${plan.sources.length - 1}`, source);
  const inside = Number.isSafeInteger(offset) && offset >= 0 && offset + length <= file.size;
  if (!inside)
    throw invalidPlan(
      `a range of ${file.path} for ${what}`,
      `within ${file.size} bytes`,
      `${offset} to ${offset + length}`,
    );
}

/** The error for a plan that is not what it should be: what of it, what it should be, and what it is. */
export function invalidPlan(what: string, expected: string | number, found: string | number): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'plan-invalid',
    message: `The plan is not valid: ${what} must be ${expected}; it is ${found}.`,
    advice: 'Make the plan again from the checkpoint.',
    facts: { what, expected, found },
  });
}
