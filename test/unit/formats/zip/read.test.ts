import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { locateEntries, readEntry, readZip } from '../../../../src/formats/zip/read.js';
import { emitZipTail, layoutZip } from '../../../../src/formats/zip/write.js';
import { refusalOf } from '../../../helpers/refusal.js';
import { bytesSource, sparseSource } from '../../../helpers/source.js';
import { buildZip, latin1, type TestRecord } from '../../../helpers/zip.js';

/** What torch 2.13 saved; `write.test.ts` says how, and lists its records. */
const torchFile = new Uint8Array(readFileSync(new URL('torch-save.pt', import.meta.url)));

const KIB = 1024;
const open = (records: readonly TestRecord[], options?: { zip64?: boolean }) =>
  readZip(bytesSource(buildZip(records, options).bytes));

describe('readZip', () => {
  it('lists what torch.save wrote, in file order', async () => {
    const { entries, hasCrcs, warnings } = await readZip(bytesSource(torchFile));
    expect([...entries.keys()]).toEqual([
      'vector/data.pkl',
      'vector/.format_version',
      'vector/.storage_alignment',
      'vector/byteorder',
      'vector/data/0',
      'vector/data/1',
      'vector/data/2',
      'vector/version',
      'vector/.data/serialization_id',
    ]);
    expect(entries.get('vector/data/2')).toEqual({
      name: 'vector/data/2',
      headerOffset: 960,
      recordEnd: 1600,
      compressedSize: 560,
      size: 560,
      crc32: 0xf8f19dc1,
      method: 0,
      flags: 0x0808,
    });
    expect(hasCrcs).toBe(true);
    expect(warnings).toEqual([]);
  });

  it('reads the tail once and the last record once, whatever the size of the file', async () => {
    const { headers, records, byteLength } = layoutZip([
      { name: 'a/data/0', length: 2 ** 40 },
      { name: 'a/version', length: 2 },
    ]);
    const tail = emitZipTail(records.map((record) => ({ ...record, crc32: 7 })));
    const source = sparseSource(byteLength, [...headers, ...tail]);
    const { signal } = new AbortController();
    const { entries } = await readZip(source, signal);
    expect(entries.get('a/data/0')?.size).toBe(2 ** 40);
    expect(source.reads[0]).toEqual({ offset: byteLength - 65_536, length: 65_536, signal });
    expect(source.reads.every((read) => read.signal === signal && read.length <= 65_536)).toBe(true);
    expect(source.reads.length).toBe(2);
  });

  it('reads a directory that is larger than the tail', async () => {
    const records = Array.from({ length: 3000 }, (_, i) => ({ name: `archive/data/${i}`, content: latin1(`${i}`) }));
    const source = bytesSource(buildZip(records).bytes);
    const archive = await readZip(source);
    expect(archive.entries.size).toBe(3000);
    expect(source.reads.length).toBe(3);
    expect(await readEntry(archive, 'archive/data/2999', 10)).toEqual(latin1('2999'));
  });

  it('reads a file without records', async () => {
    expect((await open([])).entries.size).toBe(0);
    expect((await open([], { zip64: false })).entries.size).toBe(0);
  });

  it('says so where a file was saved without CRCs', async () => {
    const archive = await open([
      { name: 'a/data.pkl', content: latin1('pickle'), crc32: 0 },
      { name: 'a/data/0', content: new Uint8Array(64), crc32: 0 },
    ]);
    expect(archive.hasCrcs).toBe(false);
    expect(archive.warnings.map((warning) => warning.code)).toEqual(['zip-no-crcs']);
    expect(await readEntry(archive, 'a/data.pkl', 100)).toEqual(latin1('pickle'));
  });

  it('has CRCs where all records are empty', async () => {
    expect((await open([{ name: 'a/data/0' }])).hasCrcs).toBe(true);
  });

  it('leaves folders out and mentions them', async () => {
    const archive = await open([{ name: 'a/' }, { name: 'a/data/' }, { name: 'a/data/0', content: latin1('x') }]);
    expect([...archive.entries.keys()]).toEqual(['a/data/0']);
    expect(archive.warnings.map((warning) => warning.code)).toEqual(['zip-folder-entry']);
  });

  it('mentions bytes that belong to no record, and refuses the record in front of them only', async () => {
    const archive = await open([
      { name: 'a/data/0', content: latin1('zero'), gap: 66_000 },
      { name: 'a/data/1', content: latin1('one') },
    ]);
    expect(archive.warnings.map((warning) => warning.code)).toEqual(['zip-gap']);
    expect(await readEntry(archive, 'a/data/1', 10)).toEqual(latin1('one'));
    const detail = await refusalOf(() => locateEntries(archive, ['a/data/0']));
    expect(detail).toMatchObject({ code: 'zip-unclaimed-bytes', facts: { record: 'a/data/0' } });
  });

  it('takes names of any script, and keeps those that differ in normalization apart', async () => {
    const names = ['模型/data/0', '模型/\u00e9', '模型/e\u0301', '模型/__proto__'];
    const archive = await open(names.map((name) => ({ name, content: latin1('x') })));
    expect([...archive.entries.keys()]).toEqual(names);
  });

  it('stops when it is cancelled', async () => {
    const signal = AbortSignal.abort();
    await expect(readZip(bytesSource(torchFile), signal)).rejects.toBe(signal.reason);
  });
});

