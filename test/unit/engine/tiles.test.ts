import { describe, expect, test } from 'vitest';
import type { TensorEntry } from '../../../src/checkpoints/inventory.js';
import { TILE_BYTES, type Tile, tileAt, tileBytesFor, tilesInTurn, tilesOf } from '../../../src/engine/tiles.js';
import { workOf } from '../../../src/engine/work.js';
import { plan } from '../../../src/plan/make.js';
import type { Plan } from '../../../src/plan/plan.js';
import { inventoryOf, masterOf } from '../../helpers/inventory.js';

const HUGE = { sources: [0, 1].map((i) => ({ path: `rank${i}.pt`, size: 1e12, modified: 1 })) };

function tiles(made: Plan): Tile[] {
  return [...made.files.keys()].flatMap((file) => [...tilesOf(made, file)]);
}

function work(made: Plan) {
  const [tile] = tiles(made);
  if (!tile) throw new Error('the plan has no tile');
  return workOf(made, tile);
}

describe('tileAt', () => {
  const entries = [masterOf('a', 20e6, 0), masterOf('empty', 0, 8e7), masterOf('b', 3, 9e7), masterOf('c', 9e6, 1e8)];

  test.each(['safetensors', 'bin'] as const)('gives the tile of every range of a %s file', (format) => {
    const made = plan(inventoryOf(entries, HUGE), { format });
    for (const tile of tiles(made)) {
      const { file, at, length } = tile;
      expect(tileAt(made, { file, at, length })).toEqual(tile);
    }
  });

  test('cuts parts at both ends of a range', () => {
    const made = plan(inventoryOf(entries, HUGE));
    const [, a, b] = made.files[0]?.parts ?? [];
    if (!a || !b) throw new Error('the plan has no parts');
    expect(tileAt(made, { file: 0, at: b.at - 8, length: 10 }).parts).toEqual([
      { part: a, from: a.length - 8, length: 8, at: 0 },
      { part: b, from: 0, length: 2, at: 8 },
    ]);
  });
});

describe('tilesInTurn', () => {
  const entries = [0, 1, 2, 3].map((i) => masterOf(`w${i}`, 9e6, i * 1e8));
  const made = plan(inventoryOf(entries, HUGE), { maxShardSize: 37e6 });
  const order = (inFlight: number) => [...tilesInTurn(made, inFlight)];

  test('goes file by file where one is written at once', () => {
    expect(order(1)).toEqual(tiles(made));
  });

  test('takes turns among so many files, the next one where one ends', () => {
    const files = order(2).map(({ file }) => file);
    expect(files).toEqual([0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 4]);
  });

  test.each([0, 3, 100])('gives every tile once, those of a file in order (%i)', (inFlight) => {
    for (const file of made.files.keys()) {
      expect(order(inFlight).filter((tile) => tile.file === file)).toEqual([...tilesOf(made, file)]);
    }
    expect(order(inFlight)).toHaveLength(tiles(made).length);
  });
});

