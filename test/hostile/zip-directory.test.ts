import { describe, expect, it } from 'vitest';
import { readZip } from '../../src/formats/zip/read.js';
import { refusalOf } from '../helpers/refusal.js';
import { bytesSource } from '../helpers/source.js';
import { buildZip, latin1, type TestRecord, type TestZip, tamper } from '../helpers/zip.js';

/** Directory entries that lie about a record, or that no checkpoint has. */

const one = latin1('one record');
const zip = buildZip([
  { name: 'a/data/0', content: one },
  { name: 'a/data/1', content: one },
  { name: 'a/version', content: latin1('3\n') },
]);

const refusal = ({ bytes }: TestZip) => refusalOf(() => readZip(bytesSource(bytes)));
const refusalOfNames = (...names: (string | Uint8Array)[]) =>
  refusal(buildZip(names.map((name): TestRecord => ({ name, content: latin1('x') }))));

describe('a directory entry', () => {
  it('is read as it is (control)', async () => {
    expect((await readZip(bytesSource(zip.bytes))).entries.size).toBe(3);
  });

  it.each([
    ['a broken signature', tamper(zip, 'central', 'signature', 0x04034b50, 1), 'zip-bad-central-header'],
    ['a name that runs over the end', tamper(zip, 'central', 'nameLength', 500, 2), 'zip-bad-central-header'],
    ['extra fields that run over the end', tamper(zip, 'central', 'extraLength', 65_535), 'zip-bad-central-header'],
    ['a comment that runs over the end', tamper(zip, 'central', 'commentLength', 65_535), 'zip-bad-central-header'],
    ['extra fields made of the next entry', tamper(zip, 'central', 'extraLength', 20), 'zip-bad-extra'],
    ['a stored size that is not its data size', tamper(zip, 'central', 'size', 9), 'zip-stored-size-mismatch'],
    [
      'a data size that is not its stored size',
      tamper(zip, 'central', 'compressedSize', 9),
      'zip-stored-size-mismatch',
    ],
    ['a saturated size without a zip64 field', tamper(zip, 'central', 'size', 0xffffffff), 'zip-bad-zip64'],
    ['a saturated offset without a zip64 field', tamper(zip, 'central', 'headerOffset', 0xffffffff), 'zip-bad-zip64'],
    ['the offset of another record', tamper(zip, 'central', 'headerOffset', 0, 1), 'zip-overlap'],
    ['an offset in the middle of another record', tamper(zip, 'central', 'headerOffset', 40, 1), 'zip-overlap'],
    ['an offset behind the records', tamper(zip, 'central', 'headerOffset', 0x7fffffff, 2), 'zip-overlap'],
    ['a first record that is not first in the file', tamper(zip, 'central', 'headerOffset', 4), 'zip-leading-bytes'],
    ['a folder with content', buildZip([{ name: 'a/', content: one }]), 'zip-bad-name'],
  ])('is refused for %s', async (_, bad, code) => {
    expect(await refusal(bad)).toMatchObject({ kind: 'bad-file', code });
  });

  it('is refused where its sizes reach into the next record', async () => {
    const sized = tamper(tamper(zip, 'central', 'size', 500), 'central', 'compressedSize', 500);
    const detail = await refusal(sized);
    expect(detail).toMatchObject({
      code: 'zip-overlap',
      facts: { record: 'a/data/0', expected: 30 + 8 + 500, found: zip.local[1] },
    });
  });

  it.each([
    ['method 9', 'method', 9, 'zip-unsupported-method'],
    ['bzip2', 'method', 12, 'zip-unsupported-method'],
    ['lzma', 'method', 14, 'zip-unsupported-method'],
    ['zstd', 'method', 93, 'zip-unsupported-method'],
    ['AES', 'method', 99, 'zip-unsupported-method'],
    ['encryption', 'flags', 0x0809, 'zip-encrypted'],
    ['strong encryption', 'flags', 0x0848, 'zip-encrypted'],
    ['masked headers', 'flags', 0x2808, 'zip-encrypted'],
    ['patched data', 'flags', 0x0828, 'zip-unsupported-flags'],
    ['enhanced deflate', 'flags', 0x0818, 'zip-unsupported-flags'],
    ['a reserved bit', 'flags', 0x8808, 'zip-unsupported-flags'],
    ['another disk', 'disk', 1, 'zip-multi-disk'],
  ] as const)('is refused for %s', async (_, field, value, code) => {
    const detail = await refusal(tamper(zip, 'central', field, value, 1));
    expect(detail).toMatchObject({ kind: 'unsupported', code, facts: { record: 'a/data/1', found: value } });
  });

  it('may say what it likes of versions, times and attributes', async () => {
    for (const field of ['madeBy', 'needed', 'time', 'date', 'internal', 'external'] as const) {
      const changed = tamper(zip, 'central', field, 0x1234, 1);
      expect((await readZip(bytesSource(changed.bytes))).entries.size, field).toBe(3);
    }
  });
});

