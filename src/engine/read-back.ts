/**
 * Reads a finished file back: its bytes must be those that were written, and its header must name the tensors of the
 * plan where they lie.
 *
 * @module
 */

import { crc32 } from '../base/crc32.js';
import { isUnshardError, UnshardError } from '../base/errors.js';
import { readWeightFile, type StoredTensor } from '../checkpoints/weights.js';
import type { ByteSource, OutputTree } from '../io/types.js';
import type { OutputFile, Plan } from '../plan/plan.js';

/** Bytes that are read back at once (4 MiB): large enough for a disk, and little beside the tiles. */
const PIECE_BYTES = 2 ** 22;

/** Bytes that were written at `at`, and their CRC-32. */
export interface WrittenRange {
  readonly at: number;
  readonly length: number;
  readonly crc32: number;
}

/** What it takes to read files of a run back, one after another. */
export interface ReadBack {
  readonly plan: Plan;
  readonly output: OutputTree;
  readonly signal: AbortSignal;
}

/**
 * Reads a file that was closed. `written` are all ranges that were written to it; between them are zeros.
 *
 * @throws UnshardError `read-back-differs` of kind `sink`; of kind `source` where it cannot be read.
 */
export async function readBack(context: ReadBack, file: OutputFile, written: readonly WrittenRange[]): Promise<void> {
  const source = await context.output.open(file.path);
  try {
    if (source.size !== file.byteLength) throw differs(file.path, 'its size', file.byteLength, source.size);
    const buffer = new Uint8Array(Math.min(PIECE_BYTES, file.byteLength));
    let end = 0;
    for (const range of written.toSorted((a, b) => a.at - b.at)) {
      await checkZeros(context, source, end, range.at, buffer);
      await checkRange(context, source, range, buffer);
      end = range.at + range.length;
    }
    await checkZeros(context, source, end, file.byteLength, buffer);
    await checkHeader(context, file, source);
  } finally {
    await source.close();
  }
}

async function checkRange(
  { signal }: ReadBack,
  source: ByteSource,
  { at, length, crc32: expected }: WrittenRange,
  buffer: Uint8Array,
): Promise<void> {
  let found = 0;
  for await (const piece of piecesOf(source, at, at + length, buffer, signal)) found = crc32(piece, found);
  if (found === expected) return;
  throw differs(source.name, `the CRC-32 of bytes ${at} to ${at + length}`, hex(expected), hex(found));
}

async function checkZeros(
  { signal }: ReadBack,
  source: ByteSource,
  start: number,
  end: number,
  buffer: Uint8Array,
): Promise<void> {
  for await (const piece of piecesOf(source, start, end, buffer, signal)) {
    const odd = piece.find((byte) => byte !== 0);
    if (odd !== undefined) throw differs(source.name, `a byte of the padding from ${start} to ${end}`, 0, odd);
  }
}

/** Bytes `[start, end)` of a source, a buffer at a time. */
async function* piecesOf(
  source: ByteSource,
  start: number,
  end: number,
  buffer: Uint8Array,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for (let at = start; at < end; at += buffer.length) {
    const piece = buffer.subarray(0, Math.min(buffer.length, end - at));
    await source.read(at, piece, signal);
    yield piece;
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
