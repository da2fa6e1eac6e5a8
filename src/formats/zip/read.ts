/**
 * Reads zip files that nobody vouches for. `readZip` checks the directory, `locateEntries` the headers of the records
 * that are wanted, `readEntry` the content. What passes all three means the same to every reader.
 *
 * @module
 */

import { Inflate } from 'fflate';
import { crc32 } from '../../base/crc32.js';
import { assert, UnshardError } from '../../base/errors.js';
import { readView } from '../../io/read.js';
import type { ByteSource } from '../../io/types.js';
import { type DirectoryPattern, matchPattern, patternOf } from './alike.js';
import { parseDirectory, type ZipEntry, type ZipWarning } from './directory.js';
import { readDirectory } from './end.js';
import { badZip, unsupportedZip } from './fault.js';
import { STORED } from './layout.js';
import { checkRecord, edgesOf } from './local.js';
import { type ByteRange, readRanges } from './ranges.js';

/** Records whose edges are held at once while they are checked; with full extra fields these take 32 MiB. */
const LOCATE_BATCH = 256;

/** Largest ratio of content to deflated data. Deflate itself cannot go above 1032; a pickle stays below 100. */
const MAX_RATIO = 1000;

/** Deflated bytes fed to the inflater at once, so that a lie about the size shows after at most 16 MiB of output. */
const INFLATE_STEP = 16_384;

/** A zip file whose directory was checked. */
export interface ZipArchive {
  readonly source: ByteSource;
  /** The records by name, in file order, without folders. */
  readonly entries: ReadonlyMap<string, ZipEntry>;
  /** False for files that were written without CRC-32s: every one is 0. */
  readonly hasCrcs: boolean;
  readonly warnings: readonly ZipWarning[];
  /** Present where others of the `known` directories are like it: one object for all of them. */
  readonly pattern?: DirectoryPattern;
  /** Name of the folder that all records are in, where the directory is like one that was read before. */
  readonly root?: string;
}

export type { DirectoryPattern, ZipEntry, ZipWarning };

/** Directories kept to compare others with: one for each kind of file, and some more. */
const MAX_PATTERNS = 4;

/**
 * Reads and checks the directory of a zip file. One that is like one of the `known` directories is compared with it in
 * place of being parsed; else it may become one of them.
 *
 * @throws UnshardError of kind `bad-file` (not a zip file, truncated, damaged, contradicting itself) or `unsupported`
 * (encrypted, split, another compression than deflate).
 */
export async function readZip(
  source: ByteSource,
  signal?: AbortSignal,
  known?: DirectoryPattern[],
): Promise<ZipArchive> {
  const directory = await readDirectory(source, signal);
  for (const pattern of known ?? []) {
    const alike = matchPattern(source.name, directory, pattern);
    if (!alike) continue;
    await findData(source, [alike.last], signal);
    return { source, entries: alike.entries, hasCrcs: true, warnings: [], pattern, root: alike.root };
  }
  const listing = parseDirectory(source.name, directory);
  const { entries, last, hasCrcs, warnings } = listing;
  // Shows that nothing, such as a second directory, hides between the last record and the directory.
  if (last !== undefined) await findData(source, [last], signal);
  const pattern = known && known.length < MAX_PATTERNS ? patternOf(directory, listing) : undefined;
  if (pattern) known?.push(pattern);
  const byName = new Map(entries.map((entry) => [entry.name, entry]));
  return { source, entries: byName, hasCrcs, warnings, ...(pattern ? { pattern } : {}) };
}

/**
 * The offset of the first data byte of each record in the file. Checks each record's local header and descriptor.
 *
 * @throws UnshardError of kind `bad-file` where a record is missing or its header contradicts the directory, of kind
 * `unsupported` where it is deflated.
 */
export async function locateEntries(
  archive: ZipArchive,
  names: readonly string[],
  signal?: AbortSignal,
): Promise<Map<string, number>> {
  const file = archive.source.name;
  const entries = names.map((name) => entryOf(archive, name));
  for (const { name, method } of entries) {
    if (method === STORED) continue;
    const message = `record ${JSON.stringify(name)} is compressed, so its tensors cannot be read in place`;
    throw unsupportedZip(file, 'zip-compressed-record', message, { record: name });
  }
  const offsets = await findData(archive.source, entries, signal);
  return new Map(entries.map(({ name }, i) => [name, offsets[i] as number]));
}

/**
 * The whole content of a record, checked against its CRC-32 where the file records CRCs. `limit` is the largest content to
 * accept, in bytes; `crcOf` tells the CRC of a content, for those who know it already.
 *
 * @throws UnshardError of kind `bad-file`.
 */