describe('names', () => {
  it.each([
    ['empty', ''],
    ['with a NUL', 'a/data\0.pkl'],
    ['with a line end', 'a/data\n.pkl'],
    ['that go up', 'a/../../etc/passwd'],
    ['that are ..', '..'],
    ['with a . step', 'a/./data.pkl'],
    ['with an empty step', 'a//data.pkl'],
    ['that are absolute', '/etc/passwd'],
    ['of a root folder', '/'],
    ['with a drive letter', 'C:/data.pkl'],
    ['with a backslash', 'a\\data.pkl'],
    ['that are not UTF-8', latin1('a/\xe9.pkl')],
    ['that hold half of a surrogate pair', latin1('a/\xed\xa0\x80')],
    ['of 513 bytes', `a/${'x'.repeat(511)}`],
    ['of 64 KiB', 'x'.repeat(65_535)],
  ])('%s are refused', async (_, name) => {
    expect(await refusalOfNames(name)).toMatchObject({ kind: 'bad-file', code: 'zip-bad-name' });
  });

  it('of 512 bytes are taken', async () => {
    const { bytes } = buildZip([{ name: `a/${'x'.repeat(510)}`, content: one }]);
    expect((await readZip(bytesSource(bytes))).entries.size).toBe(1);
  });

  it.each([
    ['twice', 'a/data.pkl', 'a/data.pkl'],
    ['that differ in case', 'a/data.pkl', 'a/DATA.PKL'],
    ['that differ in the case of other scripts', 'a/\u00e9', 'a/\u00c9'],
  ])('%s are refused', async (_, first, second) => {
    const detail = await refusalOfNames(first, 'a/version', second);
    expect(detail).toMatchObject({
      kind: 'bad-file',
      code: 'zip-duplicate-name',
      facts: { record: second, other: first },
    });
  });
});

describe('zip64 fields of the directory', () => {
  /** The directory of one record, with an extra field put behind its name. */
  const withExtra = (extra: Uint8Array, ...saturated: ('size' | 'compressedSize' | 'headerOffset')[]): TestZip => {
    const plain = buildZip([{ name: 'a/data/0', content: one }], { zip64: false });
    let base = tamper(plain, 'central', 'extraLength', extra.length);
    for (const field of saturated) base = tamper(base, 'central', field, 0xffffffff);
    const end = plain.end[0] ?? 0;
    const resized = tamper(base, 'end', 'directorySize', end - (plain.central[0] ?? 0) + extra.length);
    return { ...plain, bytes: Buffer.concat([resized.bytes.subarray(0, end), extra, resized.bytes.subarray(end)]) };
  };
  const zip64 = (...values: bigint[]) => {
    const view = new DataView(new ArrayBuffer(4 + 8 * values.length));
    view.setUint16(0, 1, true);
    view.setUint16(2, 8 * values.length, true);
    for (const [i, value] of values.entries()) view.setBigUint64(4 + 8 * i, BigInt.asUintN(64, value), true);
    return new Uint8Array(view.buffer);
  };

  it('hold the saturated values in order (control)', async () => {
    for (const bad of [
      withExtra(zip64(10n, 10n, 0n), 'size', 'compressedSize', 'headerOffset'),
      withExtra(zip64(10n, 10n), 'size', 'compressedSize'),
      withExtra(zip64(0n), 'headerOffset'),
      withExtra(Buffer.concat([latin1('XX\x02\0ab'), zip64(0n)]), 'headerOffset'),
      // What is not saturated is not looked up.
      withExtra(zip64(99n, 99n, 99n)),
    ]) {
      const { entries } = await readZip(bytesSource(bad.bytes));
      expect(entries.get('a/data/0')).toMatchObject({ size: 10, compressedSize: 10, headerOffset: 0 });
    }
  });

  it.each([
    ['too short', withExtra(zip64(10n), 'size', 'compressedSize'), 'zip-bad-zip64'],
    ['of 2^53', withExtra(zip64(2n ** 53n, 2n ** 53n), 'size', 'compressedSize'), 'zip-bad-zip64'],
    ['of -1', withExtra(zip64(-1n), 'headerOffset'), 'zip-bad-zip64'],
    [
      'that do not fill their extra fields',
      withExtra(Buffer.concat([zip64(0n), latin1('abc')]), 'headerOffset'),
      'zip-bad-extra',
    ],
    ['that run over their extra fields', withExtra(zip64(0n).subarray(0, 10), 'headerOffset'), 'zip-bad-extra'],
    ['that are there twice', withExtra(Buffer.concat([zip64(0n), zip64(0n)]), 'headerOffset'), 'zip-bad-extra'],
    [
      'of sizes beyond the file',
      withExtra(zip64(2n ** 53n - 1n, 2n ** 53n - 1n), 'size', 'compressedSize'),
      'zip-overlap',
    ],
    ['of an offset beyond the file', withExtra(zip64(2n ** 53n - 1n), 'headerOffset'), 'zip-leading-bytes'],
  ])('%s are refused', async (_, bad, code) => {
    expect(await refusal(bad)).toMatchObject({ kind: 'bad-file', code, facts: { file: 'test.pt' } });
  });
});
