/**
 * Parses the central directory of a zip file: the one place where its bytes become entries that can be trusted to lie
 * apart from each other, inside the file, under names that are safe and distinct.
 *
 * @module
 */

import { countFault, type Directory } from './end.js';
import { badZip, unsupportedZip } from './fault.js';
import {
  CENTRAL,
  DEFLATED,
  DESCRIPTOR,
  FLAG_DESCRIPTOR,
  FLAG_UTF8,
  LOCAL,
  readU64,
  STORED,
  U16_MAX,
  U32_MAX,
  ZIP64_EXTRA,
} from './layout.js';

/** Longest name in bytes: what PyTorch's reader keeps, twice what a file system allows in a file's name. */
export const MAX_NAME_LENGTH = 512;

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** General purpose bits 1 and 2: how hard deflate tried. They change nothing for a reader. */
const FLAGS_DEFLATE_LEVEL = 0x0006;

/** Bits 0, 6 and 13: encrypted data, strong encryption, masked headers. */
const FLAGS_ENCRYPTED = 0x2041;

/** Methods that other programs use, for the message. */
const METHOD_NAMES: ReadonlyMap<number, string> = new Map([
  [9, 'deflate64'],
  [12, 'bzip2'],
  [14, 'lzma'],
  [93, 'zstd'],
  [95, 'xz'],
  [99, 'AES encryption'],
]);

/** One record of a zip file. Its name is unique, also without regard to case. */
export interface ZipEntry {
  readonly name: string;
  /** Offset of the local header. */
  readonly headerOffset: number;
  /** Where the next record, or the directory, starts. */
  readonly recordEnd: number;
  /** Bytes of data in the file; `size` where the method is 0. */
  readonly compressedSize: number;
  /** Bytes of content. */
  readonly size: number;
  readonly crc32: number;
  /** 0: stored as it is. 8: deflated. */
  readonly method: 0 | 8;
  /** General purpose bits. */
  readonly flags: number;
}

/** Something odd about a zip file that does not make it wrong. `code` is a stable id. */
export interface ZipWarning {
  readonly code: 'zip-folder-entry' | 'zip-gap' | 'zip-no-crcs';
  readonly message: string;
}

/** What a directory lists. */
export interface ZipListing {
  /** In file order, without folders. */
  readonly entries: readonly ZipEntry[];
  /** The record that lies last in the file, be it a folder; undefined for a file without records. */
  readonly last: ZipEntry | undefined;
  /** False where no record has a CRC-32. */
  readonly hasCrcs: boolean;
  readonly warnings: readonly ZipWarning[];
}

/** An entry before it is known what follows it. */
type Header = Omit<ZipEntry, 'recordEnd'>;

/**
 * Parses and checks a whole directory.
 *
 * @throws UnshardError of kind `bad-file` or `unsupported`.
 */
export function parseDirectory(file: string, directory: Directory): ZipListing {
  const headers = parseHeaders(file, directory);
  refuseDuplicates(file, headers);
  const all = placeRecords(file, headers, directory.offset);
  const entries = all.filter((entry) => !isFolder(entry));
  const hasCrcs = all.some((entry) => entry.crc32 !== 0) || all.every((entry) => entry.size === 0);
  return { entries, last: all.at(-1), hasCrcs, warnings: warningsOf(file, all, hasCrcs) };
}

/**
 * Bytes of a record beside its data: the local header with name and extra fields, and the descriptor. Undefined where
 * there are more of them than a record can have.
 */
export function overheadOf(entry: ZipEntry): number | undefined {
  const overhead = entry.recordEnd - entry.headerOffset - entry.compressedSize;
  return overhead <= mostOverhead(nameLength(entry.name)) ? overhead : undefined;
}

/** The most bytes that a record can have beside its data, with a name of this many bytes. */
export function mostOverhead(nameLength: number): number {
  return LOCAL.length + nameLength + U16_MAX + DESCRIPTOR.longLength;
}

/** The content of an extra field of this id, or undefined. Throws where the fields do not fill `extra` exactly. */
export function findExtra(file: string, name: string, extra: Uint8Array, id: number): DataView | undefined {
  const view = new DataView(extra.buffer, extra.byteOffset, extra.byteLength);
  let found: DataView | undefined;
  let at = 0;
  while (at < extra.length) {
    const length = at + 4 <= extra.length ? view.getUint16(at + 2, true) : extra.length;
    if (at + 4 + length > extra.length || (found !== undefined && view.getUint16(at, true) === id)) {
      const record = JSON.stringify(name);
      throw badZip(file, 'zip-bad-extra', `the extra fields of record ${record} are broken`, { record: name });
    }
    if (view.getUint16(at, true) === id) found = new DataView(extra.buffer, extra.byteOffset + at + 4, length);
    at += 4 + length;
  }
  return found;
}

