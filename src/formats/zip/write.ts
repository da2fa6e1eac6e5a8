/**
 * Writes zip files as `torch.save` does, byte for byte: records stored and aligned, CRC and sizes behind the data, zip64
 * records at the end. Everything but the CRCs is known before the first data byte, so data can be written in any order.
 *
 * @module
 */

import { assert } from '../../base/errors.js';
import {
  CENTRAL,
  DESCRIPTOR,
  END,
  END64,
  END64_RECORD_SIZE,
  FLAG_DESCRIPTOR,
  FLAG_UTF8,
  LOCAL,
  LOCATOR,
  type PlannedZipRecord,
  U16_MAX,
  U32_MAX,
  ZIP64_EXTRA,
} from './layout.js';

/** Data starts at multiples of this many bytes: torch's default, so that a mapped storage is aligned. */
const ALIGNMENT = 64;

/** Bytes of an extra field before its content: id and length. */
const EXTRA_HEAD = 4;

/** Made by Unix, version 3.0; needs 4.5, the version that brought zip64. Both as miniz writes them. */
const MADE_BY = 0x031e;
const NEEDED = 0x002d;

/** A record to lay out. */
export interface ZipRecordInput {
  readonly name: string;
  /** Bytes of data. */
  readonly length: number;
  /** CRC-32 of the data where it is known already. */
  readonly crc32?: number;
}

/** A zip file before its data. */
export interface ZipLayout {
  readonly records: readonly PlannedZipRecord[];
  /** The local headers, complete. */
  readonly headers: readonly PlacedBytes[];
  /** Size of the finished file. */
  readonly byteLength: number;
}

/** Bytes and their offset in the file. */
export interface PlacedBytes {
  readonly at: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** A record whose data is known: what the end of the file is made of. */
export type FinishedZipRecord = PlannedZipRecord & { readonly crc32: number };

/** Places `records` in the given order. Names are unique. */
export function layoutZip(inputs: readonly ZipRecordInput[]): ZipLayout {
  assert(new Set(inputs.map((input) => input.name)).size === inputs.length, 'zip record names are not unique');
  const records: PlannedZipRecord[] = [];
  const headers: PlacedBytes[] = [];
  let header = 0;
  let directoryLength = 0;
  for (const input of inputs) {
    const name = encodeName(input.name);
    const zip64 = zip64Extra(header, input.length, 0);
    const unpadded = header + LOCAL.length + name.length + zip64.length + EXTRA_HEAD;
    const at = Math.ceil(unpadded / ALIGNMENT) * ALIGNMENT;
    const record: PlannedZipRecord = { ...input, header, at };
    records.push(record);
    headers.push({ at: header, bytes: localHeader(record, name, zip64) });
    directoryLength += CENTRAL.length + name.length + zip64.length;
    header = at + input.length + descriptorLength(record);
  }
  return { records, headers, byteLength: header + directoryLength + END64.length + LOCATOR.length + END.length };
}

/** What follows data once every CRC is known: the descriptors, then the directory and the end records as one piece. */
export function emitZipTail(records: readonly FinishedZipRecord[]): PlacedBytes[] {
  const last = records.at(-1);
  const directoryAt = last === undefined ? 0 : last.at + last.length + descriptorLength(last);
  const directory = concat(records.map(centralHeader));
  const tail = concat([directory, ...endRecords(records.length, directoryAt, directory.length)]);
  return [...records.flatMap((record) => descriptorOf(record) ?? []), { at: directoryAt, bytes: tail }];
}

/** The descriptor that follows a record's data; undefined where there is none. */
export function descriptorOf(record: FinishedZipRecord): PlacedBytes | undefined {
  return record.length === 0 ? undefined : { at: record.at + record.length, bytes: descriptor(record) };
}

/** The local header with its name and extra fields: all bytes up to the data. */
function localHeader(record: PlannedZipRecord, name: Uint8Array, zip64: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(record.at - record.header);
  const view = new DataView(bytes.buffer);
  const fill = LOCAL.length + name.length + zip64.length;
  view.setUint32(0, LOCAL.signature, true);
  view.setUint16(LOCAL.flags, flagsOf(record), true);
  view.setUint16(LOCAL.nameLength, name.length, true);
  view.setUint16(LOCAL.extraLength, bytes.length - LOCAL.length - name.length, true);
  bytes.set(name, LOCAL.length);
  bytes.set(zip64, LOCAL.length + name.length);
  bytes.fill(0x5a, fill + EXTRA_HEAD);
  view.setUint16(fill, 0x4246, true);
  view.setUint16(fill + 2, bytes.length - fill - EXTRA_HEAD, true);
  return bytes;
}

function centralHeader(record: FinishedZipRecord): Uint8Array<ArrayBuffer> {
  const name = encodeName(record.name);
  const zip64 = zip64Extra(record.header, record.length, record.length);
  const bytes = new Uint8Array(CENTRAL.length + name.length + zip64.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, CENTRAL.signature, true);
  view.setUint16(CENTRAL.flags, flagsOf(record), true);
  view.setUint32(CENTRAL.crc32, record.crc32, true);
  view.setUint32(CENTRAL.compressedSize, Math.min(record.length, U32_MAX), true);
  view.setUint32(CENTRAL.size, Math.min(record.length, U32_MAX), true);
  view.setUint16(CENTRAL.nameLength, name.length, true);
  view.setUint16(CENTRAL.extraLength, zip64.length, true);
  view.setUint32(CENTRAL.headerOffset, Math.min(record.header, U32_MAX), true);
  bytes.set(name, CENTRAL.length);
  bytes.set(zip64, CENTRAL.length + name.length);
  return bytes;
}

/**
 * The zip64 extra field of a record that needs one: both sizes where they do not fit, then the offset where it does not.
 * The local header has it too, with a compressed size of 0 and an offset that the standard does not ask for.
 */
function zip64Extra(header: number, length: number, compressedSize: number): Uint8Array {
  const values = [...(length >= U32_MAX ? [length, compressedSize] : []), ...(header >= U32_MAX ? [header] : [])];
  if (values.length === 0) return new Uint8Array();
  const view = new DataView(new ArrayBuffer(EXTRA_HEAD + values.length * 8));
  view.setUint16(0, ZIP64_EXTRA, true);
  view.setUint16(2, values.length * 8, true);
  for (const [i, value] of values.entries()) view.setBigUint64(EXTRA_HEAD + i * 8, BigInt(value), true);
  return new Uint8Array(view.buffer);
}

function descriptor(record: FinishedZipRecord): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(descriptorLength(record));
  const view = new DataView(bytes.buffer);
  view.setUint32(0, DESCRIPTOR.signature, true);
  view.setUint32(4, record.crc32, true);
  if (isZip64(record)) {
    view.setBigUint64(8, BigInt(record.length), true);
    view.setBigUint64(16, BigInt(record.length), true);
  } else {
    view.setUint32(8, record.length, true);
    view.setUint32(12, record.length, true);
  }
  return bytes;
}

