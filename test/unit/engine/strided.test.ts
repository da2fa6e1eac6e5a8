import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Extent, Repeat } from '../../../src/base/extent.js';
import { addressOf, releaseBytes, reserveBytes } from '../../../src/base/kernel-memory.js';
import type { StridedRead } from '../../../src/engine/reads.js';
import { readStrided } from '../../../src/engine/strided.js';

/** What one read served. */
interface Served {
  readonly offset: number;
  readonly length: number;
}

/** A file in which every byte tells where it lies, and what was read and checked of it. */
function fileOf() {
  const reads: Served[] = [];
  const audited: Served[] = [];
  const byteAt = (offset: number) => Math.imul(offset, 0x9e3779b1) >>> 24;
  return {
    byteAt,
    reads,
    audited,
    reader: {
      async read(_: number, offset: number, into: Uint8Array) {
        reads.push({ offset, length: into.length });
        for (let i = 0; i < into.length; i++) into[i] = byteAt(offset + i);
      },
      audit(_: number, offset: number, bytes: Uint8Array) {
        audited.push({ offset, length: bytes.length });
      },
    },
  };
}

/** Where a small reservation lands: as near to the start as what is still reserved allows. */
function kernelMemoryLeft(): number | undefined {
  const bytes = reserveBytes(64);
  releaseBytes(bytes);
  return addressOf(bytes);
}

/** Every run of an extent, one by one. */
function* runsOf({ offset, at, repeat = [] }: Extent): Generator<{ offset: number; at: number }> {
  const [loop, ...rest] = repeat;
  if (!loop) {
    yield { offset, at };
    return;
  }
  for (let turn = 0; turn < loop.count; turn++) {
    yield* runsOf({ source: 0, length: 0, offset: offset + turn * loop.from, at: at + turn * loop.to, repeat: rest });
  }
}

/** Bytes `[start, end)` of the tensor, run by run; what no run covers is 0x55. */
function expectedOf(extent: Extent, start: number, end: number, byteAt: (offset: number) => number): Uint8Array {
  const bytes = new Uint8Array(end - start).fill(0x55);
  for (const run of runsOf(extent)) {
    for (let i = 0; i < extent.length; i++) {
      const place = run.at + i;
      if (place >= start && place < end) bytes[place - start] = byteAt(run.offset + i);
    }
  }
  return bytes;
}

async function filled(extent: Extent, start: number, end: number) {
  const file = fileOf();
  const target = new Uint8Array(end - start).fill(0x55);
  const read: StridedRead = { extent, start, end, into: 'output', at: 0 };
  await readStrided([read], () => target, file.reader);
  return { ...file, target };
}

/** A matrix of `rows` by `columns` elements whose columns follow each other in the file. */
function transposed(rows: number, columns: number, size: number): Extent {
  const repeat = [
    { count: rows, from: size, to: columns * size },
    { count: columns, from: rows * size, to: size },
  ];
  return { source: 0, offset: 64, length: size, at: 0, repeat };
}

