/**
 * The records of a zip file: signatures, field offsets, limits. `FORMAT.md` has the same tables in words. All integers
 * are little-endian; all ranges are half-open.
 *
 * @module
 */

/** Local file header, in front of the data of each record. The name and the extra fields follow its fixed part. */
export const LOCAL = {
  signature: 0x04034b50,
  length: 30,
  flags: 6,
  method: 8,
  crc32: 14,
  compressedSize: 18,
  size: 22,
  nameLength: 26,
  extraLength: 28,
} as const;

/** Data descriptor, behind the data. Sizes take 4 bytes each, or 8 in the long form. */
export const DESCRIPTOR = { signature: 0x08074b50, length: 16, longLength: 24 } as const;

/** Central file header, one per record. The name, the extra fields and the comment follow its fixed part. */
export const CENTRAL = {
  signature: 0x02014b50,
  length: 46,
  flags: 8,
  method: 10,
  crc32: 16,
  compressedSize: 20,
  size: 24,
  nameLength: 28,
  extraLength: 30,
  commentLength: 32,
  disk: 34,
  headerOffset: 42,
} as const;

/** Zip64 end of central directory record. */
export const END64 = {
  signature: 0x06064b50,
  length: 56,
  recordSize: 4,
  madeBy: 12,
  needed: 14,
  disk: 16,
  directoryDisk: 20,
  countOnDisk: 24,
  count: 32,
  directorySize: 40,
  directoryOffset: 48,
} as const;

/** The value of `END64.recordSize`: what follows that field when the record has no extensible data. */
export const END64_RECORD_SIZE = 44;

/** Zip64 end of central directory locator. */
export const LOCATOR = { signature: 0x07064b50, length: 20, disk: 4, endOffset: 8, disks: 16 } as const;

/** End of central directory record. */
export const END = {
  signature: 0x06054b50,
  length: 22,
  disk: 4,
  directoryDisk: 6,
  countOnDisk: 8,
  count: 10,
  directorySize: 12,
  directoryOffset: 16,
  commentLength: 20,
} as const;

/** General purpose bit 3: CRC and sizes stand in a descriptor behind the data. */
export const FLAG_DESCRIPTOR = 0x0008;

/** General purpose bit 11: the name is UTF-8. */
export const FLAG_UTF8 = 0x0800;

/** Method 0: the bytes as they are. */
export const STORED = 0;

/** Method 8: deflate. */
export const DEFLATED = 8;

/** Id of the extra field that holds 64-bit sizes and offsets. */
export const ZIP64_EXTRA = 0x0001;

/** A 16-bit field with this value stands for one of the zip64 end record. */
export const U16_MAX = 0xffff;

/** A 32-bit field with this value stands for one of the zip64 extra field or end record. */
export const U32_MAX = 0xffffffff;

/** One record of a zip file whose place is known before its bytes are. */
export interface PlannedZipRecord {
  readonly name: string;
  /** Offset of the local header. */
  readonly header: number;
  /** Offset of the data. */
  readonly at: number;
  readonly length: number;
  /** CRC-32 where the plan knows it; undefined for a tensor. */
  readonly crc32?: number;
}

/** The 64-bit integer at `at`, or undefined where a number cannot hold it (above 2^53 - 1). */
export function readU64(view: DataView, at: number): number | undefined {
  const value = view.getBigUint64(at, true);
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : undefined;
}
