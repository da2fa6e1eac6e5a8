/**
 * The backend that needs nothing but JavaScript. Its conversions are the specification in `numeric/`; here is only the
 * gathering: pieces come from any alignment and results go to any, while the loops want whole words.
 *
 * @module
 */

import { bytesOf, type FloatDType } from '../base/dtype.js';
import { type Convert, converter } from '../numeric/convert.js';
import { scan } from '../numeric/scan.js';
import { emptyStats } from '../numeric/stats.js';
import type { Backend, ConvertJob, ConvertStats } from './backend.js';
import { checkJob } from './job.js';

/** A backend that converts on the calling thread. A job is done before `convert` returns its promise. */
export function cpuBackend(): Backend {
  return {
    name: 'cpu',
    description: 'JavaScript',
    convert: async (job) => convertOnCpu(job),
    close: async () => {},
  };
}

/** Statistics of elements that are copied as they are. The bytes may have any alignment. */
export function scanBytes(dtype: FloatDType, bytes: Uint8Array): ConvertStats {
  const stats = emptyStats();
  const count = scan(dtype);
  if (isAligned(bytes.byteOffset, bytesOf(dtype))) {
    count(bytes, stats);
    return stats;
  }
  const block = new Uint8Array(BLOCK_BYTES);
  for (let at = 0; at < bytes.byteLength; at += BLOCK_BYTES) {
    const part = bytes.subarray(at, at + BLOCK_BYTES);
    block.set(part);
    count(block.subarray(0, part.byteLength), stats);
  }
  return stats;
}

/** Size of the aligned copies. Input and output of a block fit the first-level cache; a multiple of every element. */
const BLOCK_BYTES = 32 * 1024;

/** A piece of fewer bytes is gathered with its neighbours: a view of its own would cost more than its conversion. */
const DIRECT_BYTES = 1024;

/** Up to this length a loop is faster than making a view to copy from. */
const LOOP_BYTES = 64;

function convertOnCpu(job: ConvertJob): ConvertStats[] {
  checkJob(job);
  const stats = Array.from({ length: job.slots }, emptyStats);
  const fromBytes = bytesOf(job.from);
  const toBytes = bytesOf(job.to);
  const convert = toAnyAlignment(converter(job.from, job.to, job.overflow), fromBytes, toBytes);
  let written = 0;
  const emit = (input: Uint8Array, slot: number): void => {
    const length = (input.byteLength / fromBytes) * toBytes;
    convert(input, job.output.subarray(written, written + length), stats[slot] as ConvertStats);
    written += length;
  };

  const gathered = new Uint8Array(BLOCK_BYTES);
  let filled = 0;
  let filledSlot = 0;
  const flush = (): void => {
    if (filled > 0) emit(gathered.subarray(0, filled), filledSlot);
    filled = 0;
  };

  for (const { input, count, slot } of job.pieces) {
    const end = input + count * fromBytes;
    if (end - input >= DIRECT_BYTES && isAligned(job.input.byteOffset + input, fromBytes)) {
      flush();
      emit(job.input.subarray(input, end), slot);
      continue;
    }
    if (slot !== filledSlot) flush();
    filledSlot = slot;
    for (let at = input; at < end; ) {
      const length = Math.min(end - at, BLOCK_BYTES - filled);
      copyBytes(job.input, at, gathered, filled, length);
      at += length;
      filled += length;
      if (filled === BLOCK_BYTES) flush();
    }
  }
  flush();
  return stats;
}

function copyBytes(source: Uint8Array, from: number, target: Uint8Array, to: number, length: number): void {
  if (length > LOOP_BYTES) target.set(source.subarray(from, from + length), to);
  else for (let i = 0; i < length; i++) target[to + i] = source[from + i] as number;
}

/** `convert` for output of any alignment: where it has to be, results are made aside and copied. */
function toAnyAlignment(convert: Convert, fromBytes: number, toBytes: number): Convert {
  const results = new Uint8Array(BLOCK_BYTES);
  const inputBytes = (BLOCK_BYTES / toBytes) * fromBytes;
  return (input, output, stats) => {
    if (isAligned(output.byteOffset, toBytes)) return convert(input, output, stats);
    for (let at = 0, to = 0; at < input.byteLength; at += inputBytes, to += BLOCK_BYTES) {
      const block = results.subarray(0, Math.min(BLOCK_BYTES, output.byteLength - to));
      convert(input.subarray(at, at + inputBytes), block, stats);
      output.set(block, to);
    }
  };
}

/** True where bytes from `byteOffset` on can be seen as words; fp64 is read as words of 4 bytes. */
function isAligned(byteOffset: number, elementBytes: number): boolean {
  return byteOffset % Math.min(elementBytes, 4) === 0;
}
