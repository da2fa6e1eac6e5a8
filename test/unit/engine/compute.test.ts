import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { crc32 } from '../../../src/base/crc32.js';
import { bytesOf, type DType } from '../../../src/base/dtype.js';
import type { Piece } from '../../../src/base/extent.js';
import type { StoredBits, TensorEntry } from '../../../src/checkpoints/inventory.js';
import type { Backend } from '../../../src/engine/backend.js';
import { computeElements, type ReadFloats } from '../../../src/engine/compute.js';
import { run } from '../../../src/engine/run.js';
import { memoryOutput, memoryTree } from '../../../src/io/memory.js';
import { convertBytes } from '../../../src/numeric/convert.js';
import { plan } from '../../../src/plan/make.js';
import type { Compute, PlannedTensor, PlanOptions } from '../../../src/plan/plan.js';
import { rejectionOf } from '../../helpers/errors.js';
import { inventoryOf } from '../../helpers/inventory.js';
import { LORA_CONFIG } from '../../helpers/lora.js';
import { firstDifference } from '../../helpers/pattern.js';

/** Values with fractions, of both signs, none alike. */
function values(count: number, seed: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, (_, i) => Math.sin(i * 1.37 + seed) * 3);
}

interface Matrices {
  readonly rank: number;
  readonly rows: number;
  readonly columns: number;
  readonly transpose: boolean;
  readonly scale: number;
  readonly w: Float32Array;
  readonly a: Float32Array;
  readonly b: Float32Array;
}

/** `W + scale * (B x A)` by its definition, every operation rounded to fp32. */
function naive({ rank, rows, columns, transpose, scale, w, a, b }: Matrices): Float32Array<ArrayBuffer> {
  const merged = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      let sum = 0;
      for (let k = 0; k < rank; k++) {
        const [left, right] = transpose ? [a[k * rows + i], b[j * rank + k]] : [b[i * rank + k], a[k * columns + j]];
        sum = Math.fround(sum + Math.fround((left ?? 0) * (right ?? 0)));
      }
      const added = Math.fround(sum * Math.fround(scale));
      merged[i * columns + j] = Math.fround((w[i * columns + j] ?? 0) + added);
    }
  }
  return merged;
}

function matrices(rows: number, columns: number, rank: number, transpose: boolean): Matrices {
  const [ofA, ofB] = transpose ? [rows, columns] : [columns, rows];
  const scale = 7 / 3;
  return {
    ...{ rank, rows, columns, transpose, scale, w: values(rows * columns, 1) },
    ...{ a: values(rank * ofA, 2), b: values(ofB * rank, 3) },
  };
}

/** A computed tensor whose operands are told apart by their source, and what reads them. */
function tensorOf(made: Matrices): { tensor: PlannedTensor; read: ReadFloats } {
  const operands = [made.w, made.a, made.b];
  const bits = (source: number): StoredBits => ({
    dtype: 'F32',
    pieces: [{ source, offset: 0, length: 4 * (operands[source]?.length ?? 0), at: 0 }],
  });
  const compute: Compute = { kind: 'lora', ...made, a: bits(1), b: bits(2) };
  const shape = [made.rows, made.columns];
  const same = { name: 'w', shape, origin: 'frozen', from: 'F32', to: 'F32', fromCopy: false } as const;
  const read: ReadFloats = async ({ pieces: [piece] }, size, { first, count }) => {
    const operand = operands[(piece as { source: number }).source];
    expect(size).toBe(operand?.length);
    return operand?.slice(first, first + count) ?? new Float32Array();
  };
  return { tensor: { ...same, pieces: bits(0).pieces, compute }, read };
}

const words = (floats: Float32Array) => new Uint32Array(floats.slice().buffer);

