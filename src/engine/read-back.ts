/**
 * Reads a finished file back: its bytes must be those that were written, and its header must name the tensors of the
 * plan where they lie.
 *
 * @module
 */

import { crc32 } from '../base/crc32.js';
import { firstDifference } from '../base/difference.js';
import { isUnshardError, UnshardError } from '../base/errors.js';
import { releaseBytes, reserveBytes } from '../base/kernel-memory.js';
import { counted } from '../base/words.js';
import { readWeightFile, type StoredTensor } from '../checkpoints/weights.js';
import type { ByteSource, OutputTree, SharedSink } from '../io/types.js';
import type { OutputFile, Plan } from '../plan/plan.js';
import { startDigest } from './digest.js';
import type { WrittenRange } from './written.js';

/** Bytes that are read back at once (4 MiB) … */
const PIECE_BYTES = 2 ** 22;
/** … and how many such reads are under way: a browser takes a while for each. */
const PIECES_AHEAD = 2;

/** Bytes of an open file that are read back at once (256 KiB): they stay in the cache of the processor. */
const OPEN_BYTES = 2 ** 18;

/** What a report says of so many files, of so many bytes, that were all read back. */
export function readBackDetail(files: number, bytes: number): string {
  return `Read back: ${counted(files, 'file')} of ${bytes} bytes. Each holds what was written, and its header says where.`;
}

/** What it takes to read files of a run back. */
export interface ReadBack {
  readonly plan: Plan;
  readonly output: OutputTree;
  readonly signal: AbortSignal;
}

/** What is wanted of a file that was closed. */
export interface Wanted {
  /** All ranges that were written to it, to be compared; between them are zeros. */
  readonly written?: readonly WrittenRange[];
  /** Compare its header with the plan. */
  readonly header: boolean;
  /** Take its SHA-256. */
  readonly sha256: boolean;
}

/**
 * Reads a file that was closed. Resolves to its SHA-256, where that is wanted.
 *
 * @throws UnshardError `read-back-differs` of kind `sink`; of kind `source` where it cannot be read.
 */
export async function readBack(context: ReadBack, file: OutputFile, wanted: Wanted): Promise<string | undefined> {
  const source = await context.output.open(file.path);
  try {
    if (source.size !== file.byteLength) throw differs(file.path, 'its size', file.byteLength, source.size);
    const comparison = wanted.written && new Comparison(file.path, wanted.written);
    const digest = wanted.sha256 ? await startDigest() : undefined;
    if (comparison || digest) {
      for await (const piece of piecesOf(source, context.signal)) {
        comparison?.add(piece);
        digest?.update(piece);
      }
    }
    if (wanted.header) await checkHeader(context, file, source);
    return digest?.hex();
  } finally {
    await source.close();
  }
}

/**
 * Reads a part of a file back that is not closed yet, a buffer at a time, and compares it with the bytes that were written
 * at `at`.
 *
 * @throws UnshardError `read-back-differs`.
 */
export async function readBackOpen(
  path: string,
  read: NonNullable<SharedSink['read']>,
  at: number,
  written: Uint8Array,
): Promise<void> {
  const buffer = reserveBytes(Math.min(OPEN_BYTES, written.length));
  try {
    for (let done = 0; done < written.length; done += buffer.length) {
      const expected = written.subarray(done, done + buffer.length);
      const found = buffer.subarray(0, expected.length);
      await read(at + done, found);
      const odd = firstDifference(expected, found);
      if (odd < expected.length) throw differs(path, `byte ${at + done + odd}`, expected[odd] ?? 0, found[odd] ?? 0);
    }
  } finally {
    releaseBytes(buffer);
  }
}

/** Compares a file, piece by piece, with the ranges that were written to it. */
class Comparison {
  readonly #path: string;
  readonly #ranges: readonly WrittenRange[];
  #at = 0;
  #next = 0;
  /** CRC-32 of what was seen of the next range. */
  #crc = 0;

  constructor(path: string, written: readonly WrittenRange[]) {
    this.#path = path;
    this.#ranges = written.filter(({ length }) => length > 0).toSorted((a, b) => a.at - b.at);
  }

