/**
 * Finds the directory of a zip file from its end. The end records must be where an unchanged file has them: nothing
 * behind them, nothing between them, the directory right before them.
 *
 * @module
 */

import type { UnshardError } from '../../base/errors.js';
import { readView } from '../../io/read.js';
import type { ByteSource } from '../../io/types.js';
import { MAGIC_LENGTH, nameOfForeignFormat } from '../magic.js';
import { badZip, unsupportedZip } from './fault.js';
import { CENTRAL, END, END64, END64_RECORD_SIZE, LOCAL, LOCATOR, readU64, U16_MAX, U32_MAX } from './layout.js';

/** Bytes read from the end of a file at once: the directory of most checkpoints, so that one read will do. */
const TAIL_LENGTH = 65_536;

/** Most records of a file: ten times what the largest checkpoint seen has, and few enough to index in memory. */
const MAX_ENTRIES = 2_000_000;

/** Largest directory in bytes: `MAX_ENTRIES` records with names of ordinary length. */
const MAX_DIRECTORY_LENGTH = 256 * 2 ** 20;

/** The directory of a file: `count` central headers in `bytes`, which start at `offset` in the file. */
export interface Directory {
  readonly bytes: Uint8Array;
  readonly offset: number;
  readonly count: number;
}

/** Reads the end records and the directory. Throws where they are missing or disagree, before anything is allocated. */
export async function readDirectory(source: ByteSource, signal?: AbortSignal): Promise<Directory> {
  const tailAt = Math.max(0, source.size - TAIL_LENGTH);
  const tail = await readView(source, tailAt, source.size - tailAt, signal);
  const view = new DataView(tail.buffer, tail.byteOffset, tail.length);
  const endAt = tail.length - END.length;
  if (endAt < 0 || view.getUint32(endAt, true) !== END.signature) {
    const head = tailAt === 0 ? tail : await readView(source, 0, MAGIC_LENGTH, signal);
    throw faultOfMissingEnd(source, head.subarray(0, MAGIC_LENGTH), tail);
  }
  const { offset, size, count } = readEnd(source.name, view, tailAt);
  const bytes =
    offset >= tailAt
      ? tail.subarray(offset - tailAt, offset - tailAt + size)
      : await readView(source, offset, size, signal);
  return { bytes, offset, count };
}

/** What an end record says of the directory. */
interface End {
  readonly countOnDisk: number;
  readonly count: number;
  readonly size: number;
  readonly offset: number;
}

/** Reads the end records from the tail of a file, which starts at `tailAt` in it. */
function readEnd(file: string, tail: DataView, tailAt: number): End {
  const at = tail.byteLength - END.length;
  const comment = tail.getUint16(at + END.commentLength, true);
  if (comment !== 0) throw commentFault(file, comment);
  refuseOtherDisks(file, tail.getUint16(at + END.disk, true), tail.getUint16(at + END.directoryDisk, true));
  const end = {
    countOnDisk: tail.getUint16(at + END.countOnDisk, true),
    count: tail.getUint16(at + END.count, true),
    size: tail.getUint32(at + END.directorySize, true),
    offset: tail.getUint32(at + END.directoryOffset, true),
  };
  const locatorAt = at - LOCATOR.length;
  if (locatorAt < 0 || tail.getUint32(locatorAt, true) !== LOCATOR.signature) return checkEnd(file, end, tailAt + at);
  const end64 = readEnd64(file, tail, tailAt);
  const agrees = (short: number, long: number, saturated: number) => short === long || short === saturated;
  if (
    !agrees(end.countOnDisk, end64.countOnDisk, U16_MAX) ||
    !agrees(end.count, end64.count, U16_MAX) ||
    !agrees(end.size, end64.size, U32_MAX) ||
    !agrees(end.offset, end64.offset, U32_MAX)
  ) {
    throw badZip(file, 'zip-end-mismatch', 'its end record and its zip64 end record disagree');
  }
  return checkEnd(file, end64, tailAt + locatorAt - END64.length);
}

/** Reads the zip64 end record, which must lie right before its locator. */
function readEnd64(file: string, tail: DataView, tailAt: number): End {
  const locatorAt = tail.byteLength - END.length - LOCATOR.length;
  const at = locatorAt - END64.length;
  const found = tail.getBigUint64(locatorAt + LOCATOR.endOffset, true);
  if (
    found !== BigInt(tailAt + at) ||
    tail.getUint32(at, true) !== END64.signature ||
    tail.getBigUint64(at + END64.recordSize, true) !== BigInt(END64_RECORD_SIZE)
  ) {
    const facts = { expected: tailAt + at, found: String(found) };
    throw badZip(
      file,
      'zip-bad-end64',
      `there is no zip64 end record at offset ${found}, where its locator points`,
      facts,
    );
  }
  refuseOtherDisks(
    file,
    tail.getUint32(locatorAt + LOCATOR.disk, true),
    // Some writers count the one file as disk 0 of 0.
    Math.max(0, tail.getUint32(locatorAt + LOCATOR.disks, true) - 1),
    tail.getUint32(at + END64.disk, true),
    tail.getUint32(at + END64.directoryDisk, true),
  );
  const read = (field: number): number => {
    const value = readU64(tail, at + field);
    if (value !== undefined) return value;
    const found = String(tail.getBigUint64(at + field, true));
    throw badZip(file, 'zip-number-too-large', `its zip64 end record holds ${found}, more than any file has`, {
      found,
    });
  };
  return {
    countOnDisk: read(END64.countOnDisk),
    count: read(END64.count),
    size: read(END64.directorySize),
    offset: read(END64.directoryOffset),
  };
}