function parseHeaders(file: string, directory: Directory): Header[] {
  const { bytes, count } = directory;
  const headers: Header[] = [];
  let at = 0;
  while (headers.length < count) {
    if (at === bytes.length) throw countFault(file, headers.length, count);
    const header = parseHeader(file, bytes.subarray(at), directory.offset + at);
    headers.push(header.entry);
    at += header.length;
  }
  if (at !== bytes.length) throw countFault(file, count + Math.ceil((bytes.length - at) / CENTRAL.length), count);
  return headers;
}

/** Parses the central header at the start of `bytes`, which is at `offset` in the file. */
function parseHeader(file: string, bytes: Uint8Array, offset: number): { entry: Header; length: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < CENTRAL.length || view.getUint32(0, true) !== CENTRAL.signature) {
    throw badZip(file, 'zip-bad-central-header', `there is no directory entry at offset ${offset}`, { offset });
  }
  const u16 = (field: number) => view.getUint16(field, true);
  const u32 = (field: number) => view.getUint32(field, true);
  const nameEnd = CENTRAL.length + u16(CENTRAL.nameLength);
  const extraEnd = nameEnd + u16(CENTRAL.extraLength);
  const length = extraEnd + u16(CENTRAL.commentLength);
  if (length > bytes.length) {
    const message = `its directory entry at offset ${offset} runs over the end of the directory`;
    throw badZip(file, 'zip-bad-central-header', message, { offset });
  }
  const name = parseName(file, bytes.subarray(CENTRAL.length, nameEnd), offset);
  const sizes = wideSizes(file, name, bytes.subarray(nameEnd, extraEnd), {
    size: u32(CENTRAL.size),
    compressedSize: u32(CENTRAL.compressedSize),
    headerOffset: u32(CENTRAL.headerOffset),
  });
  const method = parseMethod(file, name, u16(CENTRAL.method));
  const flags = parseFlags(file, name, u16(CENTRAL.flags));
  const disk = u16(CENTRAL.disk);
  if (disk !== 0) {
    const message = `record ${JSON.stringify(name)} is on part ${disk} of a zip file that was split`;
    throw unsupportedZip(file, 'zip-multi-disk', message, { record: name, found: disk });
  }
  return { entry: checkSizes(file, { name, ...sizes, crc32: u32(CENTRAL.crc32), method, flags }), length };
}

function checkSizes(file: string, header: Header): Header {
  const { name, method, size, compressedSize } = header;
  const facts = { record: name, expected: size, found: compressedSize };
  const record = `record ${JSON.stringify(name)}`;
  if (method === STORED && size !== compressedSize) {
    const message = `${record} is stored as it is but claims ${size} bytes of content in ${compressedSize} bytes of data`;
    throw badZip(file, 'zip-stored-size-mismatch', message, facts);
  }
  if (name.endsWith('/') && size !== 0) {
    throw badZip(file, 'zip-bad-name', `${record} is a folder and has ${size} bytes of content`, facts);
  }
  return header;
}

interface Sizes {
  readonly size: number;
  readonly compressedSize: number;
  readonly headerOffset: number;
}

/** Replaces each saturated value by the next one of the zip64 extra field. */
function wideSizes(file: string, name: string, extra: Uint8Array, short: Sizes): Sizes {
  const zip64 = findExtra(file, name, extra, ZIP64_EXTRA);
  let at = 0;
  const widen = (value: number): number => {
    if (value !== U32_MAX) return value;
    const wide = zip64 !== undefined && at + 8 <= zip64.byteLength ? readU64(zip64, at) : undefined;
    at += 8;
    if (wide !== undefined) return wide;
    const message = `record ${JSON.stringify(name)} lacks a size or offset that its zip64 field should hold`;
    throw badZip(file, 'zip-bad-zip64', message, { record: name });
  };
  const size = widen(short.size);
  const compressedSize = widen(short.compressedSize);
  return { size, compressedSize, headerOffset: widen(short.headerOffset) };
}

function parseMethod(file: string, name: string, method: number): 0 | 8 {
  if (method === STORED || method === DEFLATED) return method;
  const known = METHOD_NAMES.get(method) ?? 'a method that Unshard does not know';
  const message = `record ${JSON.stringify(name)} uses compression method ${method} (${known})`;
  throw unsupportedZip(file, 'zip-unsupported-method', message, { record: name, found: method });
}

