/**
 * EXPECTED.json: what must come out of a checkpoint, made when the checkpoint was made, and the comparison with what did.
 *
 * @module
 */

import { createHash } from 'node:crypto';
import { closeSync, openSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Parameter } from './shapes.js';
import { fillValues, roundToBf16, roundToFp16 } from './values.js';

/** Precisions that there are hashes for, and what a safetensors file calls them. */
export const PRECISIONS = { fp32: 'F32', fp16: 'F16', bf16: 'BF16' } as const;

/** One of them. */
export type Precision = keyof typeof PRECISIONS;

/** SHA-256 of each tensor in each precision. */
export interface Expected {
  readonly elements: number;
  readonly tensors: Readonly<
    Record<string, { readonly shape: readonly number[] } & Readonly<Record<Precision, string>>>
  >;
}

/** Elements that are hashed at a time. */
const CHUNK_ELEMENTS = 1 << 20;

/** Bytes of the length in front of a safetensors header. */
const LENGTH_BYTES = 8;

/** Writes the EXPECTED.json of a checkpoint whose weights are the sequence of `seed`. */
export function writeExpected(folder: string, parameters: readonly Parameter[], seed: number): void {
  const elements = parameters.reduce((sum, parameter) => sum + parameter.elements, 0);
  const tensors = Object.fromEntries(parameters.map((parameter) => [parameter.name, hashesOf(parameter, seed)]));
  writeFileSync(join(folder, 'EXPECTED.json'), JSON.stringify({ elements, tensors } satisfies Expected, undefined, 1));
}

/** Reads the EXPECTED.json of a checkpoint. */
export function readExpected(folder: string): Expected {
  return JSON.parse(readFileSync(join(folder, 'EXPECTED.json'), 'utf8')) as Expected;
}

/** Compares every tensor of a safetensors file. Gives what is wrong with it, nothing where it is right. */
export function verifyOutput(path: string, expected: Expected, precision: Precision): string[] {
  const file = openSync(path, 'r');
  try {
    const length = Number(readAt(file, 0, LENGTH_BYTES).readBigUInt64LE());
    const header = JSON.parse(readAt(file, LENGTH_BYTES, length).toString('utf8')) as Record<string, HeaderEntry>;
    const wrong = Object.entries(expected.tensors).flatMap(([name, tensor]) => {
      const entry = header[name];
      if (entry === undefined) return [`${name} is missing`];
      const dtype = PRECISIONS[precision];
      if (entry.dtype !== dtype) return [`${name} is ${entry.dtype}, not ${dtype}`];
      if (String(entry.shape) !== String(tensor.shape))
        return [`${name} has shape [${entry.shape}], not [${tensor.shape}]`];
      const [begin, end] = entry.data_offsets;
      const data = LENGTH_BYTES + length;
      return hashOfRange(file, data + begin, data + end) === tensor[precision] ? [] : [`${name} has other values`];
    });
    const more = Object.keys(header).filter((name) => name !== '__metadata__' && !(name in expected.tensors));
    return [...wrong, ...more.map((name) => `${name} is not expected`)];
  } finally {
    closeSync(file);
  }
}

interface HeaderEntry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [begin: number, end: number];
}

function hashesOf({ shape, elements, first }: Parameter, seed: number): Expected['tensors'][string] {
  const [fp32, fp16, bf16] = [createHash('sha256'), createHash('sha256'), createHash('sha256')];
  const words = new Uint32Array(CHUNK_ELEMENTS);
  const halves = new Uint16Array(CHUNK_ELEMENTS);
  for (let done = 0; done < elements; done += CHUNK_ELEMENTS) {
    const count = Math.min(CHUNK_ELEMENTS, elements - done);
    const [wide, narrow] = [words.subarray(0, count), halves.subarray(0, count)];
    fillValues(wide, first + done, seed);
    fp32.update(wide);
    roundToFp16(wide, narrow);
    fp16.update(narrow);
    roundToBf16(wide, narrow);
    bf16.update(narrow);
  }
  return { shape, fp32: fp32.digest('hex'), fp16: fp16.digest('hex'), bf16: bf16.digest('hex') };
}

function hashOfRange(file: number, start: number, end: number): string {
  const hash = createHash('sha256');
  for (let at = start; at < end; at += 4 * CHUNK_ELEMENTS) {
    hash.update(readAt(file, at, Math.min(4 * CHUNK_ELEMENTS, end - at)));
  }
  return hash.digest('hex');
}

function readAt(file: number, at: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const count = readSync(file, bytes, done, length - done, at + done);
    if (count === 0) throw new Error(`The output ends at ${at + done}, before ${at + length}.`);
    done += count;
  }
  return bytes;
}