function descriptorLength(record: PlannedZipRecord): number {
  if (record.length === 0) return 0;
  return isZip64(record) ? DESCRIPTOR.longLength : DESCRIPTOR.length;
}

function isZip64(record: PlannedZipRecord): boolean {
  return record.length >= U32_MAX || record.header >= U32_MAX;
}

function flagsOf(record: PlannedZipRecord): number {
  return record.length === 0 ? FLAG_UTF8 : FLAG_UTF8 | FLAG_DESCRIPTOR;
}

/** The zip64 end record, its locator and the end record. torch writes all three whatever the size. */
function endRecords(count: number, directoryOffset: number, directorySize: number): Uint8Array<ArrayBuffer>[] {
  const end64 = new DataView(new ArrayBuffer(END64.length));
  end64.setUint32(0, END64.signature, true);
  end64.setBigUint64(END64.recordSize, BigInt(END64_RECORD_SIZE), true);
  end64.setUint16(END64.madeBy, MADE_BY, true);
  end64.setUint16(END64.needed, NEEDED, true);
  end64.setBigUint64(END64.countOnDisk, BigInt(count), true);
  end64.setBigUint64(END64.count, BigInt(count), true);
  end64.setBigUint64(END64.directorySize, BigInt(directorySize), true);
  end64.setBigUint64(END64.directoryOffset, BigInt(directoryOffset), true);

  const locator = new DataView(new ArrayBuffer(LOCATOR.length));
  locator.setUint32(0, LOCATOR.signature, true);
  locator.setBigUint64(LOCATOR.endOffset, BigInt(directoryOffset + directorySize), true);
  locator.setUint32(LOCATOR.disks, 1, true);

  const end = new DataView(new ArrayBuffer(END.length));
  end.setUint32(0, END.signature, true);
  end.setUint16(END.countOnDisk, Math.min(count, U16_MAX), true);
  end.setUint16(END.count, Math.min(count, U16_MAX), true);
  end.setUint32(END.directorySize, Math.min(directorySize, U32_MAX), true);
  end.setUint32(END.directoryOffset, Math.min(directoryOffset, U32_MAX), true);
  return [end64, locator, end].map((view) => new Uint8Array(view.buffer));
}

function encodeName(name: string): Uint8Array {
  const bytes = new TextEncoder().encode(name);
  assert(bytes.length > 0 && bytes.length <= U16_MAX, `a zip record name of ${bytes.length} bytes`);
  return bytes;
}

function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