describe('computeElements', () => {
  test('gives the bits of the definition, whole and in any range', async () => {
    const dimension = fc.integer({ min: 1, max: 9 });
    const shapes = fc.record({ rows: dimension, columns: dimension, rank: dimension, transpose: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(shapes, fc.nat(80), fc.nat(80), async ({ rows, columns, rank, transpose }, x, y) => {
        const made = matrices(rows, columns, rank, transpose);
        const { tensor, read } = tensorOf(made);
        const expected = naive(made);
        const size = rows * columns;
        const [first, end] = [Math.min(x, y) % size, size - (Math.max(x, y) % size)].toSorted((p, q) => p - q);
        const range = { first: first ?? 0, count: (end ?? 0) - (first ?? 0) };
        const found = await computeElements(tensor, range, read);
        expect(words(found)).toEqual(words(expected.subarray(range.first, range.first + range.count)));
      }),
    );
  });

  test.each([false, true])('reads the right matrix in parts where it is large (turned: %s)', async (transpose) => {
    // 2^21 elements are one part: 40 rows of 70,000 are two.
    const made = matrices(2, 70_000, 40, transpose);
    const { tensor, read } = tensorOf(made);
    const counts: number[] = [];
    const counting: ReadFloats = (bits, size, range) => {
      counts.push(range.count);
      return read(bits, size, range);
    };
    const found = await computeElements(tensor, { first: 60_000, count: 75_000 }, counting);
    expect(
      firstDifference(new Uint8Array(found.buffer), bytesOfFloats(naive(made).subarray(60_000, 135_000), 'F32')),
    ).toBeUndefined();
    expect(Math.max(...counts)).toBeLessThanOrEqual(2 ** 21);
  });

  test('gives the plain NaN for every NaN', async () => {
    const made = matrices(1, 2, 1, false);
    const w = new Float32Array(new Uint32Array([0xffc12345, 0x3f800000]).buffer);
    const { tensor, read } = tensorOf({
      ...made,
      w,
      a: new Float32Array([1, Number.POSITIVE_INFINITY]),
      b: new Float32Array([0]),
    });
    expect([...words(await computeElements(tensor, { first: 0, count: 2 }, read))]).toEqual([0x7fc00000, 0x7fc00000]);
  });
});

/** The bytes of a file that holds operands one after another, at any alignment, and their bits. */
function fileOf(operands: readonly [DType, Uint8Array][]): { bytes: Uint8Array; bits: StoredBits[] } {
  const parts: Uint8Array[] = [new Uint8Array(3)];
  let offset = 3;
  const bits = operands.map(([dtype, data]): StoredBits => {
    const pieces: Piece[] = [{ source: 0, offset, length: data.length, at: 0 }];
    parts.push(data);
    offset += data.length;
    return { dtype, pieces };
  });
  return { bytes: new Uint8Array(Buffer.concat(parts)), bits };
}

const bytesOfFloats = (floats: Float32Array, dtype: 'F32' | 'F16' | 'BF16') =>
  convertBytes(new Uint8Array(floats.slice().buffer), 'F32', dtype);

/** A LoRA run in one file: its inventory and its folder. */
function runOf(made: Matrices, stored: 'F32' | 'F16' | 'BF16') {
  const { bytes, bits } = fileOf([
    [stored, bytesOfFloats(made.w, stored)],
    ['F32', bytesOfFloats(made.a, 'F32')],
    ['F32', bytesOfFloats(made.b, 'F32')],
  ]);
  const { rows, columns, rank, transpose } = made;
  const shapes = transpose
    ? [
        [rank, rows],
        [columns, rank],
      ]
    : [
        [rank, columns],
        [rows, rank],
      ];
  const entry = (name: string, shape: readonly number[] | undefined, i: number): TensorEntry => ({
    ...{ name: `q.${name}`, shape: shape ?? [], origin: i === 0 ? 'frozen' : 'master' },
    stored: bits[i] ?? { dtype: 'F32', pieces: [] },
  });
  const config = { ...LORA_CONFIG, r: rank, lora_alpha: made.scale * rank, fan_in_fan_out: transpose };
  const inventory = inventoryOf(
    [
      entry('base_layer.weight', [rows, columns], 0),
      entry('lora_A.default.weight', shapes[0], 1),
      entry('lora_B.default.weight', shapes[1], 2),
    ],
    {
      sources: [
        { path: 'all.pt', size: bytes.length, modified: 0 },
        { path: 'adapter_config.json', size: 2, modified: 0 },
      ],
      companions: [{ source: 1, name: 'adapter_config.json', text: JSON.stringify(config), adapter: 'default' }],
    },
  );
  return { inventory, files: { 'all.pt': bytes, 'adapter_config.json': new Uint8Array(2) } };
}

/** A converter that must not be asked. */
const REFUSING: Backend = {
  name: 'gpu',
  description: 'none',
  convert: () => Promise.reject(new Error('a float was given to the GPU')),
  close: async () => {},
};

async function merge({ inventory, files }: ReturnType<typeof runOf>, options: PlanOptions = {}, backend = REFUSING) {
  const output = memoryOutput();
  const made = plan(inventory, { output: 'merged', ...options });
  const report = await run(made, { input: memoryTree(files), output, backend });
  const file = made.files.find(({ path }) => path.startsWith('model') || path.startsWith('pytorch'));
  const part = file?.parts.find((candidate) => candidate.kind === 'tensor');
  const bytes = output.files.get(file?.path ?? '')?.subarray(part?.at ?? 0, (part?.at ?? 0) + (part?.length ?? 0));
  return { report, bytes: bytes ?? new Uint8Array() };
}

describe('a merged weight', () => {
  test.each([
    ['F32', false],
    ['BF16', false],
    ['F16', true],
    ['BF16', true],
  ] as const)(
    'of %s (turned: %s) is computed in fp32 and rounded once, in every format and dtype',
    async (stored, transpose) => {
      const made = matrices(5, 7, 3, transpose);
      const w = new Float32Array(convertBytes(bytesOfFloats(made.w, stored), stored, 'F32').slice().buffer);
      const expected = naive({ ...made, w });
      for (const [dtype, target] of [
        ['fp32', 'F32'],
        ['bf16', 'BF16'],
        ['fp16', 'F16'],
        ['keep', stored],
      ] as const) {
        for (const format of ['safetensors', 'bin'] as const) {
          const { bytes, report } = await merge(runOf(made, stored), { dtype, format });
          expect(firstDifference(bytes, bytesOfFloats(expected, target))).toBeUndefined();
          expect(report.tensors).toMatchObject([{ name: 'q.weight', from: stored, to: target, computed: 'lora' }]);
          expect(report.backend).toMatchObject({ name: 'gpu', jobsOnCpu: 0 });
        }
      }
    },
  );

  test('larger than a tile has the same bits', async () => {
    const made = matrices(1201, 1301, 3, false);
    const { bytes, report } = await merge(runOf(made, 'F32'));
    expect(firstDifference(bytes, bytesOfFloats(naive(made), 'F32'))).toBeUndefined();
    expect(report.tensors[0]?.stats?.largest).toBe(
      naive(made).reduce((most, value) => Math.max(most, Math.abs(value)), 0),
    );
  });

  test('beyond fp16 stops the run, or is clamped, or becomes infinite', async () => {
    const made = {
      ...matrices(1, 2, 1, false),
      w: new Float32Array([60_000, 1]),
      a: new Float32Array([6000, 0]),
      b: new Float32Array([1]),
      scale: 1,
    };
    const detail = await rejectionOf(merge(runOf(made, 'F32'), { dtype: 'fp16' }));
    expect(detail).toMatchObject({ code: 'overflow', facts: { tensor: 'q.weight', found: 66_000, count: 1 } });
    const clamped = await merge(runOf(made, 'F32'), { dtype: 'fp16', overflow: 'clamp' });
    expect([...clamped.bytes]).toEqual([0xff, 0x7b, 0x00, 0x3c]);
    const infinite = await merge(runOf(made, 'F32'), { dtype: 'fp16', overflow: 'inf' });
    expect([...infinite.bytes]).toEqual([0x00, 0x7c, 0x00, 0x3c]);
  });

  test('is not written where the bytes of its adapter are damaged', async () => {
    const made = runOf(matrices(5, 7, 3, false), 'BF16');
    const [, a] = made.inventory.tensors;
    const piece = a?.stored.pieces[0] as { offset: number; length: number };
    const crc = crc32(made.files['all.pt'].subarray(piece.offset, piece.offset + piece.length));
    const withCrc = (value: number) => ({
      ...made,
      inventory: { ...made.inventory, crcs: [{ source: 0, offset: piece.offset, length: piece.length, crc32: value }] },
    });
    const { report } = await merge(withCrc(crc));
    expect(report.checks.find(({ id }) => id === 'input-crc32')?.status).toBe('passed');
    expect(await rejectionOf(merge(withCrc(crc ^ 1)))).toMatchObject({ code: 'crc-mismatch' });
  });
});

describe('the mean of copies', () => {
  test('is computed from all of them, in the order of their ranks', async () => {
    const copies = [new Float32Array([2 ** 24, 1, -0]), new Float32Array([1, 2, -0]), new Float32Array([1, 6, -0])];
    const { bytes, bits } = fileOf(copies.map((copy) => ['F32', bytesOfFloats(copy, 'F32')]));
    const [stored = { dtype: 'F32', pieces: [] }] = bits;
    const entry: TensorEntry = { name: 'norm', shape: [3], origin: 'master', stored, meanOf: bits };
    const inventory = inventoryOf([entry], { sources: [{ path: 'all.pt', size: bytes.length, modified: 0 }] });
    const made = { inventory, files: { 'all.pt': bytes, 'adapter_config.json': new Uint8Array() } };
    const { bytes: found, report } = await merge(made, { output: 'model' });
    expect([...new Float32Array(found.slice().buffer)]).toEqual([Math.fround(2 ** 24 / 3), 3, 0]);
    expect(report.tensors).toMatchObject([{ name: 'norm', computed: 'mean' }]);
    expect(report.bytesRead).toBe(3 * 3 * bytesOf('F32'));
  });
});
