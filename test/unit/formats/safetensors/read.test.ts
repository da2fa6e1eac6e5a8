import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DTYPES, type DType } from '../../../../src/base/dtype.js';
import { readSafetensorsHeader } from '../../../../src/formats/safetensors/read.js';
import { layoutSafetensors } from '../../../../src/formats/safetensors/write.js';
import { bytesSource, sparseSource } from '../../../helpers/source.js';

const vector = new Uint8Array(readFileSync(new URL('save-file.safetensors', import.meta.url)));

describe('readSafetensorsHeader', () => {
  it('reads what save_file wrote', async () => {
    const { entries, metadata, dataOffset } = await readSafetensorsHeader(bytesSource(vector));
    expect(metadata).toEqual({ format: 'pt' });
    expect(entries).toHaveLength(40);
    expect(dataOffset + (entries.at(-1)?.end ?? 0)).toBe(vector.length);
    const byName = new Map(entries.map((entry) => [entry.name, entry]));
    expect(byName.get('uint64')).toEqual({ name: 'uint64', dtype: 'U64', shape: [3], begin: 0, end: 24 });
    expect(byName.get('none')).toEqual({ name: 'none', dtype: 'F32', shape: [3, 0], begin: 132, end: 132 });
    expect(byName.get('scalar')).toEqual({ name: 'scalar', dtype: 'F32', shape: [], begin: 132, end: 136 });
    expect(byName.get('__proto__')).toEqual({ name: '__proto__', dtype: 'I8', shape: [1], begin: 205, end: 206 });
    expect(byName.get('\u{1f600}')).toMatchObject({ begin: 219, end: 220 });
    // The int8 tensors of odd names hold their position in the list that was saved.
    expect(vector[dataOffset + 219]).toBe(2);
  });

  it('takes one read for an ordinary header and hands the signal to it', async () => {
    const source = bytesSource(vector);
    const { signal } = new AbortController();
    await readSafetensorsHeader(source, signal);
    expect(source.reads).toEqual([{ offset: 0, length: vector.length, signal }]);
  });

  it('reads a long header whole, and nothing of a large data part', async () => {
    const tensors = Array.from({ length: 2000 }, (_, i) => ({
      name: `layer.${i}.weight`,
      dtype: 'F32' as const,
      shape: [1024, 1024],
    }));
    const { header, byteLength } = layoutSafetensors(tensors, { format: 'pt' });
    const { signal } = new AbortController();
    const source = sparseSource(byteLength, [{ at: 0, bytes: header }]);
    const { entries } = await readSafetensorsHeader(source, signal);
    expect(entries).toHaveLength(2000);
    expect(source.reads).toEqual([
      { offset: 0, length: 65_536, signal },
      { offset: 8, length: header.length - 8, signal },
    ]);
  });

  it('stops when it is cancelled', async () => {
    const signal = AbortSignal.abort();
    await expect(readSafetensorsHeader(bytesSource(vector), signal)).rejects.toBe(signal.reason);
  });

  it('reads back every layout', async () => {
    const tensor = fc.record({
      dtype: fc.constantFrom(...(Object.keys(DTYPES) as DType[])),
      shape: fc.array(fc.nat(9), { maxLength: 4 }),
    });
    const name = fc.string({ unit: 'binary', maxLength: 12 }).filter((text) => text !== '__metadata__');
    const model = fc.uniqueArray(fc.tuple(name, tensor), { selector: ([key]) => key, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(model, fc.dictionary(name, name), async (named, metadata) => {
        const tensors = named.map(([name, rest]) => ({ name, ...rest }));
        const layout = layoutSafetensors(tensors, metadata);
        const source = sparseSource(layout.byteLength, [{ at: 0, bytes: layout.header }]);
        const header = await readSafetensorsHeader(source);
        expect(Object.entries(header.metadata).sort()).toEqual(Object.entries(metadata).sort());
        const expected = layout.order.map((index) => ({ ...tensors[index], at: layout.offsets[index] }));
        const found = header.entries.map(({ name, dtype, shape, begin }) => {
          return { name, dtype, shape, at: header.dataOffset + begin };
        });
        expect(found).toEqual(expected);
      }),
    );
  });
});
