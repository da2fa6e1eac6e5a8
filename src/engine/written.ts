/**
 * CRC-32s of what is written, to compare them with what is read back, and for the records of a zip file.
 *
 * @module
 */

import { combineCrc32, crc32 } from '../base/crc32.js';
import type { Tile } from './tiles.js';

/** Bytes that were written at `at` of a file, and their CRC-32. */
export interface WrittenRange {
  readonly at: number;
  readonly length: number;
  readonly crc32: number;
}

/**
 * The bytes of a tile that its parts cover: with `eachPart` a range for each of them, else one for neighbours together.
 * What no part covers is left to the end of a zip file, which may put descriptors there. Of bytes whose CRC-32 is `known`
 * it is not taken again.
 */
export function writtenRanges(
  tile: Tile,
  bytes: Uint8Array,
  eachPart: boolean,
  known: readonly WrittenRange[] = [],
): WrittenRange[] {
  const runs: { at: number; length: number }[] = [];
  for (const { at, length } of tile.parts) {
    const last = runs.at(-1);
    if (!eachPart && last && last.at + last.length === at) last.length += length;
    else runs.push({ at, length });
  }
  const sorted = known.toSorted((a, b) => a.at - b.at);
  let next = 0;
  return runs.map(({ at: start, length }) => {
    const [at, end] = [tile.at + start, tile.at + start + length];
    let [crc, done] = [0, at];
    const takeTo = (to: number): void => {
      if (to > done) crc = crc32(bytes.subarray(done - tile.at, to - tile.at), crc);
      done = Math.max(done, to);
    };
    for (; next < sorted.length; next++) {
      const range = sorted[next];
      if (!range || range.at >= end) break;
      // What reaches beyond, or over what was there before, is of no use.
      if (range.at < done || range.at + range.length > end) continue;
      takeTo(range.at);
      crc = combineCrc32(crc, range.crc32, range.length);
      done += range.length;
    }
    takeTo(end);
    return { at, length, crc32: crc };
  });
}

/** Zeros between the ranges of a file are taken in steps of this (64 KiB). */
const ZEROS = new Uint8Array(2 ** 16);

/** CRC-32 of a whole file from those of the ranges that were written to it; between them are zeros. */
export function crcOfFile(byteLength: number, written: readonly WrittenRange[]): number {
  let [crc, end] = [0, 0];
  const addZeros = (to: number): void => {
    for (; end < to; end += Math.min(ZEROS.length, to - end)) crc = crc32(ZEROS.subarray(0, to - end), crc);
  };
  for (const range of written.toSorted((a, b) => a.at - b.at)) {
    addZeros(range.at);
    crc = combineCrc32(crc, range.crc32, range.length);
    end += range.length;
  }
  addZeros(byteLength);
  return crc;
}