function parseFlags(file: string, name: string, flags: number): number {
  const facts = { record: name, found: flags };
  if ((flags & FLAGS_ENCRYPTED) !== 0) {
    throw unsupportedZip(file, 'zip-encrypted', `record ${JSON.stringify(name)} is encrypted`, facts);
  }
  if ((flags & ~(FLAG_DESCRIPTOR | FLAG_UTF8 | FLAGS_DEFLATE_LEVEL)) !== 0) {
    const message = `record ${JSON.stringify(name)} uses features of zip that Unshard does not know (flags ${flags})`;
    throw unsupportedZip(file, 'zip-unsupported-flags', message, facts);
  }
  return flags;
}

/** The name of a record, from the header at `offset` in the file. Throws for one that no record of PyTorch has. */
export function parseName(file: string, bytes: Uint8Array, offset: number): string {
  const refuse = (why: string) =>
    badZip(file, 'zip-bad-name', `the record name in its directory at offset ${offset} ${why}`, { offset });
  if (bytes.length > MAX_NAME_LENGTH) throw refuse(`has ${bytes.length} bytes, more than ${MAX_NAME_LENGTH}`);
  let name: string;
  try {
    name = UTF8.decode(bytes);
  } catch {
    throw refuse('is not UTF-8');
  }
  const why = faultOfName(name);
  if (why !== undefined) throw refuse(why);
  return name;
}

/** What is wrong with a name, or undefined. Names are never used as paths; these rules keep them from looking so. */
function faultOfName(name: string): string | undefined {
  if (name === '') return 'is empty';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  if (/[\0-\x1f\x7f]/.test(name)) return 'has control characters';
  if (name.includes('\\')) return 'has a backslash';
  if (/^(\/|[A-Za-z]:)/.test(name)) return 'is an absolute path';
  const steps = name.replace(/\/$/, '').split('/');
  if (steps.some((step) => step === '' || step === '.' || step === '..')) return 'has an empty, "." or ".." step';
  return undefined;
}

/** Readers differ in which of two equal names they take, and PyTorch's ignores case. */
function refuseDuplicates(file: string, headers: readonly Header[]): void {
  const seen = new Map<string, string>();
  for (const { name } of headers) {
    const folded = name.toLowerCase();
    const other = seen.get(folded);
    if (other !== undefined) {
      const message = `it has two records named ${JSON.stringify(other)} and ${JSON.stringify(name)}`;
      throw badZip(file, 'zip-duplicate-name', message, { record: name, other });
    }
    seen.set(folded, name);
  }
}

/** Puts records in file order, after checking that they start at 0, lie apart and end before the directory. */
function placeRecords(file: string, headers: readonly Header[], directoryOffset: number): ZipEntry[] {
  const sorted = [...headers].sort((a, b) => a.headerOffset - b.headerOffset);
  const start = sorted[0]?.headerOffset ?? directoryOffset;
  if (start !== 0) {
    const message = `its first record starts at ${start} instead of 0`;
    throw badZip(file, 'zip-leading-bytes', message, { expected: 0, found: start });
  }
  return sorted.map((header, i) => {
    const recordEnd = sorted[i + 1]?.headerOffset ?? directoryOffset;
    const least = header.headerOffset + LOCAL.length + nameLength(header.name) + header.compressedSize;
    if (least <= recordEnd) return { ...header, recordEnd };
    const record = JSON.stringify(header.name);
    const message = `record ${record} takes up the bytes to ${least}, but what follows it starts at ${recordEnd}`;
    throw badZip(file, 'zip-overlap', message, { record: header.name, expected: least, found: recordEnd });
  });
}

function warningsOf(file: string, entries: readonly ZipEntry[], hasCrcs: boolean): ZipWarning[] {
  const warnings: ZipWarning[] = [];
  const folders = entries.filter(isFolder);
  if (folders.length > 0) {
    const message = `${file} lists ${folders.length} folders beside its records, as PyTorch does not.`;
    warnings.push({ code: 'zip-folder-entry', message });
  }
  const gap = entries.find((entry) => overheadOf(entry) === undefined);
  if (gap !== undefined) {
    const message = `${file} has bytes behind record ${JSON.stringify(gap.name)} that belong to no record.`;
    warnings.push({ code: 'zip-gap', message });
  }
  if (!hasCrcs) {
    const message = `${file} was saved without CRC-32s: its bytes cannot be checked.`;
    warnings.push({ code: 'zip-no-crcs', message });
  }
  return warnings;
}

function isFolder(entry: ZipEntry): boolean {
  return entry.name.endsWith('/');
}

/** Bytes of a name in UTF-8. Nearly all are ASCII. */
function nameLength(name: string): number {
  for (let i = 0; i < name.length; i++) if (name.charCodeAt(i) > 0x7f) return new TextEncoder().encode(name).length;
  return name.length;
}
