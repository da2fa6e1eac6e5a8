import { describe, expect, it } from 'vitest';
import { readZip } from '../../src/formats/zip/read.js';
import { refusalOf } from '../helpers/refusal.js';
import { bytesSource, sparseSource } from '../helpers/source.js';
import { buildZip, latin1, type TestZip, tamper } from '../helpers/zip.js';

/** End records that lie about the directory. */

const RECORDS = [
  { name: 'a/data.pkl', content: latin1('pickle') },
  { name: 'a/version', content: latin1('3\n') },
];
const zip64 = buildZip(RECORDS);
const zip32 = buildZip(RECORDS, { zip64: false });

const refusal = ({ bytes }: TestZip) => {
  const source = bytesSource(bytes);
  return refusalOf(() => readZip(source)).then((detail) => ({ ...detail, reads: source.reads }));
};

describe('end records that agree (control)', () => {
  it('are read with and without zip64', async () => {
    for (const { bytes } of [zip64, zip32]) expect((await readZip(bytesSource(bytes))).entries.size).toBe(2);
  });

  it('may leave every number to the zip64 record', async () => {
    let zip = tamper(zip64, 'end', 'count', 0xffff);
    zip = tamper(zip, 'end', 'countOnDisk', 0xffff);
    zip = tamper(zip, 'end', 'directorySize', 0xffffffff);
    zip = tamper(zip, 'end', 'directoryOffset', 0xffffffff);
    expect((await readZip(bytesSource(zip.bytes))).entries.size).toBe(2);
  });
});

describe('end records that are refused', () => {
  const directorySize = 2 * 46 + 'a/data.pkl'.length + 'a/version'.length;

  it.each([
    ['a comment that is not there', tamper(zip64, 'end', 'commentLength', 5), 'zip-comment'],
    ['the number of another disk', tamper(zip64, 'end', 'disk', 1), 'zip-multi-disk'],
    ['a directory on another disk', tamper(zip64, 'end', 'directoryDisk', 1), 'zip-multi-disk'],
    ['the number of another disk in zip64', tamper(zip64, 'end64', 'disk', 1), 'zip-multi-disk'],
    ['a directory on another disk in zip64', tamper(zip64, 'end64', 'directoryDisk', 1), 'zip-multi-disk'],
    ['a locator on another disk', tamper(zip64, 'locator', 'disk', 1), 'zip-multi-disk'],
    ['two disks', tamper(zip64, 'locator', 'disks', 2), 'zip-multi-disk'],
    ['another count than zip64', tamper(zip64, 'end', 'count', 1), 'zip-end-mismatch'],
    ['another count on this disk than zip64', tamper(zip64, 'end', 'countOnDisk', 1), 'zip-end-mismatch'],
    ['another size than zip64', tamper(zip64, 'end', 'directorySize', directorySize - 1), 'zip-end-mismatch'],
    ['another offset than zip64', tamper(zip64, 'end', 'directoryOffset', 7), 'zip-end-mismatch'],
    ['a locator that points elsewhere', tamper(zip64, 'locator', 'endOffset', 0), 'zip-bad-end64'],
    ['a locator that points beyond the file', tamper(zip64, 'locator', 'endOffset', 2n ** 63n), 'zip-bad-end64'],
    ['a zip64 record with a broken signature', tamper(zip64, 'end64', 'signature', 0), 'zip-bad-end64'],
    ['a zip64 record of another size', tamper(zip64, 'end64', 'recordSize', 45), 'zip-bad-end64'],
    ['a locator with a broken signature', tamper(zip64, 'locator', 'signature', 0), 'zip-directory-out-of-place'],
    ['an offset beyond the file', tamper(zip32, 'end', 'directoryOffset', 0x7fffffff), 'zip-directory-out-of-place'],
    ['a size beyond the file', tamper(zip32, 'end', 'directorySize', 0x7fffffff), 'zip-directory-out-of-place'],
    [
      'a saturated offset without zip64',
      tamper(zip32, 'end', 'directoryOffset', 0xffffffff),
      'zip-directory-out-of-place',
    ],
    ['a saturated count without zip64', tamper(zip32, 'end', 'count', 0xffff), 'zip-count-mismatch'],
    ['two counts', tamper(zip32, 'end', 'countOnDisk', 1), 'zip-count-mismatch'],
    ['a count above what the directory can hold', sameCounts(zip32, 3), 'zip-count-mismatch'],
    ['a count below what the directory holds', sameCounts(zip32, 1), 'zip-count-mismatch'],
    ['a count of 0', sameCounts(zip32, 0), 'zip-count-mismatch'],
  ])('%s', async (_, zip, code) => {
    const detail = await refusal(zip);
    const kind = code === 'zip-multi-disk' ? 'unsupported' : 'bad-file';
    expect({ kind: detail.kind, code: detail.code }).toEqual({ kind, code });
  });

  it.each([
    ['2^32 records', 2n ** 32n, 'zip-too-many-records'],
    ['2^40 records', 2n ** 40n, 'zip-too-many-records'],
    ['-1 records', 2n ** 64n - 1n, 'zip-number-too-large'],
    ['2^53 records', 2n ** 53n, 'zip-number-too-large'],
  ])('%s, before anything is allocated for them', async (_, count, code) => {
    let zip = tamper(zip64, 'end', 'count', 0xffff);
    zip = tamper(zip, 'end', 'countOnDisk', 0xffff);
    zip = tamper(zip, 'end64', 'count', count);
    const detail = await refusal(tamper(zip, 'end64', 'countOnDisk', count));
    expect(detail.code).toBe(code);
    expect(detail.reads).toHaveLength(1);
  });

  it.each([
    ['directoryOffset', 2n ** 63n, 'zip-number-too-large'],
    ['directoryOffset', 2n ** 64n - 1n, 'zip-number-too-large'],
    ['directoryOffset', 2n ** 53n - 1n, 'zip-directory-out-of-place'],
    ['directorySize', 2n ** 63n, 'zip-number-too-large'],
    ['directorySize', 2n ** 53n - 1n, 'zip-directory-out-of-place'],
  ] as const)('a zip64 %s of %s, before anything is allocated for it', async (field, value, code) => {
    const short = tamper(zip64, 'end', field, 0xffffffff);
    const detail = await refusal(tamper(short, 'end64', field, value));
    expect(detail.code).toBe(code);
    expect(detail.reads).toHaveLength(1);
  });

  it('a directory of 300 MB, before it is read', async () => {
    const size = 300_000_000;
    let end = tamper(buildZip([], { zip64: false }), 'end', 'directorySize', size);
    end = sameCounts(end, 1);
    const source = sparseSource(size + 22, [{ at: size, bytes: end.bytes }]);
    const detail = await refusalOf(() => readZip(source));
    expect(detail).toMatchObject({ code: 'zip-directory-too-large', facts: { limit: 2 ** 28, found: size } });
    expect(source.reads).toHaveLength(1);
  });

  it('names both numbers', async () => {
    const detail = await refusal(tamper(zip32, 'end', 'directoryOffset', 7));
    const end = zip32.end[0] ?? 0;
    expect(detail.facts).toEqual({ file: 'test.pt', expected: end, found: 7 + directorySize });
    expect(detail.message).toContain(`should end at ${end} but ends at ${7 + directorySize}`);
  });
});