describe('tilesOf', () => {
  test('covers every byte of every part once, in order, in tiles of bounded size', () => {
    const made = plan(inventoryOf([masterOf('a', 20e6, 0), masterOf('b', 3, 9e7), masterOf('c', 9e6, 1e8)], HUGE));
    const found = tiles(made);
    let end = 0;
    for (const tile of found) {
      expect(tile.at).toBe(end);
      expect(tile.length).toBeLessThanOrEqual(TILE_BYTES);
      expect(tile.parts.reduce((sum, part) => sum + part.length, 0)).toBe(tile.length);
      end += tile.length;
    }
    expect(end).toBe(made.files[0]?.byteLength);
    expect(found).toHaveLength(Math.ceil(end / TILE_BYTES));
  });

  test('counts what is read, where that is more than what is written', () => {
    const made = plan(inventoryOf([masterOf('a', 20e6, 0)], HUGE), { dtype: 'bf16' });
    const written = tiles(made).map((tile) => tile.parts.filter(({ part }) => part.kind === 'tensor'));
    for (const [part] of written) expect(part?.length).toBeLessThanOrEqual(TILE_BYTES / 2);
    expect(written.flat()).toHaveLength(Math.ceil(20e6 / (TILE_BYTES / 4)));
  });

  test.each(['fp32', 'fp16', 'keep'] as const)(
    'counts what is compared too: all buffers hold one and a half tiles (%s)',
    (dtype) => {
      const entries = [masterOf('a', 20e6, 0, true), masterOf('b', 7, 9e7, true), masterOf('c', 9e6, 1e8, true)];
      const proofs = [
        { check: 'other', dtype: 'F16', pieces: [{ source: 1, offset: 0, length: 40e6, at: 0 }] },
      ] as const;
      const withProof = entries.map((entry, i) => (i === 0 ? { ...entry, proofs } : entry));
      const made = plan(inventoryOf(withProof, HUGE), { dtype });
      let compared = 0;
      for (const tile of tiles(made)) {
        const { inputLength, proofLength, proofJobs, comparisons } = workOf(made, tile);
        const rounded = proofJobs.length > 0 ? proofLength : 0;
        // Small runs are read with what lies between them.
        expect(inputLength + tile.length + proofLength + rounded).toBeLessThanOrEqual(1.5 * TILE_BYTES + 2 ** 20);
        compared += comparisons.reduce((sum, { length }) => sum + length, 0);
      }
      expect(compared).toBe(2 * (20e6 + 7 + 9e6) + 40e6);
    },
  );

  test('makes larger tiles where that is asked for', () => {
    const made = plan(inventoryOf([masterOf('a', 20e6, 0)], HUGE));
    expect([...tilesOf(made, 0, 50e6)].map((tile) => tile.length)).toEqual([
      50e6,
      (made.files[0]?.byteLength ?? 0) - 50e6,
    ]);
  });

  test('never cuts an element', () => {
    const odd: TensorEntry = {
      ...masterOf('odd', 1, 0),
      shape: [1],
      stored: { dtype: 'U8', pieces: [{ source: 0, offset: 0, length: 1, at: 0 }] },
    };
    const made = plan(inventoryOf([masterOf('a', 20e6, 0), odd], HUGE));
    for (const { part, from, length } of tiles(made).flatMap((tile) => tile.parts)) {
      if (part.kind !== 'tensor' || made.tensors[part.tensor]?.to !== 'F32') continue;
      expect([from % 4, length % 4]).toEqual([0, 0]);
    }
  });
});

describe('tileBytesFor', () => {
  /** A plan of one tensor that is cut over so many ranks, in shares of so many bytes. */
  const cutOver = (ranks: number, share: number) => {
    const piece = { over: 0, offset: 0, share, length: ranks * share, at: 0 };
    const entry: TensorEntry = {
      name: 'cut',
      shape: [(ranks * share) / 4],
      origin: 'master',
      stored: { dtype: 'F32', pieces: [piece] },
    };
    const sources = Array.from({ length: ranks }, (_, i) => ({ path: `rank${i}.pt`, size: 1e12, modified: 1 }));
    const partitions = [sources.map((_, source) => ({ source, offset: 0 }))];
    return plan(inventoryOf([entry], { sources, partitions }));
  };

  test('fills the memory of a thread where reads are short', () => {
    expect(tileBytesFor(cutOver(1000, 65_532), 3 * 2 ** 25)).toBe(2 ** 26);
    expect(tileBytesFor(cutOver(1000, 65_536), 3 * 2 ** 25)).toBe(TILE_BYTES);
    expect(tileBytesFor(plan(inventoryOf([masterOf('a', 4, 0)], HUGE)), 3 * 2 ** 25)).toBe(2 ** 26);
  });

  test('is never less than without short reads', () => {
    expect(tileBytesFor(cutOver(1000, 4096), TILE_BYTES)).toBe(TILE_BYTES);
  });

  test('leaves strided tensors to their windows', () => {
    const repeat = [{ count: 1000, from: 8, to: 4 }];
    const entry = {
      ...masterOf('a', 1000, 0),
      stored: { dtype: 'F32', pieces: [{ source: 0, offset: 0, length: 4, at: 0, repeat }] },
    } as const;
    expect(tileBytesFor(plan(inventoryOf([entry], HUGE)), 3 * 2 ** 25)).toBe(TILE_BYTES);
  });
});

