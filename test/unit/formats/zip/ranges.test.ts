import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readRanges } from '../../../../src/formats/zip/ranges.js';
import { bytesSource, sparseSource } from '../../../helpers/source.js';

const bytes = Uint8Array.from({ length: 50_000 }, (_, i) => (i * 31) ^ (i >>> 8));

describe('readRanges', () => {
  it('gives each range its own bytes, in the order asked', async () => {
    const range = fc.record({ offset: fc.nat(45_000), length: fc.nat(5000) });
    await fc.assert(
      fc.asyncProperty(fc.array(range, { maxLength: 20 }), async (ranges) => {
        const found = await readRanges(bytesSource(bytes), ranges);
        expect(found).toEqual(ranges.map(({ offset, length }) => bytes.subarray(offset, offset + length)));
      }),
    );
  });

  it('reads over gaps of up to 4 KiB and not over larger ones', async () => {
    const source = bytesSource(bytes);
    await readRanges(source, [
      { offset: 9297, length: 10 },
      { offset: 0, length: 100 },
      { offset: 100 + 4096, length: 1004 },
    ]);
    expect(source.reads.map(({ offset, length }) => [offset, length])).toEqual([
      [0, 5200],
      [9297, 10],
    ]);
  });

  it('keeps merged reads to 1 MiB', async () => {
    const source = sparseSource(10_000_000, []);
    const ranges = Array.from({ length: 2000 }, (_, i) => ({ offset: i * 4096, length: 64 }));
    await readRanges(source, ranges);
    expect(Math.max(...source.reads.map((read) => read.length))).toBeLessThanOrEqual(2 ** 20);
    expect(source.reads.length).toBe(8);
  });
});
