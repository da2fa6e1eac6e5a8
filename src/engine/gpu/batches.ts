/**
 * Cuts a job into batches that fit the device's buffers. Most jobs are one batch. A batch takes consecutive elements of
 * the output, and of the input only the span that its pieces lie in.
 *
 * @module
 */

import { bytesOf } from '../../base/dtype.js';
import type { ConvertJob, JobPiece } from '../backend.js';
import { TABLE_HEADER, TABLE_PIECE } from './shader.js';

/** A part of a job, for one dispatch. */
export interface Batch {
  /** Bytes `[inputStart, inputEnd)` of the job's input. */
  readonly inputStart: number;
  readonly inputEnd: number;
  /** First element of the job's output, and the number of elements. */
  readonly outputStart: number;
  readonly elements: number;
  /** Pieces of the job or parts of them, none empty; offsets are those of the job. */
  readonly pieces: readonly JobPiece[];
}

/** The batches of a job, in order of output. `maxBytes` bounds each buffer: input, output and table of pieces. */
export function* batchesOf(job: ConvertJob, maxBytes: number): Generator<Batch> {
  const fromBytes = bytesOf(job.from);
  const maxElements = Math.floor(maxBytes / bytesOf(job.to));
  const maxPieces = Math.floor((maxBytes / 4 - TABLE_HEADER) / TABLE_PIECE) - 1;
  let batch = emptyBatch(0);
  for (const piece of job.pieces) {
    for (let done = 0; done < piece.count; ) {
      const input = piece.input + done * fromBytes;
      const start = Math.min(batch.inputStart, input);
      const fits = Math.min(
        batch.inputEnd - start > maxBytes ? 0 : Math.floor((start + maxBytes - input) / fromBytes),
        maxElements - batch.elements,
        batch.pieces.length < maxPieces ? piece.count - done : 0,
      );
      if (fits <= 0) {
        yield batch;
        batch = emptyBatch(batch.outputStart + batch.elements);
        continue;
      }
      batch.inputStart = start;
      batch.inputEnd = Math.max(batch.inputEnd, input + fits * fromBytes);
      batch.pieces.push({ input, output: piece.output + done, count: fits, slot: piece.slot });
      batch.elements += fits;
      done += fits;
    }
  }
  if (batch.elements > 0) yield batch;
}

/** Octets of elements within a piece start at a multiple of so many bytes of the input. */
export type Alignment = 16 | 4 | 1;

/** How the octets of a batch lie, of elements of so many bytes. The coarser, the fewer loads they need. */
export function alignmentOf(batch: Batch, elementBytes: number): Alignment {
  const isMultiple = (bytes: number) =>
    batch.pieces.every(
      ({ input, output }) => (input - batch.inputStart - (output - batch.outputStart) * elementBytes) % bytes === 0,
    );
  return isMultiple(16) ? 16 : isMultiple(4) ? 4 : 1;
}

/** Writes the table of pieces as `gather.wgsl` reads it to the start of `table`, `tableWords` of it. */
export function encodeTable(batch: Batch, id: number, table: Uint32Array): void {
  table[0] = batch.elements;
  table[1] = batch.pieces.length;
  table[2] = id;
  table[3] = 0;
  let at = TABLE_HEADER;
  for (const { input, output, slot } of batch.pieces) {
    table[at] = input - batch.inputStart;
    table[at + 1] = output - batch.outputStart;
    table[at + 2] = slot;
    at += TABLE_PIECE;
  }
  table[at] = 0;
  table[at + 1] = batch.elements;
  table[at + 2] = 0;
}

/** Words that `encodeTable` writes. */
export function tableWords(batch: Batch): number {
  return TABLE_HEADER + TABLE_PIECE * (batch.pieces.length + 1);
}

interface OpenBatch extends Batch {
  inputStart: number;
  inputEnd: number;
  elements: number;
  readonly pieces: JobPiece[];
}

function emptyBatch(outputStart: number): OpenBatch {
  return { inputStart: Number.POSITIVE_INFINITY, inputEnd: 0, outputStart, elements: 0, pieces: [] };
}
