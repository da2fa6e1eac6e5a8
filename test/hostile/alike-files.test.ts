/** Files that look like one that was read before and are not: they give what they give when they are read alone. */
import { describe, expect, test } from 'vitest';
import { isUnshardError } from '../../src/base/errors.js';
import { KnownObjects, locateStorages, readTorchFile } from '../../src/formats/torch/read.js';
import { TorchTensor } from '../../src/formats/torch/tensor.js';
import { dict, int, pickle, unicode } from '../helpers/pickle.js';
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

/** Offset of the CRC-32 of the first record in the directory. */
function centralCrc(file: Uint8Array): number {
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  for (let at = 0; ; at++) if (view.getUint32(at, true) === 0x02014b50) return at + 16;
}