/** Checks that the directory ends where the end records start, and that it can hold as many records as it claims. */
function checkEnd(file: string, end: End, endsAt: number): End {
  if (end.offset + end.size !== endsAt) {
    const facts = { expected: endsAt, found: end.offset + end.size };
    throw badZip(
      file,
      'zip-directory-out-of-place',
      `its directory should end at ${endsAt} but ends at ${facts.found}: bytes were added, removed or changed`,
      facts,
    );
  }
  if (end.count !== end.countOnDisk) throw countFault(file, end.countOnDisk, end.count);
  if (end.count > MAX_ENTRIES) {
    const facts = { limit: MAX_ENTRIES, found: end.count };
    throw badZip(
      file,
      'zip-too-many-records',
      `it claims ${end.count} records; at most ${MAX_ENTRIES} are read`,
      facts,
    );
  }
  if (end.count * CENTRAL.length > end.size) throw countFault(file, Math.floor(end.size / CENTRAL.length), end.count);
  if (end.size > MAX_DIRECTORY_LENGTH) {
    const facts = { limit: MAX_DIRECTORY_LENGTH, found: end.size };
    const message = `its directory takes ${end.size} bytes; at most ${MAX_DIRECTORY_LENGTH} are read`;
    throw badZip(file, 'zip-directory-too-large', message, facts);
  }
  return end;
}

/** The error for a directory with room for `found` records where the end record counts `expected`. */
export function countFault(file: string, found: number, expected: number): UnshardError {
  const message = `its end record counts ${expected} records, but its directory has ${found}`;
  return badZip(file, 'zip-count-mismatch', message, { expected, found });
}

function refuseOtherDisks(file: string, ...disks: readonly number[]): void {
  if (disks.every((disk) => disk === 0)) return;
  throw unsupportedZip(file, 'zip-multi-disk', 'it is one part of a zip file that was split');
}

function commentFault(file: string, length: number): UnshardError {
  const message = `it has a comment of ${length} bytes behind its end record, which no checkpoint has`;
  return badZip(file, 'zip-comment', message, { found: length });
}

/** Says what a file is that does not end in an end record. */
function faultOfMissingEnd({ name, size }: ByteSource, head: Uint8Array, tail: Uint8Array): UnshardError {
  const foreign = nameOfForeignFormat(head);
  if (foreign !== undefined) {
    const advice = 'Put a whole copy of the right file in its place.';
    return badZip(name, 'zip-foreign-format', `it is ${foreign}, not a zip file`, { found: foreign, size }, advice);
  }
  if (!startsLikeZip(head)) {
    const advice = 'Put a whole copy of the right file in its place.';
    return badZip(name, 'zip-not-a-zip', `it does not begin as a zip file does`, { size }, advice);
  }
  const endAt = lastIndexOfSignature(tail, END.signature, END.length);
  if (endAt !== undefined) {
    const view = new DataView(tail.buffer, tail.byteOffset + endAt, tail.length - endAt);
    const behind = view.byteLength - END.length;
    const comment = view.getUint16(END.commentLength, true);
    if (comment === behind) return commentFault(name, comment);
    if (comment === 0) {
      return badZip(name, 'zip-trailing-bytes', `${behind} bytes follow its end record`, { found: behind });
    }
  }
  return truncationFault(name, size, tail);
}

/** The error for a zip file without an end, with the last record that begins in its tail. */
function truncationFault(file: string, size: number, tail: Uint8Array): UnshardError {
  const advice = 'It is probably an interrupted copy or a save that did not finish: copy it again.';
  if (tail.every((byte) => byte === 0)) {
    const message = `it has ${size} bytes but the last ${tail.length} of them are zeros`;
    return badZip(file, 'zip-zero-tail', message, { size, found: tail.length }, advice);
  }
  const record = lastRecordName(tail);
  const where = record === undefined ? '' : `; the last record that begins in it is ${JSON.stringify(record)}`;
  const facts = { size, ...(record === undefined ? {} : { record }) };
  return badZip(file, 'zip-truncated', `it has ${size} bytes and no directory at its end${where}`, facts, advice);
}

function lastRecordName(tail: Uint8Array): string | undefined {
  const at = lastIndexOfSignature(tail, LOCAL.signature, LOCAL.length);
  if (at === undefined) return undefined;
  const length = new DataView(tail.buffer, tail.byteOffset + at).getUint16(LOCAL.nameLength, true);
  const name = tail.subarray(at + LOCAL.length, at + LOCAL.length + length);
  return name.length === length ? new TextDecoder().decode(name) : undefined;
}

/** Where the last record of this signature begins that has all `length` bytes of its fixed part. */
function lastIndexOfSignature(bytes: Uint8Array, signature: number, length: number): number | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = bytes.length - length; at >= 0; at--) if (view.getUint32(at, true) === signature) return at;
  return undefined;
}

/** True where `head` is, or is the beginning of, a local header. */
function startsLikeZip(head: Uint8Array): boolean {
  return [0x50, 0x4b, 0x03, 0x04].every((byte, i) => i >= head.length || head[i] === byte);
}
