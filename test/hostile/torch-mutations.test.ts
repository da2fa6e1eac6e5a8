import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isUnshardError } from '../../src/base/errors.js';
import { unpickle } from '../../src/formats/pickle/read.js';
import { tensorExtents } from '../../src/formats/torch/extents.js';
import { locateStorages, readTorchFile } from '../../src/formats/torch/read.js';
import { TorchTensor } from '../../src/formats/torch/tensor.js';
import { bytesSource } from '../helpers/source.js';
import { torchZip } from '../helpers/torch.js';

function vector(name: string): Uint8Array {
  return new Uint8Array(readFileSync(new URL(`../unit/formats/torch/vectors/${name}`, import.meta.url)));
}

/** Opens a file and asks for everything in it. True where that went well, false where it was refused. */
async function read(bytes: Uint8Array): Promise<boolean> {
  try {
    const file = await readTorchFile(bytesSource(bytes));
    const tensors = file.value instanceof Map ? [...file.value.values()].filter((v) => v instanceof TorchTensor) : [];
    const records = await locateStorages(
      file,
      tensors.map(({ storage }) => storage),
    );
    for (const tensor of tensors) {
      const record = records.get(tensor.storage);
      if (!record) throw new Error('a storage was not located');
      for (const { offset, length, repeat = [] } of tensorExtents(tensor, record, 0)) {
        const last = repeat.reduce((end, loop) => end + (loop.count - 1) * loop.from, offset + length);
        expect(offset).toBeGreaterThanOrEqual(record.offset);
        expect(last).toBeLessThanOrEqual(record.offset + record.length);
      }
    }
    return true;
  } catch (error) {
    if (isUnshardError(error)) return false;
    throw error;
  }
}

/** A change of a file: bytes that take the place of others at some point. */
const change = fc.record({ at: fc.nat(), drop: fc.integer({ min: 0, max: 4 }), put: fc.uint8Array({ maxLength: 4 }) });

function changed(bytes: Uint8Array, changes: readonly { at: number; drop: number; put: Uint8Array }[]): Uint8Array {
  return changes.reduce((file, { at, drop, put }) => {
    const place = at % (file.length + 1);
    return new Uint8Array([...file.subarray(0, place), ...put, ...file.subarray(place + drop)]);
  }, bytes);
}

it.each(['shared.pt', 'flips.pt', 'legacy-geometry.pt'])('%s with bytes changed is read or refused', async (name) => {
  const bytes = vector(name);
  expect(await read(bytes)).toBe(true);
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
      await read(changed(bytes, changes));
    }),
    { numRuns: 300 },
  );
});

it('a pickle with bytes changed, under checksums that fit, is read or refused', async () => {
  const source = vector('wrappers.pt');
  const { archive } = (await readTorchFile(bytesSource(source))) as {
    archive?: { entries: ReadonlyMap<string, unknown> };
  };
  expect(archive?.entries.has('wrappers/data.pkl')).toBe(true);
  const start = Buffer.from(source).indexOf('\x80\x02}', 0, 'latin1');
  const { end } = unpickle(source, { file: 'a', start, persistentLoad: () => null });
  const object = source.slice(start, end);
  const storages = Object.fromEntries([12, 8, 8, 16, 8, 8].map((length, key) => [key, new Uint8Array(length)]));
  expect(await read(torchZip({ object, storages }))).toBe(true);
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
      await read(torchZip({ object: changed(object, changes), storages }));
    }),
    { numRuns: 1000 },
  );
});

it('any bytes are a pickle or refused', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      try {
        unpickle(bytes, { file: 'a', persistentLoad: (id) => id });
      } catch (error) {
        if (!isUnshardError(error, 'bad-file')) throw error;
      }
    }),
    { numRuns: 5000 },
  );
});
