import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { pieceLength } from '../../../../src/base/extent.js';
import { tensorExtents } from '../../../../src/formats/torch/extents.js';
import { TorchStorage, TorchTensor } from '../../../../src/formats/torch/tensor.js';
import { refusalOf } from '../../../helpers/refusal.js';
import { gather } from '../../../helpers/torch.js';

const RECORD = { offset: 1000, length: 96 };

/** A view of 24 floats. */
function view(shape: readonly number[], stride: readonly number[], offset = 0): TorchTensor {
  return new TorchTensor('F32', shape, stride, offset, new TorchStorage('0', 96, 'F32', 'a.pt'), undefined);
}

function extentsOf(shape: readonly number[], stride: readonly number[], offset = 0) {
  return tensorExtents(view(shape, stride, offset), RECORD, 3);
}

const AT = { source: 3, at: 0 };

describe('tensorExtents gives one run', () => {
  it.each([
    ['a contiguous matrix', [4, 6], [6, 1], 0, 1000, 96],
    ['some of its rows', [2, 6], [6, 1], 6, 1024, 48],
    ['a scalar', [], [], 5, 1020, 4],
    ['one element whatever its strides', [1, 1], [77, 99], 2, 1008, 4],
    ['dimensions of one element between others', [1, 4, 1, 6], [5, 6, 0, 1], 0, 1000, 96],
  ])('for %s', (_, shape, stride, offset, at, length) => {
    expect(extentsOf(shape, stride, offset)).toEqual([{ ...AT, offset: at, length }]);
  });
});

describe('tensorExtents gives one run that is repeated', () => {
  it('for every column of a transposed matrix, element by element', () => {
    expect(extentsOf([6, 4], [1, 6])).toEqual([
      {
        ...AT,
        offset: 1000,
        length: 4,
        repeat: [
          { count: 6, from: 4, to: 16 },
          { count: 4, from: 24, to: 4 },
        ],
      },
    ]);
  });

  it('for the rows of a slice of columns', () => {
    expect(extentsOf([4, 3], [6, 1], 1)).toEqual([
      { ...AT, offset: 1004, length: 12, repeat: [{ count: 4, from: 24, to: 12 }] },
    ]);
  });

  it('for inner dimensions that join to one run', () => {
    expect(extentsOf([2, 2, 3], [12, 3, 1])).toEqual([
      { ...AT, offset: 1000, length: 24, repeat: [{ count: 2, from: 48, to: 24 }] },
    ]);
  });

  it('for outer dimensions that join to one loop', () => {
    expect(extentsOf([2, 3, 2], [12, 4, 2])).toEqual([
      { ...AT, offset: 1000, length: 4, repeat: [{ count: 12, from: 8, to: 4 }] },
    ]);
  });

  it('for a row that is broadcast', () => {
    expect(extentsOf([3, 6], [0, 1])).toEqual([
      { ...AT, offset: 1000, length: 24, repeat: [{ count: 3, from: 0, to: 24 }] },
    ]);
  });

  it('for windows that overlap', () => {
    expect(extentsOf([3, 3], [1, 1], 1)).toEqual([
      { ...AT, offset: 1004, length: 12, repeat: [{ count: 3, from: 4, to: 12 }] },
    ]);
  });
});

it.each([
  ['[0]', [0], [1], 24],
  ['[3, 0]', [3, 0], [1, 1], 0],
  ['[0, 2^50]', [0, 2 ** 50], [1, 1], 0],
])('tensorExtents gives nothing for the shape %s', (_, shape, stride, offset) => {
  expect(extentsOf(shape, stride, offset)).toEqual([]);
});

it('tensorExtents gives the elements in row-major order for any strided view', () => {
  const storage = new Uint8Array(96).map((_, i) => i);
  const file = new Uint8Array(1096);
  file.set(storage, 1000);
  const dimension = fc.record({ size: fc.integer({ min: 1, max: 4 }), stride: fc.integer({ min: 0, max: 8 }) });
  fc.assert(
    fc.property(fc.array(dimension, { maxLength: 4 }), fc.nat(23), (dimensions, start) => {
      const last = dimensions.reduce((sum, { size, stride }) => sum + (size - 1) * stride, start);
      fc.pre(last < 24);
      let elements = [start];
      for (const { size, stride } of dimensions) {
        elements = elements.flatMap((element) => Array.from({ length: size }, (_, i) => element + i * stride));
      }
      const shape = dimensions.map(({ size }) => size);
      const stride = dimensions.map((one) => one.stride);
      const extents = extentsOf(shape, stride, start);
      const expected = elements.flatMap((element) => [...storage.subarray(element * 4, element * 4 + 4)]);
      expect([...gather(file, extents)]).toEqual(expected);
      expect(extents.map(pieceLength)).toEqual([elements.length * 4]);
    }),
  );
});

describe('a view that is much larger than its storage', () => {
  it('is refused above 256 MiB and 1,024 times its storage', async () => {
    const { code, facts } = await refusalOf(() => extentsOf([2 ** 40, 24], [0, 1]));
    expect(code).toBe('tensor-expansion');
    expect(facts).toEqual({ file: 'a.pt', storage: '0', limit: 2 ** 28, found: 2 ** 40 * 96 });
  });

  it('is taken at either limit', () => {
    expect(extentsOf([2 ** 26], [0])).toHaveLength(1);
    const megabyte = new TorchStorage('0', 2 ** 20, 'F32', 'a.pt');
    const record = { offset: 0, length: 2 ** 20 };
    const tensor = (rows: number) => new TorchTensor('F32', [rows, 2 ** 18], [0, 1], 0, megabyte, undefined);
    expect(tensorExtents(tensor(1024), record, 0)).toHaveLength(1);
    expect(() => tensorExtents(tensor(1025), record, 0)).toThrow('repeats the 1048576 bytes');
  });
});