export async function readEntry(
  archive: ZipArchive,
  name: string,
  limit: number,
  signal?: AbortSignal,
  crcOf: (content: Uint8Array) => number = crc32,
): Promise<Uint8Array> {
  const { source, hasCrcs } = archive;
  const entry = entryOf(archive, name);
  refuseLarge(source.name, entry, limit);
  const { head, foot } = edgesOf(source.name, entry);
  const record = await readView(source, entry.headerOffset, entry.recordEnd - entry.headerOffset, signal);
  const part = ({ offset, length }: ByteRange) => record.subarray(offset - entry.headerOffset).subarray(0, length);
  const at = checkRecord(source.name, entry, part(head), part(foot));
  const data = part({ offset: at, length: entry.compressedSize });
  const content = entry.method === STORED ? data : inflate(source.name, entry, data);
  if (!hasCrcs) return content;
  const found = crcOf(content);
  if (found !== entry.crc32) throw crcFault(source.name, entry, found);
  return content;
}

/** The offset of the data of each entry, in order. */
async function findData(source: ByteSource, entries: readonly ZipEntry[], signal?: AbortSignal): Promise<number[]> {
  const offsets: number[] = [];
  for (let i = 0; i < entries.length; i += LOCATE_BATCH) {
    const batch = entries.slice(i, i + LOCATE_BATCH);
    const edges = batch.map((entry) => edgesOf(source.name, entry));
    const heads = edges.map(({ head }) => head);
    const feet = edges.map(({ foot }) => foot);
    const bytes = await readRanges(source, [...heads, ...feet], signal);
    for (const [k, entry] of batch.entries()) {
      const [head, foot] = [bytes[k], bytes[batch.length + k]];
      assert(head && foot, 'a range was not read');
      offsets.push(checkRecord(source.name, entry, head, foot));
    }
  }
  return offsets;
}

function entryOf(archive: ZipArchive, name: string): ZipEntry {
  const entry = archive.entries.get(name);
  if (entry !== undefined) return entry;
  const message = `it has no record ${JSON.stringify(name)}`;
  throw badZip(archive.source.name, 'zip-missing-record', message, { record: name });
}

function refuseLarge(file: string, entry: ZipEntry, limit: number): void {
  const { name, size, compressedSize } = entry;
  const most = Math.max(size, compressedSize);
  if (most > limit) {
    const message = `record ${JSON.stringify(name)} has ${most} bytes where at most ${limit} are expected`;
    throw badZip(file, 'zip-record-too-large', message, { record: name, limit, found: most });
  }
  if (size > compressedSize * MAX_RATIO) {
    const message = `record ${JSON.stringify(name)} claims ${size} bytes from ${compressedSize} deflated ones`;
    throw badZip(file, 'zip-bomb', message, { record: name, limit: compressedSize * MAX_RATIO, found: size });
  }
}

/** The error for content whose CRC-32 is not the recorded one. */
function crcFault(file: string, entry: ZipEntry, found: number): UnshardError {
  const [expected, is] = [hex(entry.crc32), hex(found)];
  const message = `record ${JSON.stringify(entry.name)} is damaged: its CRC-32 should be ${expected} and is ${is}`;
  return badZip(file, 'zip-crc-mismatch', message, { record: entry.name, expected, found: is });
}

/** Inflates `data`, which must give exactly the size that the directory says. */
function inflate(file: string, entry: ZipEntry, data: Uint8Array): Uint8Array {
  const content = new Uint8Array(entry.size);
  let length = 0;
  const inflater = new Inflate((chunk) => {
    content.set(chunk.subarray(0, content.length - length), length);
    length += chunk.length;
  });
  const fault = (what: string) => {
    const message = `the deflated record ${JSON.stringify(entry.name)} ${what}`;
    return badZip(file, 'zip-bad-deflate', message, { record: entry.name, expected: entry.size, found: length });
  };
  try {
    for (let at = 0; at < data.length && length <= content.length; at += INFLATE_STEP) {
      inflater.push(data.subarray(at, at + INFLATE_STEP), at + INFLATE_STEP >= data.length);
    }
  } catch (cause) {
    throw new UnshardError(fault('cannot be inflated').detail, { cause });
  }
  if (length !== content.length) throw fault(`inflates to ${length} bytes, not to ${content.length}`);
  return content;
}

function hex(value: number): string {
  return value.toString(16).padStart(8, '0');
}
