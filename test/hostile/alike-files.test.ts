/** Files that look like one that was read before and are not: they give what they give when they are read alone. */
import { describe, expect, test } from 'vitest';
import { isUnshardError } from '../../src/base/errors.js';
import { KnownObjects, locateStorages, readTorchFile } from '../../src/formats/torch/read.js';
import { TorchTensor } from '../../src/formats/torch/tensor.js';
import { call, dict, global, int, pickle, tuple, unicode } from '../helpers/pickle.js';
import { bytesSource } from '../helpers/source.js';
import { storage, tensor, torchZip } from '../helpers/torch.js';

const STORAGES = { 0: new Uint8Array(8), 1: Uint8Array.of(1, 2, 3, 4), 2: new Uint8Array(0) };

function fileOf(root: string, step = 7): Uint8Array<ArrayBuffer> {
  const object = pickle(
    '\x80\x02',
    dict({
      a: tensor(storage('FloatStorage', '0', 2), [2], [1]),
      b: tensor(storage('FloatStorage', '1', 1), [1], [1]),
      c: tensor(storage('BFloat16Storage', '2', 0), [0], [1]),
      step: int(step),
      name: unicode('of all ranks'),
    }),
    '.',
  );
  return torchZip({ object, storages: STORAGES, root });
}

/** True where a file was taken for one that was read before. */
async function isTaken(bytes: Uint8Array, known: KnownObjects): Promise<boolean> {
  return (await readTorchFile(bytesSource(bytes), undefined, known)).ownStorages !== undefined;
}

/** All that reading a file tells: its object, where its tensors lie, its records; or the error. */
async function outcomeOf(bytes: Uint8Array, known?: KnownObjects): Promise<unknown> {
  try {
    const file = await readTorchFile(bytesSource(bytes, 'b.pt'), undefined, known);
    if (file.container !== 'zip' || !(file.value instanceof Map)) return file.container;
    const tensors = [...file.value].flatMap(([, value]) => (value instanceof TorchTensor ? [value.storage] : []));
    const places = await locateStorages(file, tensors);
    return {
      value: [...file.value].map(([name, value]) => [name, value instanceof TorchTensor ? value.shape : value]),
      places: [...places].map(([{ key }, record]) => [key, record]),
      entries: [...file.archive.entries],
      keys: [...file.archive.entries.keys()],
      size: file.archive.entries.size,
      root: file.rootName,
      warnings: file.warnings,
    };
  } catch (error) {
    if (isUnshardError(error)) return error.detail;
    throw error;
  }
}

async function knownOf(...files: readonly Uint8Array[]): Promise<KnownObjects> {
  const known = new KnownObjects();
  for (const bytes of files) await readTorchFile(bytesSource(bytes, 'a.pt'), undefined, known);
  return known;
}

describe('a file like one that was read before', () => {
  test.each([
    ['in a folder of the same name', 'rank_0'],
    ['in a folder of a longer name, so that all places differ', 'a_much_longer_name_that_moves_every_record_1000'],
    ['in a folder of a shorter name', 'r'],
    ['in a folder whose name is not ASCII', 'räng'],
  ])('%s is read as if alone, and parsed no second time', async (_, root) => {
    const [first, bytes] = [fileOf('rank_0'), fileOf(root)];
    const known = await knownOf(first);
    const file = await readTorchFile(bytesSource(bytes), undefined, known);
    expect(file.ownStorages).toBeDefined();
    expect(known.directories.length).toBe(1);
    expect(await outcomeOf(bytes, known)).toEqual(await outcomeOf(bytes));
  });

  test('with another object is parsed', async () => {
    const bytes = fileOf('rank_1', 8);
    const file = await readTorchFile(bytesSource(bytes), undefined, await knownOf(fileOf('rank_0')));
    expect(file.ownStorages).toBeUndefined();
    expect(await outcomeOf(bytes, await knownOf(fileOf('rank_0')))).toEqual(await outcomeOf(bytes));
  });

  test.each(['rank_0', 'rank_11'])('is told from it by any byte that says something else (%s)', async (root) => {
    const bytes = fileOf(root);
    const known = await knownOf(fileOf('rank_0'));
    let refused = 0;
    for (let at = 0; at < bytes.length; at++) {
      for (const flip of [1, 0x80]) {
        const edited = bytes.slice();
        edited[at] = (edited[at] ?? 0) ^ flip;
        const outcome = await outcomeOf(edited, known);
        expect(outcome, `byte ${at}`).toEqual(await outcomeOf(edited));
        if (typeof outcome === 'object' && outcome !== null && 'code' in outcome) refused++;
      }
    }
    expect(refused).toBeGreaterThan(bytes.length / 2);
  });

  test('whose pickle has the recorded CRC-32 of another is not taken for it', async () => {
    const [first, bytes] = [fileOf('rank_0'), fileOf('rank_1', 8)];
    // The directory and the descriptor claim the CRC-32 of the pickle that was read before.
    const crcOf = (file: Uint8Array) => file.slice(centralCrc(file), centralCrc(file) + 4);
    const [old, claimed] = [crcOf(bytes), crcOf(first)];
    for (let at = 0; at + 4 <= bytes.length; at++) {
      if (old.every((byte, i) => bytes[at + i] === byte)) bytes.set(claimed, at);
    }
    expect(await outcomeOf(bytes, await knownOf(first))).toMatchObject({ code: 'zip-crc-mismatch' });
  });
});

