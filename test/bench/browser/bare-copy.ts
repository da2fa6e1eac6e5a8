/**
 * How a bare copy in the browser goes about: which bytes are read for which part of which file. Pure.
 *
 * @module
 */

/** What is copied: ranges of files are read, and as many files are written as long as the product writes them. */
export interface BareCopy {
  readonly reads: readonly { readonly path: string; readonly offset: number; readonly length: number }[];
  readonly files: readonly { readonly path: string; readonly byteLength: number }[];
}

/** A part of a file, and what is read for it. */
export interface BareTile {
  readonly at: number;
  readonly length: number;
  readonly reads: BareCopy['reads'];
}

/** Bytes of a read and of a write (16 MiB): the best size, with several at once. */
export const PIECE_BYTES = 2 ** 24;

/** Pieces that are under way at once. More do not read faster. */
export const PIECES_AT_ONCE = 8;

/** Files that are written at once: browsers check finished files one after another within a lane. */
export const FILES_AT_ONCE = 4;

/** The tiles of each file. What is read is shared out in proportion to what is written, in order. */
export function bareTiles({ reads, files }: BareCopy): BareTile[][] {
  const read = reads.reduce((sum, { length }) => sum + length, 0);
  const written = files.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const pieces = reads.flatMap(({ path, offset, length }) =>
    Array.from({ length: Math.ceil(length / PIECE_BYTES) }, (_, i) => {
      return { path, offset: offset + i * PIECE_BYTES, length: Math.min(PIECE_BYTES, length - i * PIECE_BYTES) };
    }),
  );
  let next = 0;
  let doneRead = 0;
  let doneWritten = 0;
  return files.map(({ byteLength }) =>
    Array.from({ length: Math.ceil(byteLength / PIECE_BYTES) }, (_, i): BareTile => {
      const at = i * PIECE_BYTES;
      const length = Math.min(PIECE_BYTES, byteLength - at);
      doneWritten += length;
      const until = doneWritten === written ? read : (doneWritten / written) * read;
      const first = next;
      while (next < pieces.length && doneRead < until) doneRead += pieces[next++]?.length ?? 0;
      return { at, length, reads: pieces.slice(first, next) };
    }),
  );
}

/** How many tiles of a file are under way at once, where `files` files have tiles. */
export function lanesOfFile(files: number): number {
  return Math.max(1, Math.floor(PIECES_AT_ONCE / Math.min(FILES_AT_ONCE, Math.max(1, files))));
}