describe('archives in archives', () => {
  it('a comment is refused, be it that of an end record or not', async () => {
    for (const comment of [latin1('saved by me'), zip32.bytes.subarray(zip32.end[0])]) {
      const end = tamper(zip32, 'end', 'commentLength', comment.length);
      const detail = await refusal({ ...zip32, bytes: Buffer.concat([end.bytes, comment]) });
      // A comment that is an end record stands at the end of the file, and its directory is not in front of it.
      expect(detail.code).toBe(comment.length === 22 ? 'zip-directory-out-of-place' : 'zip-comment');
    }
  });

  it('a second directory behind the first is refused', async () => {
    const central = zip32.central[0] ?? 0;
    const end = zip32.end[0] ?? 0;
    const moved = tamper(zip32, 'end', 'directoryOffset', zip32.bytes.length).bytes.subarray(end);
    const bytes = Buffer.concat([zip32.bytes, zip32.bytes.subarray(central, end), moved]);
    const detail = await refusal({ ...zip32, bytes });
    expect(detail).toMatchObject({ code: 'zip-unclaimed-bytes', facts: { record: 'a/version' } });
  });

  it('an archive stored as a record is content like any other', async () => {
    const { bytes } = buildZip([{ name: 'a/data/0', content: zip64.bytes }]);
    expect([...(await readZip(bytesSource(bytes))).entries.keys()]).toEqual(['a/data/0']);
  });
});

function sameCounts(zip: TestZip, count: number): TestZip {
  return tamper(tamper(zip, 'end', 'count', count), 'end', 'countOnDisk', count);
}