describe('a strided extent', () => {
  test.each([1, 2, 4, 8])('of a transposed matrix gives every range of it, elements of %i bytes', async (size) => {
    const extent = transposed(37, 53, size);
    for (const [first, last] of [
      [0, 37 * 53],
      [1, 2],
      [50, 60],
      [700, 1961],
      [0, 53],
      [53, 106],
    ] as const) {
      const { target, byteAt } = await filled(extent, first * size, last * size);
      expect(target).toEqual(expectedOf(extent, first * size, last * size, byteAt));
    }
  });

  test('gives what its runs give one by one, whatever its loops', async () => {
    const loop = fc.record({ count: fc.integer({ min: 1, max: 6 }), gap: fc.integer({ min: 0, max: 3 }) });
    const shape = fc.record({
      size: fc.constantFrom(1, 2, 4, 8),
      run: fc.integer({ min: 1, max: 5 }),
      loops: fc.array(loop, { minLength: 1, maxLength: 4 }),
      order: fc.array(fc.nat(), { minLength: 4, maxLength: 4 }),
      cut: fc.tuple(fc.nat(), fc.nat()),
    });
    await fc.assert(
      fc.asyncProperty(shape, async ({ size, run, loops, order, cut }) => {
        // Loops cover the tensor from the inside out, and the source in any order of them.
        const length = run * size;
        let to = length;
        const inTensor = loops.map(({ count }) => {
          const step = to;
          to *= count;
          return step;
        });
        let from = length;
        const inSource = new Map<number, number>();
        for (const i of [...loops.keys()].toSorted((a, b) => (order[a] ?? 0) - (order[b] ?? 0))) {
          const { count = 1, gap = 0 } = loops[i] ?? {};
          from += gap * size;
          inSource.set(i, from);
          from *= count;
        }
        const repeat = loops
          .map(({ count }, i): Repeat => ({ count, from: inSource.get(i) ?? 0, to: inTensor[i] ?? 0 }))
          .toReversed();
        const extent = { source: 0, offset: 24, length, at: 0, repeat };
        const [a, b] = cut.map((place) => (place % (to / size + 1)) * size);
        const [start, end] = [Math.min(a ?? 0, b ?? 0), Math.max(a ?? 0, b ?? 0)];
        const { target, byteAt } = await filled(extent, start, end);
        expect(target).toEqual(expectedOf(extent, start, end, byteAt));
      }),
    );
  });

  test('of rows that lie one after another is read in large pieces, which are checked', async () => {
    // The share of one of eight ranks: every row of 128 bytes is an eighth of a row of the tensor.
    const extent = { source: 0, offset: 0, length: 128, at: 256, repeat: [{ count: 65_536, from: 128, to: 1024 }] };
    const { reads, audited, target, byteAt } = await filled(extent, 0, 65_536 * 1024);
    expect(reads.length).toBe(2);
    expect(audited.toSorted((a, b) => a.offset - b.offset)).toEqual([
      { offset: 0, length: 2 ** 22 },
      { offset: 2 ** 22, length: 2 ** 22 },
    ]);
    for (const row of [0, 1, 32_767, 32_768, 65_535]) {
      const bytes = target.subarray(row * 1024, (row + 1) * 1024);
      expect([bytes[255], bytes[256], bytes[383], bytes[384]]).toEqual([
        0x55,
        byteAt(row * 128),
        byteAt(row * 128 + 127),
        0x55,
      ]);
    }
  });

  test.each([false, true])(
    'is read into the memory of the kernels, which is given back (reading fails: %s)',
    async (fails) => {
      const before = kernelMemoryLeft();
      const extent = { source: 0, offset: 0, length: 128, at: 0, repeat: [{ count: 2 ** 17, from: 128, to: 256 }] };
      const reads: (number | undefined)[] = [];
      const reader = {
        async read(_: number, _offset: number, into: Uint8Array) {
          reads.push(addressOf(into));
          await Promise.resolve();
          if (fails && reads.length > 1) throw new Error('no disk');
        },
        audit() {},
      };
      const read = { extent, start: 0, end: 2 ** 25, into: 'output', at: 0 } as const;
      const done = readStrided([read], () => new Uint8Array(2 ** 25), reader);
      if (fails) await expect(done).rejects.toThrow('no disk');
      else await done;
      expect(reads).not.toContain(undefined);
      // Two lanes, and no more, whatever the number of windows.
      expect(new Set(reads).size).toBe(2);
      await new Promise((resolve) => setTimeout(resolve));
      expect(kernelMemoryLeft()).toBe(before);
    },
  );

  test('whose runs lie far apart is read run by run, and nothing between them', async () => {
    const extent = { source: 0, offset: 0, length: 512, at: 0, repeat: [{ count: 20, from: 2 ** 20, to: 512 }] };
    const { reads, target, byteAt } = await filled(extent, 0, 20 * 512);
    expect(reads.length).toBe(20);
    expect(reads.every(({ length }) => length === 512)).toBe(true);
    expect(target[512 * 19]).toBe(byteAt(19 * 2 ** 20));
  });

  test('of a wide transposed matrix reads of each column what the range needs', async () => {
    // Rows of 16 elements; a tile of 4,096 rows needs 16 KiB of each column of 4 MiB.
    const extent = transposed(2 ** 20, 16, 4);
    const { reads, target, byteAt } = await filled(extent, 0, 4096 * 64);
    expect(reads.length).toBe(16);
    expect(reads.reduce((sum, { length }) => sum + length, 0)).toBe(4096 * 64);
    const element = (row: number, column: number) => target.subarray((row * 16 + column) * 4)[0];
    expect(element(0, 1)).toBe(byteAt(64 + 2 ** 22));
    expect(element(4095, 15)).toBe(byteAt(64 + 15 * 2 ** 22 + 4095 * 4));
  });
});
