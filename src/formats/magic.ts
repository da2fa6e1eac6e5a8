/**
 * Names files that are not what their name says, by their first bytes.
 *
 * @module
 */

import { MAX_HEADER_LENGTH, PREFIX_LENGTH } from './safetensors/layout.js';

/** How many bytes of a file's head `nameOfForeignFormat` looks at; fewer will do where the file is shorter. */
export const MAGIC_LENGTH = 512;

interface Magic {
  readonly name: string;
  readonly at: number;
  readonly bytes: readonly number[];
}

const MAGICS: readonly Magic[] = [
  { name: 'a 7z archive', at: 0, bytes: [0x37, 0x7a, 0xbc, 0xaf, 0x27, 0x1c] },
  { name: 'a gzip file', at: 0, bytes: [0x1f, 0x8b] },
  { name: 'a zstd file', at: 0, bytes: [0x28, 0xb5, 0x2f, 0xfd] },
  { name: 'a bzip2 file', at: 0, bytes: ascii('BZh') },
  { name: 'an xz file', at: 0, bytes: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00] },
  { name: 'an HDF5 file', at: 0, bytes: [0x89, 0x48, 0x44, 0x46, 0x0d, 0x0a, 0x1a, 0x0a] },
  { name: 'a tar archive', at: 257, bytes: ascii('ustar') },
  { name: 'a Git LFS pointer (the file itself was not downloaded)', at: 0, bytes: ascii('version https://git-lfs') },
];

/**
 * What a file is that begins with `head`, as a noun phrase such as `a gzip file`; undefined where it may well be a
 * checkpoint. `head` is the first `MAGIC_LENGTH` bytes, or the whole file where it is shorter.
 */
export function nameOfForeignFormat(head: Uint8Array): string | undefined {
  if (head.length === 0) return 'an empty file';
  if (head.every((byte) => byte === 0)) return 'zeros, not data (a copy or a download that did not finish)';
  const magic = MAGICS.find(({ at, bytes }) => bytes.every((byte, i) => head[at + i] === byte));
  if (magic) return magic.name;
  if (isHtml(head)) return 'an HTML page (saved in place of the file)';
  if (isSafetensors(head)) return 'a safetensors file';
  return undefined;
}

function isHtml(head: Uint8Array): boolean {
  return /^\s*<(!doctype html|html)/i.test(new TextDecoder().decode(head.subarray(0, 64)));
}

function isSafetensors(head: Uint8Array): boolean {
  if (head.length < PREFIX_LENGTH + 2 || head[PREFIX_LENGTH] !== 0x7b) return false;
  const length = new DataView(head.buffer, head.byteOffset).getBigUint64(0, true);
  return length >= 2n && length <= MAX_HEADER_LENGTH;
}

function ascii(text: string): number[] {
  return [...text].map((character) => character.charCodeAt(0));
}
