import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readZip } from '../../src/formats/zip/read.js';
import { refusalOf } from '../helpers/refusal.js';
import { bytesSource, sparseSource } from '../helpers/source.js';
import { buildZip, latin1 } from '../helpers/zip.js';

/** Files that end too early, go on too long, or are something else. */

const whole = new Uint8Array(readFileSync(new URL('../unit/formats/zip/torch-save.pt', import.meta.url)));
const refusal = (bytes: Uint8Array) => refusalOf(() => readZip(bytesSource(bytes)));

describe('a file that was cut short', () => {
  it('is whole at its full length (control)', async () => {
    expect((await readZip(bytesSource(whole))).entries.size).toBe(9);
  });

  it('is refused at every length', async () => {
    for (let length = 0; length < whole.length; length++) {
      const { kind, code, facts } = await refusal(whole.subarray(0, length));
      expect({ length, kind, code, size: facts['size'] }).toEqual({
        length,
        kind: 'bad-file',
        code: length === 0 ? 'zip-foreign-format' : 'zip-truncated',
        size: length,
      });
    }
  });

  it.each([
    ['in the first local header', 20, undefined],
    ['in the first record', 100, 'vector/data.pkl'],
    ['in the data of a storage', 1100, 'vector/data/2'],
    ['in the directory', 2000, 'vector/.data/serialization_id'],
    ['before the end record', whole.length - 22, 'vector/.data/serialization_id'],
  ])('names the last record that begins in it: %s', async (_, length, record) => {
    const { facts, message, advice } = await refusal(whole.subarray(0, length));
    expect(facts).toEqual({ file: 'test.pt', size: length, ...(record === undefined ? {} : { record }) });
    expect(message).toContain(`${length} bytes`);
    expect(advice).toContain('interrupted copy');
  });

  it('is refused where its end is zeros, as in a file that was laid out but not filled', async () => {
    const source = sparseSource(1_000_000, [{ at: 0, bytes: whole.subarray(0, 1100) }]);
    const detail = await refusalOf(() => readZip(source));
    expect(detail.code).toBe('zip-zero-tail');
    expect(detail.facts).toEqual({ file: 'test.pt', size: 1_000_000, found: 65_536 });
  });
});

describe('a file with bytes added', () => {
  it.each([1, 22, 4096, 65_000])('is refused: %i bytes behind it', async (count) => {
    const detail = await refusal(Buffer.concat([whole, new Uint8Array(count).fill(0xaa)]));
    expect(detail).toMatchObject({ kind: 'bad-file', code: 'zip-trailing-bytes', facts: { found: count } });
  });

  it('is refused: more than 64 KiB behind it', async () => {
    const detail = await refusal(Buffer.concat([whole, new Uint8Array(70_000).fill(0xaa)]));
    expect(detail.code).toBe('zip-truncated');
  });

  it('is refused: a program in front of it', async () => {
    const detail = await refusal(Buffer.concat([latin1('#!/bin/sh\nexit\n'), whole]));
    expect(detail.code).toBe('zip-bad-end64');
    const short = buildZip([{ name: 'a/version', content: latin1('3\n') }], { zip64: false }).bytes;
    expect((await refusal(Buffer.concat([latin1('#!/bin/sh\nexit\n'), short]))).code).toBe(
      'zip-directory-out-of-place',
    );
  });

  it('is refused: bytes in front of its first record, with all offsets right', async () => {
    const { bytes } = buildZip([
      { name: 'x', content: latin1('in front') },
      { name: 'a/version', content: latin1('3\n') },
    ]);
    // Takes the first record out of the directory, so that its bytes belong to nothing.
    const central = Buffer.from(bytes).indexOf('PK\x01\x02');
    const cut = Buffer.from(bytes).indexOf('PK\x01\x02', central + 1) - central;
    const edited = Buffer.concat([bytes.subarray(0, central), bytes.subarray(central + cut)]);
    const end64 = edited.indexOf('PK\x06\x06');
    edited.writeBigUInt64LE(1n, end64 + 24);
    edited.writeBigUInt64LE(1n, end64 + 32);
    edited.writeBigUInt64LE(edited.readBigUInt64LE(end64 + 40) - BigInt(cut), end64 + 40);
    edited.writeBigUInt64LE(BigInt(end64), end64 + 56 + 8);
    edited.writeUInt16LE(1, end64 + 76 + 8);
    edited.writeUInt16LE(1, end64 + 76 + 10);
    edited.writeUInt32LE(edited.readUInt32LE(end64 + 76 + 12) - cut, end64 + 76 + 12);
    const detail = await refusal(Uint8Array.from(edited));
    expect(detail).toMatchObject({ code: 'zip-leading-bytes', facts: { expected: 0, found: 88 } });
  });

  it('is refused: a second archive behind the first', async () => {
    expect((await refusal(Buffer.concat([whole, whole]))).code).toBe('zip-bad-end64');
  });
});

describe('a file that is something else', () => {
  it.each([
    ['an empty file', new Uint8Array()],
    ['zeros', new Uint8Array(100_000)],
    ['a 7z archive', latin1('7z\xbc\xaf\x27\x1c\x00\x04 and so on, for more than 22 bytes')],
    ['a gzip file', latin1('\x1f\x8b\x08\x00')],
    ['a tar archive', latin1(`storages${'\0'.repeat(249)}ustar\0${'00'.repeat(200)}`)],
    ['a Git LFS pointer', latin1('version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n')],
    ['an HTML page', latin1('<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>')],
    ['a safetensors file', latin1('\x08\0\0\0\0\0\0\0{}      ')],
  ])('is named: %s', async (name, bytes) => {
    const detail = await refusal(bytes);
    expect(detail).toMatchObject({ kind: 'bad-file', code: 'zip-foreign-format' });
    expect(detail.facts['found']).toContain(name);
    expect(detail.message).toContain(name);
  });

  it('is refused where nobody knows it, large or small', async () => {
    expect((await refusal(latin1('\x80\x02}q\x00.'))).code).toBe('zip-not-a-zip');
    const large = sparseSource(10_000_000, [{ at: 0, bytes: latin1('GGUF') }]);
    expect((await refusalOf(() => readZip(large))).code).toBe('zip-not-a-zip');
  });
});
