import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { nameOfForeignFormat } from '../../../src/formats/magic.js';

const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'latin1'));
const tar = bytes(`data.pkl${'\0'.repeat(249)}ustar\x0000`);
const safetensors = bytes('\x08\0\0\0\0\0\0\0{}      ');

describe('nameOfForeignFormat', () => {
  it.each([
    ['an empty file', bytes('')],
    ['zeros', new Uint8Array(512)],
    ['a 7z archive', bytes('7z\xbc\xaf\x27\x1c\x00\x04')],
    ['a gzip file', new Uint8Array(gzipSync('weights'))],
    ['a zstd file', bytes('\x28\xb5\x2f\xfd\x24\x00')],
    ['a bzip2 file', bytes('BZh91AY&SY')],
    ['an xz file', bytes('\xfd7zXZ\0')],
    ['an HDF5 file', bytes('\x89HDF\r\n\x1a\n')],
    ['a tar archive', tar],
    ['a Git LFS pointer', bytes('version https://git-lfs.github.com/spec/v1\noid sha256:00\n')],
    ['an HTML page', bytes('\n<!DOCTYPE html><html><body>401</body></html>')],
    ['an HTML page', bytes('<HTML><head></head></HTML>')],
    ['a safetensors file', safetensors],
  ])('knows %s', (name, head) => {
    expect(nameOfForeignFormat(head)).toMatch(new RegExp(`^${name}`));
  });

  it.each([
    [
      'a zip file of torch',
      new Uint8Array(readFileSync(new URL('zip/torch-save.pt', import.meta.url)).subarray(0, 512)),
    ],
    ['a legacy torch file', bytes('\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e')],
    ['a plain pickle', bytes('\x80\x04\x95')],
    ['a tar name at another place', bytes(`${'\0'.repeat(250)}ustar`)],
    ['a safetensors header beyond the limit', bytes('\x01\xe1\xf5\x05\0\0\0\0{}')],
    ['zeros before data', Uint8Array.of(0, 0, 0, 1)],
    ['the text of a config', bytes('{"model_type": "gpt2"}')],
  ])('does not name %s', (_, head) => {
    expect(nameOfForeignFormat(head)).toBeUndefined();
  });
});