describe('locateEntries', () => {
  it('finds the data that torch.save wrote', async () => {
    const archive = await readZip(bytesSource(torchFile));
    const offsets = await locateEntries(archive, ['vector/data/2', 'vector/data/0', 'vector/data/1']);
    expect([...offsets]).toEqual([
      ['vector/data/2', 1024],
      ['vector/data/0', 832],
      ['vector/data/1', 960],
    ]);
  });

  it('finds data that is not aligned, as other programs write it', async () => {
    const zip = buildZip(
      [
        { name: 'a/data/0', content: latin1('12345'), descriptor: 'none', padding: 0 },
        { name: 'a/data/1', content: latin1('678'), descriptor: 'none', padding: 3 },
      ],
      { zip64: false },
    );
    const archive = await readZip(bytesSource(zip.bytes));
    const offsets = await locateEntries(archive, ['a/data/0', 'a/data/1']);
    expect([...offsets.values()]).toEqual(zip.data);
    expect(zip.data).toEqual([42, 92]);
  });

  it.each(['signed32', 'signed64', 'plain32', 'plain64'] as const)(
    'takes a descriptor of the form %s',
    async (descriptor) => {
      const zip = buildZip([
        { name: 'a/data/0', content: latin1('12345'), descriptor },
        { name: 'a/data/1', descriptor },
      ]);
      const archive = await readZip(bytesSource(zip.bytes));
      expect([...(await locateEntries(archive, ['a/data/0', 'a/data/1'])).values()]).toEqual(zip.data);
    },
  );

  it('takes sizes from a zip64 field in the local header', async () => {
    const zip = buildZip([{ name: 'a/data/0', content: latin1('12345'), descriptor: 'none', localZip64: true }]);
    const archive = await readZip(bytesSource(zip.bytes));
    expect([...(await locateEntries(archive, ['a/data/0'])).values()]).toEqual(zip.data);
  });

  it('reads near headers together and passes the signal to every read', async () => {
    const small = Array.from({ length: 100 }, (_, i) => ({ name: `a/data/${i}`, content: new Uint8Array(256) }));
    const large = { name: 'a/data/far', content: new Uint8Array(100 * KIB) };
    const source = bytesSource(buildZip([...small, large, { name: 'a/version', content: latin1('3\n') }]).bytes);
    const archive = await readZip(source);
    const { signal } = new AbortController();
    const before = source.reads.length;
    await locateEntries(archive, [...archive.entries.keys()], signal);
    const reads = source.reads.slice(before);
    expect(reads.every((read) => read.signal === signal)).toBe(true);
    // All small records up to the header of the large one, then from its descriptor to the end.
    expect(reads.length).toBe(2);
  });

  it('reads only edges of large records', async () => {
    const large = Array.from({ length: 20 }, (_, i) => ({ name: `a/data/${i}`, length: 2 ** 32 }));
    const { headers, records, byteLength } = layoutZip(large);
    const tail = emitZipTail(records.map((record, i) => ({ ...record, crc32: i + 1 })));
    const source = sparseSource(byteLength, [...headers, ...tail]);
    const archive = await readZip(source);
    const before = source.reads.length;
    const offsets = await locateEntries(archive, [...archive.entries.keys()]);
    expect([...offsets.values()]).toEqual(records.map((record) => record.at));
    const reads = source.reads.slice(before);
    expect(reads.length).toBe(21);
    expect(reads.reduce((sum, read) => sum + read.length, 0)).toBeLessThan(8 * KIB);
  });

  it.each([
    ['one byte below the largest 32-bit size', 0xfffffffe],
    ['the largest 32-bit size', 0xffffffff],
    ['4 GiB', 0x100000000],
    ['one byte above 4 GiB', 0x100000001],
  ])('finds what lies at and behind a record of %s', async (_, length) => {
    const { headers, records, byteLength } = layoutZip([
      { name: 'a/data/0', length },
      { name: 'a/data/1', length: 5 },
      { name: 'a/data/2', length: 0 },
    ]);
    const tail = emitZipTail(records.map((record, i) => ({ ...record, crc32: i === 2 ? 0 : 9 })));
    const archive = await readZip(sparseSource(byteLength, [...headers, ...tail]));
    expect(archive.entries.get('a/data/0')?.size).toBe(length);
    const offsets = await locateEntries(archive, ['a/data/0', 'a/data/1', 'a/data/2']);
    expect([...offsets.values()]).toEqual(records.map((record) => record.at));
  });

  // The local header of the first record takes 64 bytes, its descriptor 16: record 2 starts 80 bytes behind its data.
  it.each([-1, 0, 1])('finds a record whose header is at the largest 32-bit offset %i', async (shift) => {
    const { headers, records, byteLength } = layoutZip([
      { name: 'a/data/0', length: 0xffffffff - 80 + shift },
      { name: 'a/data/1', length: 5 },
    ]);
    expect(records[1]?.header).toBe(0xffffffff + shift);
    const tail = emitZipTail(records.map((record) => ({ ...record, crc32: 9 })));
    const archive = await readZip(sparseSource(byteLength, [...headers, ...tail]));
    expect((await locateEntries(archive, ['a/data/1'])).get('a/data/1')).toBe(records[1]?.at);
  });

  it('refuses a compressed record, which cannot be read in place', async () => {
    const archive = await open([
      { name: 'a/data/0', content: new Uint8Array(100), method: 8 },
      { name: 'a/data/1', content: new Uint8Array(100) },
    ]);
    const detail = await refusalOf(() => locateEntries(archive, ['a/data/1', 'a/data/0']));
    expect(detail).toMatchObject({
      kind: 'unsupported',
      code: 'zip-compressed-record',
      facts: { file: 'test.pt', record: 'a/data/0' },
    });
    expect((await locateEntries(archive, ['a/data/1'])).size).toBe(1);
  });

  it('refuses a name that is not there', async () => {
    const archive = await open([{ name: 'a/data/0', content: latin1('x') }]);
    for (const name of ['a/data/1', 'A/data/0', '__proto__']) {
      const detail = await refusalOf(() => locateEntries(archive, [name]));
      expect(detail).toMatchObject({ kind: 'bad-file', code: 'zip-missing-record', facts: { record: name } });
    }
  });
});

