/**
 * Reads and checks the header of a safetensors file. It accepts what the reference reader accepts, less what no writer
 * produces: repeated keys, unknown fields, sizes above 2^53 - 1.
 *
 * @module
 */

import { bytesOf, type DType, isDType } from '../../base/dtype.js';
import { UnshardError } from '../../base/errors.js';
import { readBytes } from '../../io/read.js';
import type { ByteSource } from '../../io/types.js';
import { JsonCursor, JsonFault } from './json.js';
import { MAX_HEADER_LENGTH, METADATA_KEY, PREFIX_LENGTH } from './layout.js';

/** Bytes read from the start of a file at once: the header of an ordinary model, so that one read will do. */
const HEAD_LENGTH = 65_536;

/** One tensor. `[begin, end)` are bytes of the data, which starts at `SafetensorsHeader.dataOffset`. */
export interface SafetensorsEntry {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly end: number;
}

/** A checked header: the entries cover the data without gap or overlap, and each has the size of its shape. */
export interface SafetensorsHeader {
  /** In the order of the data. */
  readonly entries: readonly SafetensorsEntry[];
  readonly metadata: Readonly<Record<string, string>>;
  /** Where the data starts in the file. */
  readonly dataOffset: number;
}

/**
 * Reads the header of a safetensors file; no tensor bytes beyond the first 64 KiB of the file are read.
 *
 * @throws UnshardError of kind `bad-file`, or `unsupported` for a dtype that Unshard does not know.
 */
export async function readSafetensorsHeader(source: ByteSource, signal?: AbortSignal): Promise<SafetensorsHeader> {
  const { name, size } = source;
  if (size < PREFIX_LENGTH) throw truncated(name, PREFIX_LENGTH, size);
  const head = await readBytes(source, 0, Math.min(size, HEAD_LENGTH), signal);
  const length = new DataView(head.buffer).getBigUint64(0, true);
  if (length > MAX_HEADER_LENGTH) {
    const message = `its header claims ${length} bytes; the format allows ${MAX_HEADER_LENGTH}`;
    throw bad(name, 'safetensors-header-too-large', message, { limit: MAX_HEADER_LENGTH, found: String(length) });
  }
  const dataOffset = PREFIX_LENGTH + Number(length);
  if (dataOffset > size) throw truncated(name, dataOffset, size);
  const bytes =
    dataOffset <= head.length
      ? head.subarray(PREFIX_LENGTH, dataOffset)
      : await readBytes(source, PREFIX_LENGTH, dataOffset - PREFIX_LENGTH, signal);
  const { entries, metadata } = parseHeader(name, bytes);
  return { entries: checkCoverage(name, entries, size - dataOffset), metadata, dataOffset };
}

interface Parsed {
  readonly entries: SafetensorsEntry[];
  readonly metadata: Record<string, string>;
}

function parseHeader(file: string, bytes: Uint8Array): Parsed {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw bad(file, 'safetensors-bad-header', 'its header is not UTF-8', {});
  }
  try {
    return parseText(file, new JsonCursor(text));
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    const message = `its header is not what a safetensors header must be: at character ${error.at}, ${error.message}`;
    throw bad(file, 'safetensors-bad-header', message, { offset: error.at });
  }
}

function parseText(file: string, json: JsonCursor): Parsed {
  const entries: SafetensorsEntry[] = [];
  const seen = new Set<string>();
  let metadata: Record<string, string> = {};
  json.object((key) => {
    refuseRepeat(json, seen, key);
    if (key === METADATA_KEY) metadata = parseMetadata(json);
    else entries.push(parseEntry(file, key, json));
  });
  json.end();
  return { entries, metadata };
}

function parseMetadata(json: JsonCursor): Record<string, string> {
  if (json.skipNull()) return {};
  const pairs: [string, string][] = [];
  const seen = new Set<string>();
  json.object((key) => {
    refuseRepeat(json, seen, key);
    pairs.push([key, json.string()]);
  });
  return Object.fromEntries(pairs);
}

