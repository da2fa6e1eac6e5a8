/**
 * Cuts an output file into tiles of bounded size. Pure: the loop that follows it decides nothing.
 *
 * @module
 */

import { bytesOf } from '../base/dtype.js';
import { assert } from '../base/errors.js';
import { isRankCut, pieceLength } from '../base/extent.js';
import type { OutputFile, OutputPart, Plan, PlannedTensor } from '../plan/plan.js';
import { workingBytes } from './compute.js';

/** Bytes of a tile, read or written, whichever is more, unless the caller says otherwise (16 MiB): a call's overhead vanishes. */
export const TILE_BYTES = 2 ** 24;

/** What the buffers of a tile hold together at most, in tiles: as much as fp32 that is read and 16 bits that are written. */
export const BUFFERS_OF_TILE = 1.5;

/** Where tensors lie in shorter runs on average (64 KiB), larger tiles read more at once. */
const SHORT_RUN = 2 ** 16;

/** A range of one output file. It names a tile where the plan is at hand. */
export interface TileRange {
  /** Index of the file in the plan. */
  readonly file: number;
  /** Byte range of the file. Bytes that no part covers are zeros. */
  readonly at: number;
  readonly length: number;
}

/** A range of one output file, and what it is made of. */
export interface Tile extends TileRange {
  readonly parts: readonly TilePart[];
}

/** The part of an output part that lies in a tile: bytes `[from, from + length)` of it, at byte `at` of the tile. */
export interface TilePart {
  readonly part: OutputPart;
  readonly from: number;
  readonly length: number;
  readonly at: number;
}

/**
 * How large the tiles of a plan should be where one at a time has `memory` bytes: as large as these allow where tensors are
 * cut over so many ranks that each read is short.
 */
export function tileBytesFor({ tensors }: Plan, memory: number): number {
  let [bytes, runs] = [0, 0];
  for (const { pieces } of tensors) {
    for (const piece of pieces) {
      bytes += pieceLength(piece);
      if (isRankCut(piece)) runs += Math.ceil(piece.length / piece.share);
      // What is strided has windows of its own.
      else runs += piece.repeat ? pieceLength(piece) / SHORT_RUN : 1;
    }
  }
  return bytes >= SHORT_RUN * runs ? TILE_BYTES : Math.max(TILE_BYTES, Math.floor(memory / BUFFERS_OF_TILE));
}

/** The tiles of a file, in order, of at most `tileBytes` bytes, read or written. */
export function tilesOf(plan: Plan, file: number, tileBytes = TILE_BYTES): Generator<Tile> {
  const { parts } = outputFile(plan, file);
  return cut(
    plan,
    file,
    parts.map((part) => ({ part, from: 0, length: part.length, at: part.at })),
    tileBytes,
  );
}

/** A tile in smaller ones of at most `bytes` bytes, read or written, in order. */
export function cutTile(plan: Plan, { file, at, parts }: Tile, bytes: number): Generator<Tile> {
  return cut(
    plan,
    file,
    parts.map((part) => ({ ...part, at: at + part.at })),
    bytes,
  );
}

/** Cuts parts, whose places are those in the file, into tiles of `bytes` bytes. */
function* cut(plan: Plan, file: number, whole: readonly TilePart[], bytes: number): Generator<Tile> {
  let parts: TilePart[] = [];
  let start = 0;
  let spent = 0;
  for (const { part, from: first, length: all, at } of whole) {
    const density = densityOf(plan, part);
    const unit = unitOf(plan, part);
    for (let done = 0; done < all; ) {
      if (parts.length === 0) {
        start = at + done;
        spent = 0;
      }
      const fitting = Math.floor((bytes - spent) / density / unit) * unit;
      // One element fits always, however much it takes to compute it.
      const room = parts.length === 0 ? Math.max(fitting, unit) : fitting;
      if (room <= 0) {
        yield tile(file, start, parts);
        parts = [];
        continue;
      }
      const length = Math.min(room, all - done);
      parts.push({ part, from: first + done, length, at: at + done - start });
      spent += length * density;
      done += length;
    }
  }
  if (parts.length > 0) yield tile(file, start, parts);
}

/** The tiles of all files of a plan: of `inFlight` files by turns, each in order. */
export function* tilesInTurn(plan: Plan, inFlight: number, tileBytes = TILE_BYTES): Generator<Tile> {
  const waiting = [...plan.files.keys()].map((file) => tilesOf(plan, file, tileBytes));
  const open = waiting.splice(0, Math.max(1, inFlight));
  for (let tiles = open.shift(); tiles; tiles = open.shift()) {
    const { done, value } = tiles.next();
    if (!done) yield value;
    const next = done ? waiting.shift() : tiles;
    if (next) open.push(next);
  }
}

/** The tile of a range: as `tilesOf` gave it, where that gave the range. */
export function tileAt(plan: Plan, { file, at, length }: TileRange): Tile {
  const { parts } = outputFile(plan, file);
  const end = at + length;
  const found: TilePart[] = [];
  for (let i = firstPartAfter(parts, at); i < parts.length; i++) {
    const part = parts[i];
    if (!part || part.at >= end) break;
    const start = Math.max(part.at, at);
    const stop = Math.min(part.at + part.length, end);
    if (start < stop) found.push({ part, from: start - part.at, length: stop - start, at: start - at });
  }
  return { file, at, length, parts: found };
}

/** Index of the first part that ends after byte `at` of its file. */
function firstPartAfter(parts: readonly OutputPart[], at: number): number {
  let low = 0;
  let high = parts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const part = parts[middle];
    if (part && part.at + part.length <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** A tensor of a plan. */
export function plannedTensor(plan: Plan, index: number): PlannedTensor {
  const tensor = plan.tensors[index];
  assert(tensor, `the plan has no tensor ${index}`);
  return tensor;
}

/**
 * What a byte of output costs of the tile's size, so that its four buffers together are bounded: input, output, and for
 * what is compared the stored bits and the rounded ones.
 */
function densityOf(plan: Plan, part: OutputPart): number {
  if (part.kind !== 'tensor') return 1;
  const { from, to, compute, proofs = [] } = plannedTensor(plan, part.tensor);
  if (compute) return Math.max(1, workingBytes(compute) / bytesOf(to));
  const input = from === to ? 0 : bytesOf(from);
  const compared = proofs.reduce((sum, { dtype }) => sum + 2 * bytesOf(dtype), 0);
  return Math.max(bytesOf(to), bytesOf(from), (bytesOf(to) + input + compared) / BUFFERS_OF_TILE) / bytesOf(to);
}

/** A tile ends at the end of an element. */
function unitOf(plan: Plan, part: OutputPart): number {
  return part.kind === 'tensor' ? bytesOf(plannedTensor(plan, part.tensor).to) : 1;
}

function tile(file: number, at: number, parts: readonly TilePart[]): Tile {
  const last = parts.at(-1);
  return { file, at, length: last ? last.at + last.length : 0, parts };
}

/** A file of a plan. */
export function outputFile(plan: Plan, index: number): OutputFile {
  const file = plan.files[index];
  assert(file, `the plan has no file ${index}`);
  return file;
}