describe('readEntry', () => {
  it('gives the content that torch.save wrote, in one read each', async () => {
    const source = bytesSource(torchFile);
    const archive = await readZip(source);
    const before = source.reads.length;
    const { signal } = new AbortController();
    expect(await readEntry(archive, 'vector/version', 64, signal)).toEqual(latin1('3\n'));
    expect(await readEntry(archive, 'vector/byteorder', 64, signal)).toEqual(latin1('little'));
    expect(await readEntry(archive, 'vector/data/1', 64, signal)).toEqual(new Uint8Array());
    const weight = await readEntry(archive, 'vector/data/0', 64, signal);
    expect([...new Float32Array(weight.slice().buffer)]).toEqual([1, -2, 0.5]);
    expect(source.reads.length - before).toBe(4);
    expect(source.reads.slice(before).every((read) => read.signal === signal)).toBe(true);
  });

  it.each([0, 1, 16_383, 16_384, 16_385, 300_000])('inflates %i bytes', async (length) => {
    const content = Uint8Array.from({ length }, (_, i) => (i * i) >>> 5);
    const archive = await open([
      { name: 'a/data.pkl', content, method: 8 },
      { name: 'a/version', content: latin1('3\n'), method: 8, descriptor: 'none' },
    ]);
    expect(await readEntry(archive, 'a/data.pkl', length + 64)).toEqual(content);
    expect(await readEntry(archive, 'a/version', 64)).toEqual(latin1('3\n'));
  });

  it('takes content of exactly the limit and refuses one byte more', async () => {
    const archive = await open([{ name: 'a/data.pkl', content: new Uint8Array(100) }]);
    expect(await readEntry(archive, 'a/data.pkl', 100)).toHaveLength(100);
    const detail = await refusalOf(() => readEntry(archive, 'a/data.pkl', 99));
    expect(detail).toMatchObject({
      kind: 'bad-file',
      code: 'zip-record-too-large',
      facts: { record: 'a/data.pkl', limit: 99, found: 100 },
    });
  });

  it('refuses a name that is not there', async () => {
    const archive = await open([{ name: 'a/data.pkl', content: latin1('x') }]);
    expect((await refusalOf(() => readEntry(archive, 'a/version', 64))).code).toBe('zip-missing-record');
  });
});
