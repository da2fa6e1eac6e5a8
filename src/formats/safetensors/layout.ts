/**
 * The frame of a safetensors file: an 8-byte little-endian header length, a JSON header, the data. See `FORMAT.md`.
 *
 * @module
 */

/** Bytes of the header length. */
export const PREFIX_LENGTH = 8;

/** Largest header in bytes: the limit of the format, which every reader holds. */
export const MAX_HEADER_LENGTH = 100_000_000;

/** The key of the header that holds metadata in place of a tensor. */
export const METADATA_KEY = '__metadata__';

/** Compares two names as their UTF-8 bytes compare, which is by code point. JavaScript compares UTF-16 units instead. */
export function compareUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [unitOfA, unitOfB] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (unitOfA !== unitOfB) return codePointRank(unitOfA) - codePointRank(unitOfB);
  }
  return a.length - b.length;
}

/** Moves surrogates, which stand for the largest code points, above the rest of the 16-bit units. */
function codePointRank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x0800;
}
