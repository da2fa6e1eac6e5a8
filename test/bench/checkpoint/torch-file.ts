/**
 * Writes torch zip files whose storages are made while they are written.
 *
 * @module
 */

import { closeSync, openSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { crc32 } from 'node:zlib';
import { emitZipTail, layoutZip, type PlacedBytes } from '../../../src/formats/zip/write.js';
import { crcOfZeros } from './zeros.js';

/** A storage before its bytes. */
export interface MadeStorage {
  readonly byteLength: number;
  /**
   * Makes the bytes `[at, at + into.length)`. Both numbers are multiples of 4, unless the storage ends there. Absent where
   * all are zeros: the file then has a hole there, which takes no space.
   */
  readonly fill?: (into: Uint8Array<ArrayBuffer>, at: number) => void;
}

/** Bytes that are made and written at a time. */
const CHUNK_BYTES = 4 << 20;

/** Writes a file of the pickle `object` and the storages that it calls by their index, as `torch.save` does. */
export function writeTorchFile(path: string, object: Uint8Array, storages: readonly MadeStorage[]): void {
  const root = basename(path, '.pt');
  const records: readonly (readonly [name: string, data: Uint8Array | MadeStorage])[] = [
    ['data.pkl', object],
    ['.format_version', Buffer.from('1')],
    ['.storage_alignment', Buffer.from('64')],
    ['byteorder', Buffer.from('little')],
    ...storages.map((storage, key) => [`data/${key}`, storage] as const),
    ['version', Buffer.from('3\n')],
  ];
  const { headers, records: planned } = layoutZip(
    records.map(([name, data]) => ({ name: `${root}/${name}`, length: data.byteLength })),
  );
  const file = openSync(path, 'wx');
  try {
    for (const header of headers) writeAt(file, header);
    const finished = planned.map((record, i) => ({ ...record, crc32: writeData(file, record.at, records[i]?.[1]) }));
    for (const piece of emitZipTail(finished)) writeAt(file, piece);
  } finally {
    closeSync(file);
  }
}

/** Writes the data of a record and gives its CRC-32. */
function writeData(file: number, at: number, data: Uint8Array | MadeStorage | undefined): number {
  if (data === undefined) throw new Error('A record has no data.');
  if (data instanceof Uint8Array) {
    writeAt(file, { at, bytes: new Uint8Array(data) });
    return crc32(data);
  }
  if (!data.fill) return crcOfZeros(data.byteLength);
  const chunk = new Uint8Array(Math.min(CHUNK_BYTES, data.byteLength));
  let crc = 0;
  for (let done = 0; done < data.byteLength; done += chunk.length) {
    const bytes = chunk.subarray(0, Math.min(chunk.length, data.byteLength - done));
    data.fill(bytes, done);
    writeAt(file, { at: at + done, bytes });
    crc = crc32(bytes, crc);
  }
  return crc;
}

function writeAt(file: number, { at, bytes }: PlacedBytes): void {
  let done = 0;
  while (done < bytes.length) done += writeSync(file, bytes, done, bytes.length - done, at + done);
}