function parseEntry(file: string, name: string, json: JsonCursor): SafetensorsEntry {
  let dtype: string | undefined;
  let shape: number[] | undefined;
  let offsets: number[] | undefined;
  const seen = new Set<string>();
  json.object((field) => {
    refuseRepeat(json, seen, field);
    if (field === 'dtype') dtype = json.string();
    else if (field === 'shape') shape = parseIntegers(json);
    else if (field === 'data_offsets') offsets = parseIntegers(json);
    else throw json.fault(`a tensor has no field ${quote(field)}`);
  });
  if (dtype === undefined || shape === undefined || offsets === undefined) {
    throw json.fault('a tensor needs dtype, shape and data_offsets');
  }
  const [begin, end] = offsets;
  if (begin === undefined || end === undefined || offsets.length !== 2) {
    throw json.fault('data_offsets are two numbers');
  }
  return checkEntry(file, { name, dtype, shape, begin, end });
}

function parseIntegers(json: JsonCursor): number[] {
  const values: number[] = [];
  json.array(() => values.push(json.unsigned()));
  return values;
}

/** Readers differ in which of two values they take, so a repeated key is refused. Keys are compared after decoding. */
function refuseRepeat(json: JsonCursor, seen: Set<string>, key: string): void {
  if (seen.has(key)) throw json.fault(`the key ${quote(key)} is there twice`);
  seen.add(key);
}

function checkEntry(file: string, entry: Omit<SafetensorsEntry, 'dtype'> & { dtype: string }): SafetensorsEntry {
  const { name, dtype, shape, begin, end } = entry;
  const tensor = quote(name);
  if (!isDType(dtype)) {
    throw new UnshardError({
      kind: 'unsupported',
      code: 'safetensors-unknown-dtype',
      message: `${file}: tensor ${tensor} has dtype ${quote(dtype)}, which Unshard does not know.`,
      advice: 'Save the tensor in a dtype that PyTorch computes with.',
      facts: { file, tensor, found: quote(dtype) },
    });
  }
  let bytes = bytesOf(dtype);
  for (const extent of shape) {
    bytes *= extent;
    // Checked at each step, as the reference reader does: a later 0 does not make an overflow good.
    if (bytes > Number.MAX_SAFE_INTEGER) {
      const message = `the shape of tensor ${tensor} takes more than 2^53 - 1 bytes`;
      throw bad(file, 'safetensors-shape-too-large', message, { tensor });
    }
  }
  if (end - begin !== bytes) {
    const message = `tensor ${tensor} has bytes [${begin}, ${end}) but its dtype and shape take ${bytes}`;
    throw bad(file, 'safetensors-size-mismatch', message, { tensor, expected: bytes, found: end - begin });
  }
  return { name, dtype, shape, begin, end };
}

/** Puts entries in data order; they must cover `[0, dataLength)` without gap or overlap. */
function checkCoverage(file: string, entries: readonly SafetensorsEntry[], dataLength: number): SafetensorsEntry[] {
  const sorted = [...entries].sort((a, b) => a.begin - b.begin || a.end - b.end);
  let covered = 0;
  for (const { name, begin, end } of sorted) {
    if (begin !== covered) {
      const tensor = quote(name);
      const message = `tensor ${tensor} starts at ${begin} where the one before it ends at ${covered}`;
      throw bad(file, 'safetensors-gap-or-overlap', message, { tensor, expected: covered, found: begin });
    }
    covered = end;
  }
  if (covered > dataLength) throw truncated(file, covered, dataLength);
  if (covered < dataLength) {
    const message = `its tensors end at byte ${covered} of the data, which has ${dataLength}`;
    throw bad(file, 'safetensors-trailing-bytes', message, { expected: covered, found: dataLength });
  }
  return sorted;
}

function truncated(file: string, expected: number, found: number): UnshardError {
  const message = `it is cut short: ${expected} bytes are needed and ${found} are there`;
  return bad(file, 'safetensors-truncated', message, { expected, found });
}

/** A name for people, in quotes; a long one is cut, because a header may hold 100 MB in one name. */
function quote(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}

/** The error for a file that breaks a rule of the format. `message` goes on after the file's name. */
function bad(
  file: string,
  code: string,
  message: string,
  facts: Readonly<Record<string, string | number>>,
): UnshardError {
  const advice = 'The file was damaged or cut short after it was saved: copy it again from where it was written.';
  return new UnshardError({
    kind: 'bad-file',
    code,
    message: `${file}: ${message}.`,
    advice,
    facts: { file, ...facts },
  });
}
