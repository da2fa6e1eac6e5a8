import { describe, expect, it } from 'vitest';
import { locateStorages, readTorchFile } from '../../src/formats/torch/read.js';
import type { TorchTensor } from '../../src/formats/torch/tensor.js';
import { dict, int, pickle, tuple, unicode } from '../helpers/pickle.js';
import { refusalOf } from '../helpers/refusal.js';
import { bytesSource } from '../helpers/source.js';
import { type LegacyParts, legacyFile, storage, tensor } from '../helpers/torch.js';

const FLOATS = Uint8Array.of(0, 0, 128, 63, 0, 0, 0, 64);
const HALVES = Uint8Array.of(0, 60, 0, 64, 0, 66);

/** Two storages: 2 floats, of which a tensor views one, and 3 halves. */
const GOOD: LegacyParts = {
  object: pickle(
    '\x80\x02',
    dict({
      a: tensor(storage('FloatStorage', '11', 2), [1], [1], 1),
      b: tensor(storage('HalfStorage', '12', 3), [3], [1]),
    }),
    '.',
  ),
  keys: ['11', '12'],
  storages: [
    [2, FLOATS],
    [3, HALVES],
  ],
};

function open(parts: Partial<LegacyParts>) {
  return readTorchFile(bytesSource(legacyFile({ ...GOOD, ...parts }), 'a.pt'));
}

/** The bytes of the storages of tensors `a` and `b`. */
async function storagesOf(bytes: Uint8Array): Promise<number[][]> {
  const file = await readTorchFile(bytesSource(bytes, 'a.pt'));
  const tensors = [...(file.value as Map<string, TorchTensor>).values()];
  const records = await locateStorages(
    file,
    tensors.map(({ storage: of }) => of),
  );
  return [...records.values()].map(({ offset, length }) => [...bytes.subarray(offset, offset + length)]);
}

it('control: storages lie one after another, each of the size that its id says', async () => {
  // A reader that took sizes from tensors, or one header for all, would be off from the second storage on.
  expect(await storagesOf(legacyFile(GOOD))).toEqual([[...FLOATS], [...HALVES]]);
});

it('control: storages follow in the order of the list, not of the object', async () => {
  const [first, second] = GOOD.storages as [LegacyParts['storages'][0], LegacyParts['storages'][0]];
  const swapped = legacyFile({ ...GOOD, keys: ['12', '11'], storages: [second, first] });
  expect(await storagesOf(swapped)).toEqual([[...FLOATS], [...HALVES]]);
});

describe('the first pickles', () => {
  it.each([
    [
      'another magic number',
      pickle('\x80\x02\x8a\x0a', [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x1a], '.'),
    ],
    ['a dict, as pickle.dump writes one', pickle('\x80\x02}.')],
  ])('%s is refused', async (_, magic) => {
    expect(await refusalOf(() => open({ magic }))).toMatchObject({ kind: 'bad-file', code: 'legacy-magic' });
  });

  it('protocol 1000 is refused', async () => {
    expect(await refusalOf(() => open({ protocol: pickle('\x80\x02M\xe8\x03.') }))).toMatchObject({
      code: 'legacy-protocol',
      facts: { expected: 1001, found: 1000 },
    });
  });

  it('a byte order that torch ignores gives a warning', async () => {
    const { warnings } = await open({ info: pickle('\x80\x02', dict({ little_endian: '\x89' }), '.') });
    expect(warnings).toMatchObject([{ code: 'legacy-endian' }]);
    expect((await open({})).warnings).toEqual([]);
  });
});

describe('the list of storages', () => {
  it.each([
    ['lacks one', ['11'], GOOD.storages.slice(0, 1), { expected: '12' }],
    ['names one twice', ['11', '12', '11'], GOOD.storages, { found: '11' }],
    ['names one that no tensor uses', ['11', '12', '13'], GOOD.storages, { found: '13' }],
    ['names one by another spelling', ['11', '012'], GOOD.storages, { found: '012' }],
  ])('that %s is refused', async (_, keys, storages, facts) => {
    expect(await refusalOf(() => open({ keys, storages }))).toMatchObject({ code: 'legacy-keys', facts });
  });
});

describe('a storage', () => {
  const locate = async (parts: Partial<LegacyParts>) => {
    const file = await open(parts);
    const tensors = [...(file.value as Map<string, TorchTensor>).values()];
    return locateStorages(
      file,
      tensors.map(({ storage: of }) => of),
    );
  };

  it.each([1, 3, 0, -1, 2 ** 40])('whose header says %i in place of 2 is refused', async (numel) => {
    const storages: LegacyParts['storages'] = [
      [numel, FLOATS],
      [3, HALVES],
    ];
    expect(await refusalOf(() => locate({ storages }))).toMatchObject({
      code: 'legacy-storage-size',
      facts: { storage: '11', expected: 2, found: String(numel) },
    });
  });

  it('that is shorter than its header says moves the next header, which is refused', async () => {
    const storages: LegacyParts['storages'] = [
      [2, FLOATS.subarray(1)],
      [3, new Uint8Array([...HALVES, 0])],
    ];
    expect(await refusalOf(() => locate({ storages }))).toMatchObject({ code: 'legacy-storage-size' });
  });

  it.each([1, 6, 7, 14, 22])('is refused where the file ends %i bytes early', async (missing) => {
    const whole = legacyFile(GOOD);
    const cut = bytesSource(whole.subarray(0, whole.length - missing), 'a.pt');
    expect(await refusalOf(() => readTorchFile(cut))).toMatchObject({
      code: 'legacy-truncated',
      facts: { expected: whole.length, found: whole.length - missing },
    });
  });

  it('is read where bytes follow the last one, with a warning', async () => {
    const bytes = legacyFile({ ...GOOD, storages: [...GOOD.storages, [0, new Uint8Array(92)]] });
    const { warnings } = await readTorchFile(bytesSource(bytes, 'a.pt'));
    expect(warnings).toEqual([
      { code: 'legacy-trailing-bytes', message: '100 bytes follow the last storage of a.pt.' },
    ]);
    expect(await storagesOf(bytes)).toEqual([[...FLOATS], [...HALVES]]);
  });

  it.each([
    ['starts beyond its storage', int(3), int(1)],
    ['ends beyond its storage', int(1), int(2)],
    ['starts before it', int(-1), int(1)],
    ['has no numbers', 'N', 'N'],
  ])('of which a part %s is refused', async (_, offset, size) => {
    const part = storage('FloatStorage', '11', 2, tuple(unicode('1'), offset, size));
    const object = pickle('\x80\x02', dict({ a: tensor(part, [0], [1]) }), '.');
    expect(await refusalOf(() => open({ object }))).toMatchObject({ code: 'legacy-view', facts: { key: '11' } });
  });

  it('of which a part is smaller than a view of it is refused', async () => {
    const part = storage('FloatStorage', '11', 2, tuple(unicode('1'), int(0), int(1)));
    const object = pickle('\x80\x02', dict({ a: tensor(part, [2], [1]) }), '.');
    expect(await refusalOf(() => open({ object }))).toMatchObject({
      code: 'tensor-outside-storage',
      facts: { expected: '8', found: 4 },
    });
  });
});

it('a file that ends inside its pickles is refused, wherever it ends', async () => {
  const pickles = legacyFile({ ...GOOD, storages: [] });
  for (let length = 1; length < pickles.length; length++) {
    const cut = bytesSource(pickles.subarray(0, length), 'a.pt');
    expect((await refusalOf(() => readTorchFile(cut))).code).toBe('pickle-truncated');
  }
});