describe('a file that differs from one that was read before in the number of its device', () => {
  // One tensor, so that the device is named once, as a pickler does that remembers it.
  const once = (device: string, more: Readonly<Record<string, Uint8Array>> = {}): Uint8Array<ArrayBuffer> => {
    const place = pickle(
      tuple(unicode('storage'), global('torch', 'FloatStorage'), unicode('0'), unicode(device), int(2)),
      'Q',
    );
    const object = pickle('\x80\x02', dict({ a: tensor(place, [2], [1]), ...more }), '.');
    return torchZip({ object, storages: { 0: new Uint8Array(8) }, root: 'archive' });
  };

  test('is parsed no second time, and one with a third number is not parsed at all', async () => {
    const known = await knownOf(once('cuda:0'));
    for (const device of ['cuda:3', 'cuda:7', 'cuda:0', 'cuda:3']) {
      expect(await isTaken(once(device), known)).toBe(true);
      expect(await outcomeOf(once(device), known)).toEqual(await outcomeOf(once(device)));
    }
  });

  test('is taken for it where both digits of the number were seen to say nothing else', async () => {
    const known = await knownOf(once('cuda:10'), once('cuda:11'), once('cuda:20'));
    expect(await isTaken(once('cuda:32'), known)).toBe(true);
    expect(await isTaken(once('cuda:32'), await knownOf(once('cuda:10'), once('cuda:11')))).toBe(false);
  });

  test('is parsed where another letter than a digit differs', async () => {
    expect(await isTaken(once('cudb:0'), await knownOf(once('cuda:0')))).toBe(false);
    const known = await knownOf(once('cuda:0'), once('cuda:1'));
    expect(await isTaken(once('cuda:x'), known)).toBe(false);
  });

  test('is parsed where the digit says something else as well', async () => {
    // `p` remembers the device, `g` fetches it.
    const shared = (device: string): Uint8Array<ArrayBuffer> => {
      const named = pickle(unicode(device), 'q\x05');
      const place = pickle(
        tuple(unicode('storage'), global('torch', 'FloatStorage'), unicode('0'), named, int(2)),
        'Q',
      );
      const object = pickle('\x80\x02', dict({ a: tensor(place, [2], [1]), note: pickle('h\x05') }), '.');
      return torchZip({ object, storages: { 0: new Uint8Array(8) }, root: 'archive' });
    };
    const known = await knownOf(shared('cuda:0'));
    expect(await isTaken(shared('cuda:1'), known)).toBe(false);
    expect(await isTaken(shared('cuda:2'), known)).toBe(false);
    expect(await outcomeOf(shared('cuda:2'), known)).toMatchObject({
      value: [
        ['a', [2]],
        ['note', 'cuda:2'],
      ],
    });
  });

  test.each([
    ['a value', { note: unicode('4') }, { note: unicode('5') }],
    ['a key', { 'layer.4': int(1) }, { 'layer.5': int(1) }],
    ['a number', { note: pickle('F0.4\n') }, { note: pickle('F0.5\n') }],
    ['a byte of a number', { note: int(0x34) }, { note: int(0x35) }],
    ['a name of a class', { note: global('a', 'B4') }, { note: global('a', 'B5') }],
    ['an argument', { note: call('a', 'b', unicode('4')) }, { note: call('a', 'b', unicode('5')) }],
    ['bytes', { note: pickle('C\x014') }, { note: pickle('C\x015') }],
  ])('is parsed where the digit is %s', async (_, first, second) => {
    const known = await knownOf(once('cuda:0', first), once('cuda:1', first));
    expect(await isTaken(once('cuda:0', second), known)).toBe(false);
    // Not to be taken for the first two, but for the one that says the same.
    expect(await isTaken(once('cuda:2', second), known)).toBe(true);
    expect(await outcomeOf(once('cuda:2', second), known)).toEqual(await outcomeOf(once('cuda:2', second)));
  });

  test('is parsed where the digit is an opcode that changes nothing', async () => {
    // After NONE and NONE, `0` takes one away and `2` doubles it; `1` takes all up to a mark.
    const opcode = (code: string) => once('cuda:0', { note: pickle('(', 'NN', code, '1', 'N') });
    const known = await knownOf(opcode('0'));
    const value = [
      ['a', [2]],
      ['note', null],
    ];
    expect(await outcomeOf(opcode('0'))).toMatchObject({ value });
    expect(await outcomeOf(opcode('2'))).toMatchObject({ value });
    expect(await isTaken(opcode('2'), known)).toBe(false);
    expect(await outcomeOf(opcode('1'), known)).toEqual(await outcomeOf(opcode('1')));
  });

  test('is refused where the recorded CRC-32 is that of the other device', async () => {
    const [first, second, third] = [once('cuda:0'), once('cuda:1'), once('cuda:2')];
    const known = await knownOf(first, second);
    const crcOf = (file: Uint8Array) => file.slice(centralCrc(file), centralCrc(file) + 4);
    for (const claimed of [crcOf(first), crcOf(second)]) {
      const edited = third.slice();
      const own = crcOf(third);
      for (let at = 0; at + 4 <= edited.length; at++) {
        if (own.every((byte, i) => third[at + i] === byte)) edited.set(claimed, at);
      }
      expect(await outcomeOf(edited, known)).toMatchObject({ code: 'zip-crc-mismatch' });
    }
  });
});

/** Offset of the CRC-32 of the first record in the directory. */
function centralCrc(file: Uint8Array): number {
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  for (let at = 0; ; at++) if (view.getUint32(at, true) === 0x02014b50) return at + 16;
}
