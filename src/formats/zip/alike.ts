/**
 * Directories that differ from one that was parsed before in the folder of their records, in places and in CRC-32s alone:
 * those of the files that a thousand ranks saved. They are compared with it byte by byte, which costs a fraction of
 * parsing them, and kept as their places.
 *
 * @module
 */

import { alignedCopy, equalBytes } from '../../base/bytes.js';
import { MAX_NAME_LENGTH, mostOverhead, parseName, type ZipEntry, type ZipListing } from './directory.js';
import type { Directory } from './end.js';
import { CENTRAL, LOCAL, U32_MAX } from './layout.js';

/** A directory that was parsed, to compare others with. Its records are in file order, and all in one folder. */
export interface DirectoryPattern {
  readonly bytes: Uint8Array;
  /** Where the directory starts in its file. */
  readonly offset: number;
  readonly entries: readonly ZipEntry[];
  /** Where the header of each record starts in `bytes`. */
  readonly starts: Uint32Array;
  /** Bytes of the data and of the name of each record, once more where they are read fast. */
  readonly sizes: Uint32Array;
  readonly nameLengths: Uint16Array;
  readonly places: Uint32Array;
  readonly crcs: Uint32Array;
  /** Bytes of the folder's name and its slash. */
  readonly rootLength: number;
  /** Names of the records in the folder, and their place among the entries. */
  readonly rows: ReadonlyMap<string, number>;
}

/** A directory like that of a pattern. */
export interface AlikeListing {
  readonly entries: ReadonlyMap<string, ZipEntry>;
  readonly last: ZipEntry;
  /** Name of the folder that all records are in. */
  readonly root: string;
}

/** The pattern of a directory that was parsed; undefined where it is short or has anything out of the ordinary. */
export function patternOf({ bytes, count, offset }: Directory, listing: ZipListing): DirectoryPattern | undefined {
  const { entries, hasCrcs, warnings } = listing;
  const root = entries[0]?.name.split('/', 1)[0] ?? '';
  if (count === 0 || entries.length !== count || !hasCrcs || warnings.length > 0) return undefined;
  if (
    !entries.every(({ name, headerOffset }, i) => {
      const after = entries[i - 1]?.headerOffset ?? -1;
      return name.startsWith(`${root}/`) && headerOffset > after;
    })
  )
    return undefined;
  const rootLength = new TextEncoder().encode(root).length + 1;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const starts = new Uint32Array(count);
  const nameLengths = new Uint16Array(count);
  let at = 0;
  for (const i of starts.keys()) {
    // Extra fields hold what does not fit; comments nothing.
    if (
      view.getUint32(at + CENTRAL.extraLength, true) !== 0 ||
      view.getUint32(at + CENTRAL.headerOffset, true) !== entries[i]?.headerOffset
    )
      return undefined;
    starts[i] = at;
    nameLengths[i] = view.getUint16(at + CENTRAL.nameLength, true);
    at += CENTRAL.length + view.getUint16(at + CENTRAL.nameLength, true);
  }
  const sizes = Uint32Array.from(entries, ({ compressedSize }) => compressedSize);
  const places = Uint32Array.from(entries, ({ headerOffset }) => headerOffset);
  const crcs = Uint32Array.from(entries, ({ crc32 }) => crc32);
  const rows = new Map(entries.map(({ name }, i) => [name.slice(root.length + 1), i]));
  // A copy: what it was read into may be used again.
  return {
    bytes: alignedCopy(bytes, offset),
    offset,
    entries,
    starts,
    sizes,
    places,
    crcs,
    nameLengths,
    rootLength,
    rows,
  };
}

