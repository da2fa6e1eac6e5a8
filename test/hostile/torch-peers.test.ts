/**
 * Bugs that other readers of torch files had, each of which gave wrong weights or refused honest files. The numbers are
 * issues of github.com/tracel-ai/burn; advisories are named as such.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { tensorExtents } from '../../src/formats/torch/extents.js';
import { locateStorages, readTorchFile } from '../../src/formats/torch/read.js';
import type { TorchTensor } from '../../src/formats/torch/tensor.js';
import { CENTRAL, LOCAL } from '../../src/formats/zip/layout.js';
import { dict, pickle } from '../helpers/pickle.js';
import { refusalOf } from '../helpers/refusal.js';
import { bytesSource } from '../helpers/source.js';
import { gather, legacyFile, storage, tensor, torchZip } from '../helpers/torch.js';

const VALUES = new Uint8Array(Float32Array.of(0, 1, 2, 3, 4, 5).buffer);

function zipWith(w: Uint8Array): Uint8Array<ArrayBuffer> {
  return torchZip({ object: pickle('\x80\x02', dict({ w }), '.'), storages: { 0: VALUES } });
}

async function extentsOf(bytes: Uint8Array, name = 'w') {
  const file = await readTorchFile(bytesSource(bytes, 'a.pt'));
  const found = (file.value as Map<string, TorchTensor>).get(name);
  if (!found) throw new Error('no tensor');
  const record = (await locateStorages(file, [found.storage])).get(found.storage);
  if (!record) throw new Error('no record');
  return { record, extents: tensorExtents(found, record, 0) };
}

async function floatsOf(bytes: Uint8Array): Promise<number[]> {
  const { extents } = await extentsOf(bytes);
  return [...new Float32Array(gather(bytes, extents).buffer)];
}

it('5383: a transposed tensor is gathered by its strides, not read in storage order', async () => {
  expect(await floatsOf(zipWith(tensor(storage('FloatStorage', '0', 6), [3, 2], [1, 3])))).toEqual([0, 3, 1, 4, 2, 5]);
});

describe('5412: bytes that are not there are an error, never zeros', () => {
  it('in a zip file that is cut inside its storage', async () => {
    const bytes = zipWith(tensor(storage('FloatStorage', '0', 6), [6], [1]));
    const { record } = await extentsOf(bytes);
    const cut = bytes.subarray(0, record.offset + 10);
    expect(await refusalOf(() => readTorchFile(bytesSource(cut)))).toMatchObject({ code: 'zip-truncated' });
  });

  it('in a legacy file that is cut inside its storage', async () => {
    const object = pickle('\x80\x02', dict({ w: tensor(storage('FloatStorage', '0', 6), [6], [1]) }), '.');
    const bytes = legacyFile({ object, keys: ['0'], storages: [[6, VALUES.subarray(0, 20)]] });
    expect(await refusalOf(() => readTorchFile(bytesSource(bytes)))).toMatchObject({ code: 'legacy-truncated' });
  });
});

it('5506: a view that repeats one element 2^40 times costs nothing and is refused', async () => {
  const bytes = zipWith(tensor(storage('FloatStorage', '0', 6), [2 ** 20, 2 ** 20], [0, 0]));
  expect(await refusalOf(() => extentsOf(bytes))).toMatchObject({ code: 'tensor-expansion' });
});

it('4896: a legacy storage is as long as its id says, not as long as a tensor of it', async () => {
  const object = pickle(
    '\x80\x02',
    dict({
      part: tensor(storage('FloatStorage', '3', 6), [1], [1]),
      w: tensor(storage('FloatStorage', '4', 6), [6], [1]),
    }),
    '.',
  );
  const bytes = legacyFile({
    object,
    keys: ['3', '4'],
    storages: [
      [6, new Uint8Array(24).fill(9)],
      [6, VALUES],
    ],
  });
  expect(await floatsOf(bytes)).toEqual([0, 1, 2, 3, 4, 5]);
});

describe('5711 and 5712: checksums', () => {
  const bytes = () => zipWith(tensor(storage('FloatStorage', '0', 6), [6], [1]));

  it('of the pickle are verified', async () => {
    const damaged = bytes();
    // A digit of the storage class: still a pickle of the same length.
    const at = Buffer.from(damaged).indexOf('w', 64);
    damaged[at] = 'v'.charCodeAt(0);
    expect(await refusalOf(() => readTorchFile(bytesSource(damaged)))).toMatchObject({ code: 'zip-crc-mismatch' });
  });

  it('of storages are handed on to whoever reads them', async () => {
    const { record } = await extentsOf(bytes());
    // zlib.crc32(struct.pack('<6f', 0, 1, 2, 3, 4, 5))
    expect(record.crc32).toBe(0x91e79017);
  });

  it('that are 0 everywhere were not written, which is said and no error', async () => {
    const unchecked = bytes();
    const view = new DataView(unchecked.buffer);
    for (let at = 0; at < unchecked.length - 4; at++) {
      const signature = view.getUint32(at, true);
      if (signature === LOCAL.signature) view.setUint32(at + LOCAL.crc32, 0, true);
      if (signature === CENTRAL.signature) view.setUint32(at + CENTRAL.crc32, 0, true);
      if (signature === 0x08074b50) view.setUint32(at + 4, 0, true);
    }
    const { record } = await extentsOf(unchecked);
    expect(record).not.toHaveProperty('crc32');
    const { warnings } = await readTorchFile(bytesSource(unchecked));
    expect(warnings).toMatchObject([{ code: 'zip-no-crcs' }]);
  });
});

it.each(['objects-protocol4.pt', 'objects-protocol5.pt'])(
  '5593: a pickle of another protocol is read: %s',
  async (name) => {
    const bytes = new Uint8Array(readFileSync(new URL(`../unit/formats/torch/vectors/${name}`, import.meta.url)));
    const { extents } = await extentsOf(bytes, 'tensor');
    expect([...new Float32Array(gather(bytes, extents).buffer)]).toEqual([0, 1]);
  },
);

describe('CVE-2026-24747: a pickle cannot write into a tensor', () => {
  it.each([
    ['SETITEM', 'K\x00K\x01s'],
    ['SETITEMS', '(K\x00K\x01u'],
    ['APPEND', 'K\x00a'],
    ['BUILD', '}b'],
  ])('with %s', async (_, opcodes) => {
    const w = pickle(tensor(storage('FloatStorage', '0', 6), [6], [1]), opcodes);
    expect(await refusalOf(() => readTorchFile(bytesSource(zipWith(w))))).toMatchObject({ code: 'pickle-wrong-type' });
  });

  it('or claim more elements than its record has', async () => {
    const w = tensor(storage('FloatStorage', '0', 7), [7], [1]);
    expect(await refusalOf(() => readTorchFile(bytesSource(zipWith(w))))).toMatchObject({ code: 'torch-storage-size' });
  });
});
