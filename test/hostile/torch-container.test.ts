import { zipSync } from 'fflate';
import { describe, expect, it } from 'vitest';
import { locateStorages, readTorchFile } from '../../src/formats/torch/read.js';
import type { TorchTensor } from '../../src/formats/torch/tensor.js';
import { dict, pickle } from '../helpers/pickle.js';
import { refusalOf } from '../helpers/refusal.js';
import { bytesSource } from '../helpers/source.js';
import { storage, tensor, torchZip, zipOf } from '../helpers/torch.js';

const OBJECT = pickle('\x80\x02', dict({ w: tensor(storage('FloatStorage', '0', 2), [2], [1]) }), '.');
const TWO = new Uint8Array(8).fill(7);
const GOOD = { object: OBJECT, storages: { 0: TWO } };

function open(bytes: Uint8Array) {
  return readTorchFile(bytesSource(bytes, 'a.pt'));
}

async function codeOf(bytes: Uint8Array): Promise<string> {
  return (await refusalOf(() => open(bytes))).code;
}

function ascii(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

it('control: the file that every test here changes in one place is read', async () => {
  expect(await open(torchZip(GOOD))).toMatchObject({ rootName: 'archive', warnings: [], uninterpreted: 0 });
});

describe('the folder of the records', () => {
  it('must be there', async () => {
    expect(await codeOf(zipOf([['data.pkl', OBJECT]]))).toBe('torch-root');
  });

  it('must be one', async () => {
    const bytes = zipOf([
      ['a/data.pkl', OBJECT],
      ['a/data/0', TWO],
      ['b/version', ascii('3')],
    ]);
    expect(await refusalOf(() => open(bytes))).toMatchObject({
      code: 'torch-root',
      facts: { expected: 'a', found: 'b' },
    });
  });

  it('must hold the records itself, not in a folder of its own', async () => {
    expect(await refusalOf(() => open(torchZip({ ...GOOD, root: 'a/b' })))).toMatchObject({
      code: 'torch-record-missing',
      facts: { record: 'a/data.pkl' },
    });
  });

  it('may have any name', async () => {
    expect(await open(torchZip({ ...GOOD, root: 'größe 1' }))).toMatchObject({ rootName: 'größe 1' });
  });
});

describe('a record that must be there', () => {
  it.each([
    ['data.pkl', zipOf([['a/version', ascii('3')]])],
    ['version', torchZip({ ...GOOD, records: { byteorder: 'little' } })],
    ['data/0', torchZip({ object: OBJECT })],
  ])('%s is missed', async (record, bytes) => {
    const detail = await refusalOf(() => open(bytes));
    expect(detail.code).toBe('torch-record-missing');
    expect(detail.facts['record']).toMatch(new RegExp(`/${record}$`));
  });

  it('under another case is not taken for it', async () => {
    expect(
      await codeOf(
        zipOf([
          ['a/DATA.PKL', OBJECT],
          ['a/version', ascii('3')],
        ]),
      ),
    ).toBe('torch-record-missing');
  });

  it('is not looked for in an empty zip file', async () => {
    const end = new Uint8Array(22);
    end.set([0x50, 0x4b, 0x05, 0x06]);
    expect(await codeOf(end)).toBe('torch-not-torch');
  });
});

describe('a record with other content', () => {
  it.each(['0', '11', '3x', '', '-3', '3.0', '99999999999', ' 3'])('version %j is refused', async (version) => {
    const bytes = torchZip({ ...GOOD, records: { version, byteorder: 'little' } });
    expect(await refusalOf(() => open(bytes))).toMatchObject({
      code: 'torch-version',
      facts: { expected: '1 to 10', found: JSON.stringify(version) },
    });
  });

  it.each(['1', '10', '3\n'])('version %j is taken', async (version) => {
    await expect(open(torchZip({ ...GOOD, records: { version } }))).resolves.toBeDefined();
  });

  it('byte order big is unsupported, any other is refused', async () => {
    const withOrder = (byteorder: string) => torchZip({ ...GOOD, records: { version: '3', byteorder } });
    expect(await refusalOf(() => open(withOrder('big')))).toMatchObject({
      kind: 'unsupported',
      code: 'torch-big-endian',
    });
    for (const order of ['Little', 'middle', '', 'little\n']) {
      expect(await codeOf(withOrder(order))).toBe('torch-byteorder');
    }
  });

  it('of a megabyte where a word is expected is refused before it is read', async () => {
    const bytes = torchZip({ ...GOOD, records: { version: '3', byteorder: 'x'.repeat(2 ** 20) } });
    expect(await codeOf(bytes)).toBe('zip-record-too-large');
  });

  it('bytes after the pickle are refused', async () => {
    const object = pickle(OBJECT, OBJECT);
    expect(await refusalOf(() => open(torchZip({ ...GOOD, object })))).toMatchObject({
      code: 'pickle-trailing-bytes',
      facts: { found: OBJECT.length },
    });
  });

  it('storages that no tensor uses are reported', async () => {
    const { warnings } = await open(torchZip({ ...GOOD, storages: { 0: TWO, 1: TWO, 2: TWO } }));
    expect(warnings).toEqual([{ code: 'torch-unused-storages', message: 'a.pt holds 2 storages of no tensor.' }]);
  });
});

describe('a program', () => {
  it.each([
    ['TorchScript', { version: '3', 'constants.pkl': '' }],
    ['TorchScript without constants', { version: '3', 'code/__torch__.py': 'x' }],
    ['torch.package', { version: '3', '.data/extern_modules': 'os' }],
  ])('%s is refused by name', async (_, records) => {
    expect(await refusalOf(() => open(torchZip({ ...GOOD, records })))).toMatchObject({
      kind: 'unsupported',
      code: 'torch-program',
    });
  });
});

describe('a compressed file', () => {
  const bytes = zipSync({
    'a/data.pkl': [OBJECT, { level: 9 }],
    'a/data/0': [new Uint8Array(8), { level: 9 }],
    'a/version': [ascii('3'), { level: 0 }],
  });

  it('is opened, but its storages are never read as they are', async () => {
    const file = await open(bytes);
    const { storage: only } = (file.value as Map<string, TorchTensor>).get('w') ?? {};
    if (!only) throw new Error('no tensor');
    expect(await refusalOf(() => locateStorages(file, [only]))).toMatchObject({ kind: 'unsupported' });
  });
});

describe('a file of another kind', () => {
  const tar = new Uint8Array(1024);
  tar.set(ascii('sys_info'));
  tar.set(ascii('ustar'), 257);

  it.each([
    ['no bytes', new Uint8Array(0), 'an empty file'],
    ['zeros', new Uint8Array(4096), 'zeros, not data (a copy or a download that did not finish)'],
    ['a tar file of torch 0.1', tar, 'a tar archive'],
    ['7z', Uint8Array.of(0x37, 0x7a, 0xbc, 0xaf, 0x27, 0x1c, 0, 4), 'a 7z archive'],
    ['gzip', Uint8Array.of(0x1f, 0x8b, 8, 0), 'a gzip file'],
    ['HTML', ascii('<!DOCTYPE html><html>'), 'an HTML page (saved in place of the file)'],
    ['Git LFS', ascii('version https://git-lfs.github.com/spec/v1\n'), expect.stringContaining('Git LFS')],
  ])('%s is refused by name', async (_, bytes, found) => {
    expect(await refusalOf(() => open(bytes))).toMatchObject({
      kind: 'bad-file',
      code: 'torch-foreign-format',
      facts: { found },
    });
  });

  it.each([
    ['text', ascii('hello')],
    ['a torch file behind other bytes', new Uint8Array([1, 2, 3, ...torchZip(GOOD)])],
    ['a pickle of protocol 0', pickle('I1\n.')],
  ])('%s is refused', async (_, bytes) => {
    expect(await codeOf(bytes)).toBe('torch-not-torch');
  });

  it('a zip file that is cut is never taken for anything else', async () => {
    const whole = torchZip(GOOD);
    for (const length of [1, 3, 4, 21, 22, 100, 700, whole.length - 23, whole.length - 1]) {
      const { code } = await refusalOf(() => open(whole.subarray(0, length)));
      expect(code, `${length} bytes`).toMatch(/^zip-/);
    }
  });
});