  add(piece: Uint8Array): void {
    const end = this.#at + piece.length;
    for (let from = 0; this.#at < end; ) {
      const range = this.#ranges[this.#next];
      const isInside = range !== undefined && range.at <= this.#at;
      const stop = Math.min(end, range === undefined ? end : isInside ? range.at + range.length : range.at);
      const bytes = piece.subarray(from, from + stop - this.#at);
      if (isInside) this.#addBytes(range, bytes, stop);
      else this.#addZeros(bytes);
      from += bytes.length;
      this.#at = stop;
    }
  }

  #addBytes({ at, length, crc32: expected }: WrittenRange, bytes: Uint8Array, stop: number): void {
    this.#crc = crc32(bytes, this.#crc);
    if (stop < at + length) return;
    if (this.#crc !== expected) {
      throw differs(this.#path, `the CRC-32 of bytes ${at} to ${stop}`, hex(expected), hex(this.#crc));
    }
    this.#next++;
    this.#crc = 0;
  }

  #addZeros(bytes: Uint8Array): void {
    const odd = bytes.findIndex((byte) => byte !== 0);
    if (odd >= 0) throw differs(this.#path, `byte ${this.#at + odd}, which is padding,`, 0, bytes[odd] ?? 0);
  }
}

/** The bytes of a source in order; a piece is overwritten when the next but one is asked for. */
async function* piecesOf(source: ByteSource, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const buffers = Array.from({ length: PIECES_AHEAD }, () => reserveBytes(Math.min(PIECE_BYTES, source.size)));
  let at = 0;
  const readNext = async (buffer: Uint8Array): Promise<Uint8Array> => {
    const piece = buffer.subarray(0, Math.min(buffer.length, source.size - at));
    const offset = at;
    at += piece.length;
    await source.read(offset, piece, signal);
    return piece;
  };
  const reads: { readonly buffer: Uint8Array; readonly piece: Promise<Uint8Array> }[] = [];
  const start = (buffer: Uint8Array): void => {
    if (at >= source.size) return;
    const piece = readNext(buffer);
    // Whoever waits for it is told; until then nobody does.
    piece.catch(() => {});
    reads.push({ buffer, piece });
  };
  try {
    for (const buffer of buffers) start(buffer);
    for (let read = reads.shift(); read; read = reads.shift()) {
      yield await read.piece;
      start(read.buffer);
    }
  } finally {
    await Promise.allSettled(reads.map(({ piece }) => piece));
    for (const buffer of buffers) releaseBytes(buffer);
  }
}

/** The header of a weight file, read by what reads the files of others, must say what the plan says. */
async function checkHeader({ plan, signal }: ReadBack, file: OutputFile, source: ByteSource): Promise<void> {
  const parts = file.parts.flatMap((part) => (part.kind === 'tensor' ? [part] : []));
  if (parts.length === 0) return;
  const { tensors } = await readWeightFile(source, 0, signal).catch((error: unknown) => {
    if (!isUnshardError(error, 'bad-file', 'unsupported')) throw error;
    const fault = differs(file.path, 'its header', 'what was written', error.detail.code);
    throw new UnshardError(fault.detail, { cause: error });
  });
  for (const { tensor: index, at, length } of parts) {
    const planned = plan.tensors[index];
    const name = planned?.name ?? '';
    const expected = `${planned?.to} [${planned?.shape}] at ${at} of ${length} bytes`;
    const found = placeText(tensors.get(name));
    if (found !== expected) throw differs(file.path, `the place of ${name}`, expected, found);
  }
}

function placeText(tensor: StoredTensor | undefined): string {
  const [run] = tensor?.pieces ?? [];
  if (!tensor || !run || !('offset' in run) || 'over' in run) return 'nothing';
  return `${tensor.dtype} [${tensor.shape}] at ${run.offset} of ${run.length} bytes`;
}

function differs(file: string, what: string, expected: string | number, found: string | number): UnshardError {
  return new UnshardError({
    kind: 'sink',
    code: 'read-back-differs',
    message: `${file} is not what was written: ${what} should be ${expected} and was read back as ${found}.`,
    advice: 'The disk or the memory of this machine damages data. Write to another disk, and check both.',
    facts: { file, expected, found },
  });
}

function hex(crc: number): string {
  return crc.toString(16).padStart(8, '0');
}
