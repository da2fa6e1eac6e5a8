import { deflateRawSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { locateEntries, readEntry, readZip } from '../../src/formats/zip/read.js';
import { refusalOf } from '../helpers/refusal.js';
import { bytesSource } from '../helpers/source.js';
import { buildZip, latin1, type TestZip, tamper } from '../helpers/zip.js';

/** Records whose local header, descriptor or content is not what the directory says. */

const LIMIT = 2 ** 29;
const content = latin1('the bytes of a storage');
const torchLike = buildZip([
  { name: 'a/data/0', content },
  { name: 'a/data/1', content: latin1('other bytes') },
  { name: 'a/version', content: latin1('3\n') },
]);
const plain = buildZip(
  [
    { name: 'a/data/0', content, descriptor: 'none' },
    { name: 'a/version', content: latin1('3\n'), descriptor: 'none' },
  ],
  { zip64: false },
);

const locate = async ({ bytes }: TestZip, name = 'a/data/0') =>
  locateEntries(await readZip(bytesSource(bytes)), [name]);
const read = async ({ bytes }: TestZip, name = 'a/data/0', limit = LIMIT) =>
  readEntry(await readZip(bytesSource(bytes)), name, limit);

/** Both ways to a record refuse it, and they agree why. */
async function refusal(zip: TestZip, name?: string) {
  const detail = await refusalOf(() => locate(zip, name));
  expect((await refusalOf(() => read(zip, name))).code).toBe(detail.code);
  return detail;
}

describe('a local header', () => {
  it('is taken as torch and as other programs write it (control)', async () => {
    for (const zip of [torchLike, plain]) {
      expect((await locate(zip)).get('a/data/0')).toBe(zip.data[0]);
      expect(await read(zip)).toEqual(content);
    }
  });

  it.each([
    ['signature', tamper(torchLike, 'local', 'signature', 0)],
    ['flags', tamper(torchLike, 'local', 'flags', 0x0800)],
    ['flags', tamper(torchLike, 'local', 'flags', 0x0809)],
    ['method', tamper(torchLike, 'local', 'method', 8)],
    ['name', tamper(torchLike, 'central', 'nameStart', 0x62)],
    ['name', tamper(torchLike, 'local', 'nameLength', 7)],
    ['name', tamper(torchLike, 'local', 'nameLength', 65_535)],
    ['crc32', tamper(torchLike, 'local', 'crc32', 1)],
    ['size', tamper(torchLike, 'local', 'size', 1)],
    ['compressed size', tamper(torchLike, 'local', 'compressedSize', 1)],
    ['crc32', tamper(plain, 'local', 'crc32', 0)],
    ['crc32', tamper(plain, 'central', 'crc32', 1)],
    ['size', tamper(plain, 'local', 'size', 0)],
    ['size', tamper(plain, 'local', 'size', 0xffffffff)],
    ['compressed size', tamper(plain, 'local', 'compressedSize', 21)],
  ])('that has another %s is refused', async (field, zip) => {
    const name = zip.bytes[(zip.central[0] ?? 0) + 46] === 0x62 ? 'b/data/0' : 'a/data/0';
    const detail = await refusal(zip, name);
    expect(detail).toMatchObject({ kind: 'bad-file', code: 'zip-local-mismatch', facts: { record: name, field } });
  });

  it('of a record that is not wanted is not looked at', async () => {
    const zip = tamper(torchLike, 'local', 'signature', 0);
    expect((await locate(zip, 'a/data/1')).get('a/data/1')).toBe(zip.data[1]);
  });

  it('whose zip64 sizes are wrong is refused', async () => {
    const zip = buildZip([{ name: 'a/data/0', content, descriptor: 'none', localZip64: true }]);
    expect((await locate(zip)).get('a/data/0')).toBe(zip.data[0]);
    const bytes = Uint8Array.from(zip.bytes);
    bytes[30 + 8 + 4] = 23;
    expect((await refusal({ ...zip, bytes })).facts).toMatchObject({ field: 'size' });
  });

  it.each([
    ['shorter by one', 25, 'zip-bad-extra'],
    ['not there', 0, 'zip-unclaimed-bytes'],
    ['longer by one', 27, 'zip-bad-extra'],
    ['longer than the record', 1000, 'zip-overlap'],
  ])('whose extra fields are %s is refused, for they move the data', async (_, length, code) => {
    const right = new DataView(torchLike.bytes.buffer).getUint16((torchLike.local[0] ?? 0) + 28, true);
    expect(right).toBe(26);
    expect((await refusal(tamper(torchLike, 'local', 'extraLength', length))).code).toBe(code);
  });

  it('whose extra fields were shortened in step is refused, also where no CRC would show it', async () => {
    const zip = buildZip([
      { name: 'a/data/0', content, crc32: 0 },
      { name: 'a/version', content: latin1('3\n'), crc32: 0 },
    ]);
    const bytes = Uint8Array.from(tamper(zip, 'local', 'extraLength', 22).bytes);
    bytes[30 + 8 + 2] = 18;
    expect((await refusal({ ...zip, bytes })).code).toBe('zip-bad-descriptor');
  });
});

describe('a descriptor', () => {
  it.each([
    ['signature', 0],
    ['CRC', 4],
    ['data size', 8],
    ['content size', 12],
  ])('with another %s is refused', async (_, offset) => {
    const bytes = Uint8Array.from(torchLike.bytes);
    const at = (torchLike.descriptor[0] ?? 0) + offset;
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    expect((await refusal({ ...torchLike, bytes })).code).toBe('zip-bad-descriptor');
  });

  it('contradicts a CRC that was changed in the directory, to 0 or to another value', async () => {
    for (const value of [0, 0x12345678]) {
      expect((await refusal(tamper(torchLike, 'central', 'crc32', value))).code).toBe('zip-bad-descriptor');
    }
  });

  it.each([1, 4, 8, 17, 25, 100])('followed by %i bytes is refused', async (gap) => {
    const zip = buildZip([
      { name: 'a/data/0', content, gap },
      { name: 'a/version', content: latin1('3\n') },
    ]);
    const detail = await refusal(zip);
    expect(['zip-bad-descriptor', 'zip-unclaimed-bytes']).toContain(detail.code);
  });

  it('may not be there without its flag', async () => {
    const zip = buildZip([
      { name: 'a/data/0', content, descriptor: 'none', gap: 16 },
      { name: 'a/version', content: latin1('3\n') },
    ]);
    expect((await refusal(zip)).code).toBe('zip-unclaimed-bytes');
  });
});

describe('content', () => {
  it.each([
    ['stored', torchLike],
    ['stored without a descriptor', plain],
    ['deflated', buildZip([{ name: 'a/data/0', content, method: 8 }])],
  ])('with one bit flipped is refused: %s', async (_, zip) => {
    expect(await read(zip)).toEqual(content);
    const bytes = Uint8Array.from(zip.bytes);
    const at = (zip.data[0] ?? 0) + 5;
    bytes[at] = (bytes[at] ?? 0) ^ 0x10;
    const { code, kind } = await refusalOf(() => read({ ...zip, bytes }));
    expect(kind).toBe('bad-file');
    expect(['zip-crc-mismatch', 'zip-bad-deflate']).toContain(code);
  });

  it('says both CRCs', async () => {
    const zip = buildZip([{ name: 'a/data/0', content: latin1('123456789'), crc32: 0xabc }]);
    const { code, facts } = await refusalOf(() => read(zip));
    expect(code).toBe('zip-crc-mismatch');
    expect(facts).toEqual({ file: 'test.pt', record: 'a/data/0', expected: '00000abc', found: 'cbf43926' });
  });

  it('with one CRC of 0 among others is refused, as any wrong CRC is', async () => {
    const zip = buildZip([
      { name: 'a/data/0', content, crc32: 0 },
      { name: 'a/version', content: latin1('3\n') },
    ]);
    expect((await refusalOf(() => read(zip))).code).toBe('zip-crc-mismatch');
  });
});

describe('deflated content', () => {
  /** An archive whose record claims `size` bytes of content behind `data`. */
  const claiming = (data: Uint8Array, size: number): TestZip => {
    const base = buildZip([{ name: 'a/data/0', content: data, descriptor: 'none' }], { zip64: false });
    let zip = tamper(tamper(base, 'central', 'method', 8), 'local', 'method', 8);
    zip = tamper(tamper(zip, 'central', 'size', size), 'local', 'size', size);
    return zip;
  };
  const deflated = (bytes: Uint8Array) => Uint8Array.from(deflateRawSync(bytes));

  it('of stored bytes marked as deflated in the directory only is refused', async () => {
    const marked = tamper(torchLike, 'central', 'method', 8);
    expect((await refusalOf(() => read(marked))).code).toBe('zip-local-mismatch');
    expect((await refusalOf(() => locate(marked))).code).toBe('zip-compressed-record');
  });

  it('of stored bytes marked as deflated everywhere is refused', async () => {
    const marked = tamper(tamper(torchLike, 'central', 'method', 8), 'local', 'method', 8);
    expect((await refusalOf(() => read(marked))).code).toBe('zip-bad-deflate');
    expect((await refusalOf(() => locate(marked))).code).toBe('zip-compressed-record');
  });

  it.each([
    ['less than it claims', deflated(content), content.length + 1],
    ['more than it claims', deflated(content), content.length - 1],
    ['nothing where it claims some', latin1('\x03\0'), 5],
    ['cut short', deflated(content).subarray(0, 10), content.length],
    ['of an unknown block type', latin1('\x07abc'), 3],
  ])('that is %s is refused', async (_, data, size) => {
    expect((await refusalOf(() => read(claiming(data, size)))).code).toBe('zip-bad-deflate');
  });

  it('above the limit is refused before it is read', async () => {
    const zip = claiming(deflated(new Uint8Array(100_000)), 100_000);
    const source = bytesSource(zip.bytes);
    const archive = await readZip(source);
    const before = source.reads.length;
    const { code, facts } = await refusalOf(() => readEntry(archive, 'a/data/0', 99_999));
    expect({ code, limit: facts['limit'], found: facts['found'] }).toEqual({
      code: 'zip-record-too-large',
      limit: 99_999,
      found: 100_000,
    });
    expect(source.reads.length).toBe(before);
  });

  it('at a ratio above 1000 is refused before it is inflated', async () => {
    const bomb = deflated(new Uint8Array(10_000_000));
    const { code, facts } = await refusalOf(() => read(claiming(bomb, 10_000_000)));
    expect(code).toBe('zip-bomb');
    expect(facts).toMatchObject({ limit: bomb.length * 1000, found: 10_000_000 });
  });

  it('that hides a bomb behind a small size is given up early', async () => {
    const bomb = deflated(new Uint8Array(2 ** 27));
    const { code, facts } = await refusalOf(() => read(claiming(bomb, 1000)));
    expect(code).toBe('zip-bad-deflate');
    expect(Number(facts['found'])).toBeLessThan(2 ** 25);
  });
});
