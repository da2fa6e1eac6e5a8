import { crc32 } from 'node:zlib';
import { combineCrc32 } from '../../../src/base/crc32.js';

/** The CRC-32 of `length` zeros, by halves. */
export function crcOfZeros(length: number): number {
  if (length < 2) return crc32(Buffer.alloc(length));
  const half = Math.floor(length / 2);
  const crc = crcOfZeros(half);
  const both = combineCrc32(crc, crc, half);
  return length % 2 === 0 ? both : combineCrc32(both, crc32(Buffer.alloc(1)), 1);
}
