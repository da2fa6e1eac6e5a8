import { describe, expect, test } from 'vitest';
import type { ConvertJob } from '../../../../src/engine/backend.js';
import { alignmentOf, type Batch, batchesOf, encodeTable, tableWords } from '../../../../src/engine/gpu/batches.js';
import { WORKGROUP_ELEMENTS } from '../../../../src/engine/gpu/shader.js';
import { jobOf, type Run } from '../../../helpers/piece-jobs.js';

const job = (runs: readonly Run[], from: 'F32' | 'F16' = 'F32') =>
  jobOf(from, from === 'F32' ? 'F16' : 'F32', new Uint8Array(100_000), runs);

test('a job that fits is one batch, over the span of its pieces', () => {
  const found = [
    ...batchesOf(
      job([
        { input: 41, count: 3 },
        { input: 13, count: 2, slot: 1 },
      ]),
      1024,
    ),
  ];
  expect(found).toEqual([
    {
      inputStart: 13,
      inputEnd: 53,
      outputStart: 0,
      elements: 5,
      pieces: [
        { input: 41, output: 0, count: 3, slot: 0 },
        { input: 13, output: 3, count: 2, slot: 1 },
      ],
    },
  ]);
});

test('a piece larger than a buffer is cut between elements', () => {
  const found = [...batchesOf(job([{ input: 3, count: 600 }]), 1026)];
  expect(found.map(({ inputStart, inputEnd, outputStart }) => [inputStart, inputEnd, outputStart])).toEqual([
    [3, 1027, 0],
    [1027, 2051, 256],
    [2051, 2403, 512],
  ]);
});

test('a result larger than a buffer is cut as well', () => {
  const found = [...batchesOf(job([{ input: 0, count: 600 }], 'F16'), 1024)];
  expect(found.map(({ inputStart, elements }) => [inputStart, elements])).toEqual([
    [0, 256],
    [512, 256],
    [1024, 88],
  ]);
});

test('pieces too far apart for one buffer go in two batches', () => {
  const found = [
    ...batchesOf(
      job([
        { input: 0, count: 1 },
        { input: 1020, count: 1 },
        { input: 1024, count: 1 },
      ]),
      1024,
    ),
  ];
  expect(found.map(({ inputStart, inputEnd }) => [inputStart, inputEnd])).toEqual([
    [0, 1024],
    [1024, 1028],
  ]);
});

test('a piece before the others widens the span only as far as it fits', () => {
  const apart = [
    ...batchesOf(
      job([
        { input: 1024, count: 1 },
        { input: 0, count: 1 },
      ]),
      1024,
    ),
  ];
  expect(apart.map(({ inputStart, inputEnd }) => [inputStart, inputEnd])).toEqual([
    [1024, 1028],
    [0, 4],
  ]);
  const together = [
    ...batchesOf(
      job([
        { input: 1020, count: 1 },
        { input: 0, count: 1 },
      ]),
      1024,
    ),
  ];
  expect(together.map(({ inputStart, inputEnd }) => [inputStart, inputEnd])).toEqual([[0, 1024]]);
});

test('empty pieces are left out, and a job of none has no batch', () => {
  const [batch] = batchesOf(
    job([
      { input: 0, count: 0 },
      { input: 4, count: 1 },
      { input: 9, count: 0 },
    ]),
    1024,
  );
  expect(batch?.pieces).toEqual([{ input: 4, output: 0, count: 1, slot: 0 }]);
  expect([...batchesOf(job([{ input: 0, count: 0 }]), 1024)]).toEqual([]);
});

describe('whatever the pieces', () => {
  const runs = Array.from(
    { length: 400 },
    (_, i): Run => ({ input: (i * 7919) % 90_000, count: (i * 31) % 700, slot: i % 5 }),
  );

  test.each([1024, 1030, 4096, 65_536])('batches of %i bytes cover the output once and stay in bounds', (maxBytes) => {
    const whole = job(runs);
    const batches = [...batchesOf(whole, maxBytes)];
    expect(batches.length).toBeGreaterThan(1);
    let next = 0;
    for (const batch of batches) {
      expect(batch.outputStart).toBe(next);
      expect(batch.inputEnd - batch.inputStart).toBeLessThanOrEqual(maxBytes);
      expect(batch.elements * 2).toBeLessThanOrEqual(maxBytes);
      expect(4 * tableWords(batch)).toBeLessThanOrEqual(maxBytes);
      for (const { input, count } of batch.pieces) {
        expect(input).toBeGreaterThanOrEqual(batch.inputStart);
        expect(input + count * 4).toBeLessThanOrEqual(batch.inputEnd);
      }
      next += batch.elements;
    }
    expect(elementsOf(batches.flatMap(({ pieces }) => pieces))).toEqual(elementsOf(whole.pieces));
  });
});

test('the table holds counts, id, pieces relative to the batch, and the end', () => {
  const batch: Batch = {
    inputStart: 100,
    inputEnd: 140,
    outputStart: 7,
    elements: 6,
    pieces: [
      { input: 121, output: 7, count: 4, slot: 3 },
      { input: 100, output: 11, count: 2, slot: 0 },
    ],
  };
  const table = new Uint32Array(tableWords(batch)).fill(0xffffffff);
  encodeTable(batch, 77, table);
  expect([...table]).toEqual([6, 2, 77, 0, 21, 0, 3, 0, 4, 0, 0, 6, 0]);
});

describe('octets of elements', () => {
  const alignment = (runs: readonly Run[]) => [...batchesOf(job(runs), 4096)].map((batch) => alignmentOf(batch, 4));

  test('of one piece are aligned wherever it lies', () => {
    expect(alignment([{ input: 3, count: 20 }])).toEqual([16]);
  });

  test('are aligned as the worst piece is, counted from the first element of the output', () => {
    const first = { input: 0, count: 3 };
    expect(alignment([first, { input: 12 + 32, count: 20 }])).toEqual([16]);
    expect(alignment([first, { input: 16 + 32, count: 20 }])).toEqual([4]);
    expect(alignment([first, { input: 16 + 32, count: 20 }, { input: 201, count: 4 }])).toEqual([1]);
  });

  test('of every batch are aligned for themselves', () => {
    expect(
      alignment([
        { input: 1, count: 1024 },
        { input: 5001, count: 1024 },
        { input: 2, count: 1 },
      ]),
    ).toEqual([16, 16, 16]);
  });
});

test('the largest buffers need no more workgroups than every device takes', () => {
  // A buffer holds 1 GiB, of 16-bit elements that are 2^29.
  expect(Math.ceil(2 ** 29 / WORKGROUP_ELEMENTS)).toBeLessThanOrEqual(65_535);
});

/** For each element of the output, where it comes from and whose it is. */
function elementsOf(pieces: ConvertJob['pieces']): string[] {
  return pieces.flatMap(({ input, output, count, slot }) =>
    Array.from({ length: count }, (_, i) => `${output + i}: ${input + 4 * i} of ${slot}`),
  );
}
