/**
 * Checks the local header of a record, and what lies between its data and the next record, against the directory. Other
 * readers trust one or the other; where the two differ, a file means different things to different programs.
 *
 * @module
 */

import { equalBytes } from '../../base/bytes.js';
import type { UnshardError } from '../../base/errors.js';
import { findExtra, overheadOf, type ZipEntry } from './directory.js';
import { badZip } from './fault.js';
import { DESCRIPTOR, FLAG_DESCRIPTOR, LOCAL, readU64, U32_MAX, ZIP64_EXTRA } from './layout.js';
import type { ByteRange } from './ranges.js';

/** The parts of a record's file range that `checkRecord` looks at. */
export interface RecordEdges {
  /** From the local header on: as many bytes as the record has beside its data. */
  readonly head: ByteRange;
  /** The end of the record: a descriptor, or less where there is no room for one. */
  readonly foot: ByteRange;
}

/** The ranges to read for `checkRecord`. Throws where a record is surrounded by more than a header and a descriptor. */
export function edgesOf(file: string, entry: ZipEntry): RecordEdges {
  const overhead = overheadOf(entry);
  if (overhead === undefined) throw unclaimedFault(file, entry);
  const footLength = Math.min(DESCRIPTOR.longLength, overhead - LOCAL.length);
  return {
    head: { offset: entry.headerOffset, length: overhead },
    foot: { offset: entry.recordEnd - footLength, length: footLength },
  };
}

/**
 * Checks a record by the bytes of its edges.
 *
 * @returns Offset of the first data byte in the file.
 */
export function checkRecord(file: string, entry: ZipEntry, head: Uint8Array, foot: Uint8Array): number {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const differ = (what: string) => {
    const message = `record ${JSON.stringify(entry.name)} has another ${what} in its local header than in the directory`;
    return badZip(file, 'zip-local-mismatch', message, { record: entry.name, field: what });
  };
  if (view.getUint32(0, true) !== LOCAL.signature) throw differ('signature');
  if (view.getUint16(LOCAL.flags, true) !== entry.flags) throw differ('flags');
  if (view.getUint16(LOCAL.method, true) !== entry.method) throw differ('method');
  const nameEnd = LOCAL.length + view.getUint16(LOCAL.nameLength, true);
  if (!equalBytes(head.subarray(LOCAL.length, nameEnd), new TextEncoder().encode(entry.name))) throw differ('name');

  const headLength = nameEnd + view.getUint16(LOCAL.extraLength, true);
  if (headLength > head.length) {
    const message = `the data of record ${JSON.stringify(entry.name)} runs into what follows it`;
    throw badZip(file, 'zip-overlap', message, {
      record: entry.name,
      expected: entry.headerOffset + headLength + entry.compressedSize,
      found: entry.recordEnd,
    });
  }
  const field = fieldThatDiffers(file, entry, view, head.subarray(nameEnd, headLength));
  if (field !== undefined) throw differ(field);
  checkRest(file, entry, foot, head.length - headLength);
  return entry.headerOffset + headLength;
}

/** The name of a CRC or size field that contradicts the directory, or undefined. */
function fieldThatDiffers(file: string, entry: ZipEntry, head: DataView, extra: Uint8Array): string | undefined {
  const zip64 = findExtra(file, entry.name, extra, ZIP64_EXTRA);
  const agrees = (expected: number, short: number, wideAt: number): boolean => {
    const wide = () => (zip64 !== undefined && zip64.byteLength >= 16 ? readU64(zip64, wideAt) : undefined);
    const found = short === U32_MAX ? wide() : short;
    return found === expected || (found === 0 && hasDescriptor(entry));
  };
  const checksum = head.getUint32(LOCAL.crc32, true);
  if (checksum !== entry.crc32 && !(checksum === 0 && hasDescriptor(entry))) return 'crc32';
  if (!agrees(entry.size, head.getUint32(LOCAL.size, true), 0)) return 'size';
  if (!agrees(entry.compressedSize, head.getUint32(LOCAL.compressedSize, true), 8)) return 'compressed size';
  return undefined;
}

/** Checks the `length` bytes between the data and the end of the record: a descriptor that agrees, or none. */
function checkRest(file: string, entry: ZipEntry, foot: Uint8Array, length: number): void {
  if (length === 0) return;
  if (!hasDescriptor(entry) || length > DESCRIPTOR.longLength) throw unclaimedFault(file, entry);
  if (isDescriptorOf(entry, foot.subarray(foot.length - length))) return;
  const message = `the descriptor of record ${JSON.stringify(entry.name)} does not repeat what the directory says`;
  throw badZip(file, 'zip-bad-descriptor', message, { record: entry.name, length });
}

/** True for the four forms in use: with and without a signature, with sizes of 4 and of 8 bytes. */
function isDescriptorOf(entry: ZipEntry, bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isSigned = bytes.length === DESCRIPTOR.length || bytes.length === DESCRIPTOR.longLength;
  if (isSigned && view.getUint32(0, true) !== DESCRIPTOR.signature) return false;
  const at = isSigned ? 4 : 0;
  const width = (bytes.length - at - 4) / 2;
  if (width !== 4 && width !== 8) return false;
  const size = (field: number) => (width === 4 ? view.getUint32(field, true) : readU64(view, field));
  return (
    view.getUint32(at, true) === entry.crc32 &&
    size(at + 4) === entry.compressedSize &&
    size(at + 4 + width) === entry.size
  );
}

function hasDescriptor(entry: ZipEntry): boolean {
  return (entry.flags & FLAG_DESCRIPTOR) !== 0;
}

function unclaimedFault(file: string, entry: ZipEntry): UnshardError {
  const message = `bytes between record ${JSON.stringify(entry.name)} and what follows it at ${entry.recordEnd} belong to no record`;
  return badZip(file, 'zip-unclaimed-bytes', message, { record: entry.name, offset: entry.recordEnd });
}