/** The listing of a directory that is like the pattern; undefined where it is not, or where anything must be told of it. */
export function matchPattern(file: string, directory: Directory, pattern: DirectoryPattern): AlikeListing | undefined {
  const { starts, nameLengths, rootLength } = pattern;
  if (directory.count !== starts.length) return undefined;
  const [a, b] = [pattern.bytes, directory.bytes];
  const [left, right] = [a, b].map((bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  if (!left || !right || b.length < CENTRAL.length) return undefined;
  const u16 = (view: DataView, at: number) => view.getUint16(at, true);
  const longer = u16(right, CENTRAL.nameLength) - u16(left, CENTRAL.nameLength);
  const root = rootLength + longer;
  if (root < 2 || CENTRAL.length + root > b.length) return undefined;
  const folder = parseName(file, b.subarray(CENTRAL.length, CENTRAL.length + root), directory.offset);
  if (folder.indexOf('/') !== folder.length - 1) return undefined;
  const firstCrc = right.getUint32(CENTRAL.crc32, true);
  // The same in all but what its first record holds, which is the pickle: nothing else is its own.
  if (directory.offset === pattern.offset && isSameButFirstCrc(a, b)) {
    const { places, crcs } = pattern;
    return listingOf(pattern, folder, { places, crcs, firstCrc }, directory.offset);
  }
  const places = new Uint32Array(starts.length);
  const crcs = new Uint32Array(starts.length);
  let at = 0;
  for (let i = 0; i < starts.length; i++) {
    const from = starts[i] ?? 0;
    const nameLength = (nameLengths[i] ?? 0) + longer;
    if (nameLength > MAX_NAME_LENGTH || at + CENTRAL.length + nameLength > b.length) return undefined;
    if (!isSameHeader(left, from, right, at) || u16(right, at + CENTRAL.nameLength) !== nameLength) return undefined;
    places[i] = right.getUint32(at + CENTRAL.headerOffset, true);
    crcs[i] = right.getUint32(at + CENTRAL.crc32, true);
    const name = at + CENTRAL.length;
    if (!isSame(right, CENTRAL.length, right, name, root)) return undefined;
    if (!isSame(left, from + CENTRAL.length + rootLength, right, name + root, nameLength - root)) return undefined;
    at = name + nameLength;
  }
  if (at !== b.length) return undefined;
  if (!arePlaced(places, pattern, longer, directory.offset)) return undefined;
  const isShared = crcs.every((crc, i) => i === 0 || crc === pattern.crcs[i]);
  return listingOf(pattern, folder, { places, crcs: isShared ? pattern.crcs : crcs, firstCrc }, directory.offset);
}

/** What the records of a directory have of their own, beside the CRC-32 of the first. */
interface Own extends Pick<DirectoryPattern, 'places' | 'crcs'> {
  readonly firstCrc: number;
}

/** Undefined for a directory without CRC-32s, which must be told. */
function listingOf(pattern: DirectoryPattern, folder: string, own: Own, end: number): AlikeListing | undefined {
  if (own.firstCrc === 0 && !own.crcs.some((crc, i) => i > 0 && crc !== 0)) return undefined;
  const entries = new AlikeEntries(pattern, folder, own, end);
  const last = entries.at(own.places.length - 1);
  return last && { entries, last, root: folder.slice(0, -1) };
}

function isSameButFirstCrc(a: Uint8Array, b: Uint8Array): boolean {
  const parts = [[0, CENTRAL.crc32] as const, [CENTRAL.crc32 + 4] as const];
  return parts.every((part) => equalBytes(a.subarray(...part), b.subarray(...part)));
}

/** All of a header but its CRC, the length of its name and its place. */
function isSameHeader(left: DataView, from: number, right: DataView, at: number): boolean {
  for (let i = 0; i < FIXED_FIELDS.length; i++) {
    const field = FIXED_FIELDS[i] ?? 0;
    if (left.getUint32(from + field, true) !== right.getUint32(at + field, true)) return false;
  }
  return true;
}

/** Offsets of four bytes each that must be the same: from the signature to the times, sizes, and all behind the lengths. */
const FIXED_FIELDS = [0, 4, 8, 12, 20, 24, 30, 34, 38] as const;

function isSame(left: DataView, from: number, right: DataView, at: number, length: number): boolean {
  let i = 0;
  for (; i + 4 <= length; i += 4) if (left.getUint32(from + i, true) !== right.getUint32(at + i, true)) return false;
  for (; i < length; i++) if (left.getUint8(from + i) !== right.getUint8(at + i)) return false;
  return true;
}

/** True where records start at 0, lie apart and next to each other, and end before the directory, as `parseDirectory` asks. */
function arePlaced(places: Uint32Array, pattern: DirectoryPattern, longer: number, end: number): boolean {
  const { sizes, nameLengths } = pattern;
  if (places[0] !== 0) return false;
  for (let i = 0; i < places.length; i++) {
    const place = places[i] ?? 0;
    if (place === U32_MAX) return false;
    const nameLength = (nameLengths[i] ?? 0) + longer;
    const overhead = (i + 1 < places.length ? (places[i + 1] ?? 0) : end) - place - (sizes[i] ?? 0);
    if (overhead < LOCAL.length + nameLength || overhead > mostOverhead(nameLength)) return false;
  }
  return true;
}

/** The records of a directory that is like a pattern. An entry is made when it is asked for. */
class AlikeEntries implements ReadonlyMap<string, ZipEntry> {
  readonly #pattern: DirectoryPattern;
  readonly #folder: string;
  readonly #own: Own;
  readonly #end: number;

  constructor(pattern: DirectoryPattern, folder: string, own: Own, end: number) {
    this.#pattern = pattern;
    this.#folder = folder;
    this.#own = own;
    this.#end = end;
  }

  get size(): number {
    return this.#own.places.length;
  }

  /** The entry of a row. */
  at(row: number): ZipEntry | undefined {
    const { places, crcs, firstCrc } = this.#own;
    const like = this.#pattern.entries[row];
    const [headerOffset, crc32] = [places[row], row === 0 ? firstCrc : crcs[row]];
    if (!like || headerOffset === undefined || crc32 === undefined) return undefined;
    const name = this.#folder + like.name.slice(like.name.indexOf('/') + 1);
    return { ...like, name, headerOffset, crc32, recordEnd: places[row + 1] ?? this.#end };
  }

  has(name: string): boolean {
    return this.#rowOf(name) !== undefined;
  }

  get(name: string): ZipEntry | undefined {
    const row = this.#rowOf(name);
    return row === undefined ? undefined : this.at(row);
  }

  *keys(): MapIterator<string> {
    for (const name of this.#pattern.rows.keys()) yield this.#folder + name;
  }

  *values(): MapIterator<ZipEntry> {
    for (const row of this.#own.places.keys()) {
      const entry = this.at(row);
      if (entry) yield entry;
    }
  }

  *entries(): MapIterator<[string, ZipEntry]> {
    for (const entry of this.values()) yield [entry.name, entry];
  }

  [Symbol.iterator](): MapIterator<[string, ZipEntry]> {
    return this.entries();
  }

  forEach(visit: (entry: ZipEntry, name: string, map: ReadonlyMap<string, ZipEntry>) => void): void {
    for (const [name, entry] of this) visit(entry, name, this);
  }

  #rowOf(name: string): number | undefined {
    return name.startsWith(this.#folder) ? this.#pattern.rows.get(name.slice(this.#folder.length)) : undefined;
  }
}