describe('workOf', () => {
  test('reads a long run that is not converted straight to its place', () => {
    const { reads, copies, jobs, inputLength } = work(plan(inventoryOf([masterOf('a', 100_000, 64)], HUGE)));
    expect(reads).toMatchObject([{ source: 0, offset: 64, length: 400_000, into: 'output' }]);
    expect([copies.length, jobs.length, inputLength]).toEqual([0, 0, 0]);
  });

  test('reads near short runs at once and copies each to its place', () => {
    const made = plan(inventoryOf([masterOf('b', 4, 64), masterOf('a', 4, 96)], HUGE));
    const { reads, scattered, copies, inputLength } = work(made);
    expect(scattered).toMatchObject([{ source: 0, offset: 64, length: 48 }]);
    expect([reads.length, copies.length, inputLength]).toEqual([0, 0, 0]);
    const start = made.files[0]?.parts[1]?.at ?? 0;
    expect(scattered[0]?.copies.toSorted((x, y) => x.to - y.to)).toEqual([
      { from: 32, into: 'output', to: start, length: 16 },
      { from: 0, into: 'output', to: start + 16, length: 16 },
    ]);
  });

  test('does not read over a wide gap', () => {
    const { scattered } = work(plan(inventoryOf([masterOf('a', 4, 0), masterOf('b', 4, 1e6)], HUGE)));
    expect(scattered.map(({ offset, length }) => [offset, length])).toEqual([
      [0, 16],
      [1e6, 16],
    ]);
  });

  test('reads short runs to the input of a job, and copies those from there that are not converted', () => {
    const options = { dtype: 'fp16', dtypeFor: [{ pattern: 'b', dtype: 'keep' }] } as const;
    const made = plan(inventoryOf([masterOf('a', 4, 64), masterOf('b', 4, 96)], HUGE), options);
    const { reads, scattered, copies, jobs } = work(made);
    expect(reads).toEqual([{ source: 0, offset: 64, length: 48, into: 'input', at: 0 }]);
    expect(scattered).toEqual([]);
    const at = (name: string) => {
      const index = made.tensors.findIndex((tensor) => tensor.name === name);
      return made.files[0]?.parts.find((part) => part.kind === 'tensor' && part.tensor === index)?.at;
    };
    expect(copies).toEqual([{ from: 32, into: 'output', to: at('b'), length: 16 }]);
    expect(jobs.map(({ at, pieces }) => [at, pieces[0]?.input])).toEqual([[at('a'), 0]]);
  });

  test.each([
    [1024, undefined],
    [
      1028,
      [
        [0, 16],
        [1044, 16],
      ],
    ],
  ])('has what is read in a gap of %i bytes checked only where it is small', (gap, checked) => {
    const inventory = inventoryOf([masterOf('a', 4, 0), masterOf('b', 4, 16 + gap)], HUGE);
    for (const options of [{}, { dtype: 'bf16' }] as const) {
      const { reads, scattered } = work(plan(inventory, options));
      const [read, ...others] = [...reads, ...scattered];
      expect([read?.length, others.length]).toEqual([32 + gap, 0]);
      expect(read?.checked?.map(({ offset, length }) => [offset, length])).toEqual(checked);
    }
  });

  test('converts neighbours with the same dtypes in one job, with a slot for each tensor', () => {
    const made = plan(inventoryOf([masterOf('a', 3, 0), masterOf('b', 5, 100)], HUGE), { dtype: 'fp16' });
    const { jobs } = work(made);
    expect(jobs).toMatchObject([{ from: 'F32', to: 'F16', length: 16, tensors: [0, 1] }]);
    expect(jobs[0]?.pieces.map(({ output, count, slot }) => [output, count, slot])).toEqual([
      [0, 3, 0],
      [3, 5, 1],
    ]);
  });

  test('keeps the alignment that elements have in their file', () => {
    const at = (name: string, offset: number) => masterOf(name, 30_000, offset);
    const made = plan(inventoryOf([at('a', 3), at('b', 1_000_000), at('c', 2_000_006)], HUGE), { dtype: 'bf16' });
    for (const read of work(made).reads) expect(read.at % 8).toBe(read.offset % 8);
  });

  test('gathers the shares of all ranks', () => {
    const cut: TensorEntry = {
      name: 'cut',
      shape: [5],
      origin: 'master',
      stored: { dtype: 'F32', pieces: [{ over: 0, offset: 8, share: 12, length: 20, at: 0 }] },
    };
    const { reads, jobs } = work(plan(inventoryOf([cut]), { dtype: 'fp16' }));
    expect(reads.map(({ source, offset, length }) => [source, offset, length])).toEqual([
      [0, 108, 12],
      [1, 208, 8],
    ]);
    expect(jobs[0]?.pieces.map(({ output, count }) => [output, count])).toEqual([
      [0, 3],
      [3, 2],
    ]);
  });
});
