/**
 * Lays out a safetensors file as `safetensors.torch.save_file` does, byte for byte: every offset and the whole header
 * are known before the first data byte.
 *
 * @module
 */

import { bytesOf, DTYPE_ORDER, type DType } from '../../base/dtype.js';
import { UnshardError } from '../../base/errors.js';
import { numelOf } from '../../base/shape.js';
import { compareUtf8, MAX_HEADER_LENGTH, METADATA_KEY, PREFIX_LENGTH } from './layout.js';

/** The header is padded with spaces to a multiple of this many bytes, so that data is aligned. */
const ALIGNMENT = 8;

/** A tensor to lay out. */
export interface SafetensorsTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** A safetensors file before its data. */
export interface SafetensorsLayout {
  /** Everything in front of the data: length, JSON, padding. */
  readonly header: Uint8Array<ArrayBuffer>;
  /** Indices of the given tensors, in the order of their data. */
  readonly order: readonly number[];
  /** For each given tensor, where its data starts in the file. */
  readonly offsets: readonly number[];
  /** Size of the finished file. */
  readonly byteLength: number;
}

/**
 * Places `tensors` and writes the header. `metadata` is left out where it is empty.
 *
 * @throws UnshardError of kind `unsupported` for a name that readers cannot take, a name that is there twice, or a
 * header above 100 MB.
 */
export function layoutSafetensors(
  tensors: readonly SafetensorsTensor[],
  metadata: Readonly<Record<string, string>>,
): SafetensorsLayout {
  checkNames(tensors, metadata);
  const indexed = tensors.map((tensor, index) => ({ tensor, index }));
  indexed.sort((a, b) => orderOf(b.tensor) - orderOf(a.tensor) || compareUtf8(a.tensor.name, b.tensor.name));
  const fields: string[] = Object.keys(metadata).length === 0 ? [] : [metadataField(metadata)];
  const begins = new Array<number>(tensors.length);
  let end = 0;
  for (const { tensor, index } of indexed) {
    const begin = end;
    end += bytesOf(tensor.dtype) * numelOf(tensor.shape);
    begins[index] = begin;
    fields.push(tensorField(tensor, begin, end));
  }
  const header = frame(`{${fields.join(',')}}`);
  return {
    header,
    order: indexed.map(({ index }) => index),
    offsets: begins.map((begin) => header.length + begin),
    byteLength: header.length + end,
  };
}

/** The position of a tensor's dtype in the reference's enum. The widest dtypes come first, so that all are aligned. */
function orderOf(tensor: SafetensorsTensor): number {
  return DTYPE_ORDER.get(tensor.dtype) ?? 0;
}

function metadataField(metadata: Readonly<Record<string, string>>): string {
  const keys = Object.keys(metadata).sort(compareUtf8);
  const pairs = keys.map((key) => `${JSON.stringify(key)}:${JSON.stringify(metadata[key])}`);
  return `${JSON.stringify(METADATA_KEY)}:{${pairs.join(',')}}`;
}

function tensorField({ name, dtype, shape }: SafetensorsTensor, begin: number, end: number): string {
  const key = JSON.stringify(name);
  return `${key}:{"dtype":"${dtype}","shape":[${shape.join(',')}],"data_offsets":[${begin},${end}]}`;
}

/** Puts the length in front of the JSON and the padding behind it. */
function frame(json: string): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(json);
  const length = Math.ceil(text.length / ALIGNMENT) * ALIGNMENT;
  if (length > MAX_HEADER_LENGTH) {
    throw new UnshardError({
      kind: 'unsupported',
      code: 'safetensors-header-too-large',
      message: `The header would take ${length} bytes; a safetensors file may have ${MAX_HEADER_LENGTH}.`,
      advice: 'Split the output into smaller files.',
      facts: { limit: MAX_HEADER_LENGTH, found: length },
    });
  }
  const header = new Uint8Array(PREFIX_LENGTH + length).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(length), true);
  header.set(text, PREFIX_LENGTH);
  return header;
}

function checkNames(tensors: readonly SafetensorsTensor[], metadata: Readonly<Record<string, string>>): void {
  const seen = new Set<string>();
  for (const { name } of tensors) {
    if (name === METADATA_KEY) throw badName(name, 'the format keeps this name for metadata');
    if (seen.has(name)) throw badName(name, 'it is there twice');
    seen.add(name);
  }
  for (const text of [...seen, ...Object.entries(metadata).flat()]) {
    if (!text.isWellFormed()) throw badName(text, 'UTF-8 cannot hold half of a surrogate pair');
  }
}

function badName(name: string, why: string): UnshardError {
  const text = JSON.stringify(name);
  return new UnshardError({
    kind: 'unsupported',
    code: 'safetensors-bad-name',
    message: `The name ${text} cannot be written to a safetensors file: ${why}.`,
    advice: 'Rename the tensor, or leave it out.',
    facts: { tensor: text },
  });
}
