/**
 * EXPECTED.json: what must come out of a checkpoint, made when the checkpoint was made, and the comparison with what did.
 *
 * @module
 */

import { createHash } from 'node:crypto';
import { closeSync, openSync, readdirSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { readWeightFile } from '../../../src/checkpoints/weights.js';
import { openFolder } from '../../../src/node.js';
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

/** Writes the EXPECTED.json of a checkpoint whose weights are the sequence of `seed`, or zeros where there is none. */
export function writeExpected(folder: string, parameters: readonly Parameter[], seed: number | undefined): void {
  const elements = parameters.reduce((sum, parameter) => sum + parameter.elements, 0);
  const ofZeros = new Map<number, Hashes>();
  const hashes = (parameter: Parameter): Hashes => {
    if (seed !== undefined) return hashesOf(parameter, seed);
    const made = ofZeros.get(parameter.elements) ?? hashesOfZeros(parameter.elements);
    ofZeros.set(parameter.elements, made);
    return made;
  };
  const tensors = Object.fromEntries(
    parameters.map((parameter) => [parameter.name, { shape: parameter.shape, ...hashes(parameter) }]),
  );
  writeFileSync(join(folder, 'EXPECTED.json'), JSON.stringify({ elements, tensors } satisfies Expected, undefined, 1));
}

/** Reads the EXPECTED.json of a checkpoint. */
export function readExpected(folder: string): Expected {
  return JSON.parse(readFileSync(join(folder, 'EXPECTED.json'), 'utf8')) as Expected;
}

/** Where a tensor lies in an output file. */
interface Found {
  readonly path: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Bytes of the file. */
  readonly begin: number;
  readonly end: number;
}

/**
 * Compares every tensor of the safetensors and `.bin` files in a folder. Gives what is wrong with them, nothing where they
 * are right.
 */
export async function verifyOutput(folder: string, expected: Expected, precision: Precision): Promise<string[]> {
  const names = readdirSync(folder).filter((name) => /\.(safetensors|bin)$/.test(name));
  const found = new Map<string, Found>();
  for (const name of names.toSorted()) {
    const path = join(folder, name);
    for (const [tensor, place] of name.endsWith('.bin') ? await torchTensors(path) : safetensors(path)) {
      found.set(tensor, place);
    }
  }
  const dtype = PRECISIONS[precision];
  const wrong = Object.entries(expected.tensors).flatMap(([name, tensor]) => {
    const place = found.get(name);
    if (place === undefined) return [`${name} is missing`];
    if (place.dtype !== dtype) return [`${name} is ${place.dtype}, not ${dtype}`];
    if (String(place.shape) !== String(tensor.shape)) {
      return [`${name} has shape [${place.shape}], not [${tensor.shape}]`];
    }
    return hashOfRange(place) === tensor[precision] ? [] : [`${name} has other values`];
  });
  const more = [...found.keys()].filter((name) => !(name in expected.tensors));
  return [...wrong, ...more.map((name) => `${name} is not expected`)];
}

/** The header of a safetensors file, read a second way. */
function safetensors(path: string): (readonly [name: string, place: Found])[] {
  const file = openSync(path, 'r');
  try {
    const length = Number(readAt(file, 0, LENGTH_BYTES).readBigUInt64LE());
    const header = JSON.parse(readAt(file, LENGTH_BYTES, length).toString('utf8')) as Record<string, HeaderEntry>;
    const data = LENGTH_BYTES + length;
    return Object.entries(header).flatMap(([name, entry]) => {
      if (name === '__metadata__') return [];
      const { dtype, shape, data_offsets: offsets } = entry;
      return [[name, { path, dtype, shape, begin: data + offsets[0], end: data + offsets[1] }]];
    });
  } finally {
    closeSync(file);
  }
}

/** Where a torch file has its tensors, as the product finds them. What lies there is compared without it. */
async function torchTensors(path: string): Promise<(readonly [name: string, place: Found])[]> {
  const source = await (await openFolder(dirname(path))).open(basename(path));
  try {
    const { tensors } = await readWeightFile(source, 0);
    return [...tensors].map(([name, { dtype, shape, pieces }]) => {
      const [piece] = pieces;
      if (!piece || !('offset' in piece) || pieces.length > 1) throw new Error(`${name} is not in one piece.`);
      return [name, { path, dtype, shape, begin: piece.offset, end: piece.offset + piece.length }];
    });
  } finally {
    await source.close();
  }
}

interface HeaderEntry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [begin: number, end: number];
}

type Hashes = Readonly<Record<Precision, string>>;

function hashesOf({ elements, first }: Parameter, seed: number): Hashes {
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
  return { fp32: fp32.digest('hex'), fp16: fp16.digest('hex'), bf16: bf16.digest('hex') };
}

function hashesOfZeros(elements: number): Hashes {
  const zeros = Buffer.alloc(4 * CHUNK_ELEMENTS);
  const hashOf = (byteLength: number): string => {
    const hash = createHash('sha256');
    for (let at = 0; at < byteLength; at += zeros.length) hash.update(zeros.subarray(0, byteLength - at));
    return hash.digest('hex');
  };
  const halves = hashOf(2 * elements);
  return { fp32: hashOf(4 * elements), fp16: halves, bf16: halves };
}

function hashOfRange({ path, begin, end }: Found): string {
  const file = openSync(path, 'r');
  try {
    const hash = createHash('sha256');
    for (let at = begin; at < end; at += 4 * CHUNK_ELEMENTS) {
      hash.update(readAt(file, at, Math.min(4 * CHUNK_ELEMENTS, end - at)));
    }
    return hash.digest('hex');
  } finally {
    closeSync(file);
  }
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
