import { describe, expect, test } from 'vitest';
import { expectWhole, problemsIn } from '../helpers/deepspeed/check.js';
import { type Py, type PyMap, PyOrdered, TensorView, tensorOf, torchSize } from '../helpers/deepspeed/python.js';
import { MODEL, modelOf, optimOf, small } from '../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../helpers/deepspeed/spec.js';
import { encodeFloats } from '../helpers/naive-floats.js';

const SLICES = 'single_partition_of_fp32_groups';
const SHARES = 'fp32_flat_groups';

/** Changes one flat tensor of one rank. */
function slice(
  field: string,
  group: number,
  onRank: number,
  change: (tensor: TensorView) => Py,
): Partial<CheckpointSpec> {
  return {
    editOptim(_, state, rank) {
      const list = state.get(field);
      const tensor = Array.isArray(list) ? list[group] : undefined;
      if (!Array.isArray(list) || !(tensor instanceof TensorView)) throw new Error('no flat tensor');
      if (rank === onRank) list[group] = change(tensor);
      // What a rank says that it has stripped would contradict before the elements are counted.
      if (field === SLICES) state.delete('group_paddings');
    },
  };
}

/** The first `count` elements of a flat tensor; bytes of `fill` after its end. */
function resized({ storage, shape: [length = 0] }: TensorView, count: number, fill = 0): TensorView {
  const bytes = new Uint8Array(count * 4).fill(fill);
  bytes.set(storage.bytes.subarray(0, Math.min(count, length) * 4));
  return tensorOf('F32', [count], bytes, 'weights');
}

/** Changes the shape of a parameter in the list of its group, in every model file. */
function shapeOf(group: number, name: string, shape: readonly number[]): Partial<CheckpointSpec> {
  return {
    editModel(root) {
      const list = root.get('param_shapes');
      const shapes = Array.isArray(list) ? list[group] : undefined;
      if (!(shapes instanceof PyOrdered)) throw new Error('no shapes');
      shapes.map.set(name, torchSize(shape));
    },
  };
}

test.each([1, 2, 3] as const)('a checkpoint whose counts agree is converted (stage %i)', async (stage) => {
  await expectWhole(small(stage));
});

describe('groups', () => {
  test.each([
    [2, SLICES],
    [3, SHARES],
  ] as const)('of one rank are fewer than the model lists (stage %i)', async (stage, field) => {
    const spec = small(stage, {
      editOptim(_, state, rank) {
        const list = state.get(field);
        if (rank === 1 && Array.isArray(list)) list.pop();
      },
    });
    const other = stage === 2 ? MODEL : modelOf(0);
    expect(await problemsIn(spec)).toEqual([
      { code: 'group-count', facts: { file: optimOf(1), other, expected: 2, found: 1 } },
    ]);
  });

  test.each([
    [2, MODEL],
    [3, modelOf(0)],
  ] as const)('are there, and the model lists none (stage %i)', async (stage, other) => {
    expect((await problemsIn(small(stage, { editModel: (root) => root.set('param_shapes', []) })))[0]).toEqual({
      code: 'group-count',
      facts: { file: optimOf(0), other, expected: 0, found: 2 },
    });
  });

  test('are more than the model lists', async () => {
    const edit = (root: PyMap) => {
      const list = root.get('param_shapes');
      if (Array.isArray(list)) list.pop();
    };
    expect(await problemsIn(small(2, { editModel: edit }))).toEqual([
      { code: 'group-count', facts: { file: optimOf(0), other: MODEL, expected: 1, found: 2 } },
    ]);
  });
});

describe('elements of stage 1 and 2', () => {
  const count = (group: number, expected: number, found: number) => [
    { code: 'element-count', facts: { file: optimOf(0), group, expected, found } },
  ];

  test('are one fewer', async () => {
    expect(
      await problemsIn(
        small(
          2,
          slice(SLICES, 0, 2, (tensor) => resized(tensor, 2)),
        ),
      ),
    ).toEqual(count(0, 19, 18));
  });

  test('are more than the alignment could add, though zeros', async () => {
    const more = (extra: number) =>
      problemsIn(
        small(
          2,
          slice(SLICES, 0, 2, (tensor) => resized(tensor, 3 + extra)),
        ),
      );
    // Slices of 8, 8 and 3 elements: up to 5 of padding make the partition of the last rank full.
    expect(await more(5)).toEqual([]);
    expect(await more(6)).toEqual([
      { code: 'slice-length', facts: { file: optimOf(2), group: 0, expected: 8, found: 9 } },
    ]);
  });

  test('are fewer by a parameter that the model does not list', async () => {
    const spec = small(2, {
      editModel(root) {
        const list = root.get('param_shapes');
        const shapes = Array.isArray(list) ? list[0] : undefined;
        if (shapes instanceof PyOrdered) shapes.map.delete('norm.weight');
      },
    });
    expect(await problemsIn(spec)).toEqual(count(0, 15, 19));
  });

  test('are less than the alignment too many, and the rest is no padding', async () => {
    const padded = (fill: number) => slice(SLICES, 1, 2, (tensor) => resized(tensor, 5, fill));
    expect(await problemsIn(small(2, padded(0x01)))).toEqual(count(1, 20, 21));
    expect(await problemsIn(small(2, padded(0)))).toEqual([]);
  });

  test('are less than the alignment too many, and the rest is a zero with a sign', async () => {
    const negative = slice(SLICES, 1, 2, (tensor) => {
      const { storage } = resized(tensor, 5);
      storage.bytes.set(encodeFloats('F32', [-0]), 16);
      return tensorOf('F32', [5], storage.bytes, 'weights');
    });
    expect(await problemsIn(small(2, negative))).toEqual(count(1, 20, 21));
  });

  test.each([
    ['the first rank', 0, 7, 1, 7, 8],
    ['a rank in the middle', 1, 7, 1, 8, 7],
    ['a rank in the middle, too long', 1, 9, 1, 8, 9],
  ] as const)('are not cut evenly: %s', async (_, rank, length, odd, expected, found) => {
    expect(
      await problemsIn(
        small(
          2,
          slice(SLICES, 0, rank, (tensor) => resized(tensor, length)),
        ),
      ),
    ).toEqual([{ code: 'slice-length', facts: { file: optimOf(odd), group: 0, expected, found } }]);
  });

  test('of BF16_Optimizer are not those that its padding counts', async () => {
    const run = (paddings: number[]) =>
      problemsIn(
        small(1, {
          bf16Optimizer: true,
          editOptim: (_, state, rank) => void (rank === 2 && state.set('group_paddings', paddings)),
        }),
      );
    expect(await run([5, 4])).toEqual([]);
    expect(await run([4, 4])).toEqual(count(0, 23, 24));
    expect(await run([6, 4])).toEqual(count(0, 25, 24));
  });

  test('lack other padding than their rank says', async () => {
    const run = (onRank: number, paddings: number[], version = '0.17.0') =>
      problemsIn(
        small(2, {
          version,
          editOptim: (_, state, rank) => void (rank === onRank && state.set('group_paddings', paddings)),
        }),
      );
    const problem = (rank: number, expected: number, found: number) => [
      { code: 'group-padding', facts: { file: optimOf(rank), group: 0, expected, found } },
    ];
    // Slices of 8, 8 and 3 elements.
    for (const version of ['0.7.0', '0.16.3', '0.17.0']) {
      expect(await run(2, [5, 4], version)).toEqual([]);
      expect(await run(2, [4, 4], version)).toEqual(problem(2, 5, 4));
      expect(await run(2, [6, 4], version)).toEqual(problem(2, 5, 6));
      expect(await run(1, [5, 0], version)).toEqual(problem(1, 0, 5));
    }
  });

  test('are more than any file could hold, by the shapes', async () => {
    expect(await problemsIn(small(2, shapeOf(0, 'norm.weight', [2 ** 40, 2 ** 40])))).toEqual(
      count(0, 15 + 2 ** 80, 19),
    );
  });

  test('have the shape of another one in the state dict', async () => {
    expect(await problemsIn(small(2, shapeOf(0, 'embed.weight', [3, 5])))).toEqual([
      { code: 'shape-differs', facts: { file: MODEL, tensor: 'embed.weight', expected: '3,5', found: '5,3' } },
    ]);
  });
});

describe('shares of stage 3', () => {
  test.each([
    ['one fewer', 6],
    ['one more', 8],
  ])('are %s', async (_, length) => {
    const edit = slice(SHARES, 0, 1, (tensor) => resized(tensor, length));
    expect(await problemsIn(small(3, edit))).toEqual([
      { code: 'share-count', facts: { file: optimOf(1), group: 0, expected: 7, found: length } },
    ]);
  });

  test('of neighbouring sub-groups do not add up each, though they do together', async () => {
    const spec = small(3, {
      editOptim(_, state) {
        const [first, second] = state.get(SHARES) as TensorView[];
        if (first && second) state.set(SHARES, [resized(first, 8), resized(second, 6)]);
      },
    });
    expect((await problemsIn(spec))[0]).toEqual({
      code: 'share-count',
      facts: { file: optimOf(0), group: 0, expected: 7, found: 8 },
    });
  });

  test('are those of other shapes', async () => {
    expect(await problemsIn(small(3, shapeOf(1, 'head.bias', [7])))).toEqual([
      { code: 'share-count', facts: { file: optimOf(0), group: 1, expected: 8, found: 7 } },
    ]);
  });

  test('are more than any file could hold, by the shapes', async () => {
    const problems = await problemsIn(small(3, shapeOf(1, 'head.bias', [2 ** 53 - 1, 2])));
    expect(problems.map(({ code }) => code)).toEqual(['share-count']);
  });
});

describe('flat tensors', () => {
  const cases = [
    [2, SLICES],
    [3, SHARES],
  ] as const;

  test.each(cases)('of one group have different dtypes (stage %i)', async (stage, field) => {
    const edit = slice(field, 1, 2, ({ shape: [length = 0] }) =>
      tensorOf('BF16', [length], new Uint8Array(length * 2), 'weights'),
    );
    expect(await problemsIn(small(stage, edit))).toEqual([
      { code: 'master-dtype-differs', facts: { file: optimOf(2), group: 1, expected: 'F32', found: 'BF16' } },
    ]);
  });

  test.each(cases)('are no runs of bytes (stage %i)', async (stage, field) => {
    const notFlat = [
      ({ storage, shape: [length = 0] }: TensorView) => new TensorView(storage, [1, length]),
      ({ storage }: TensorView) => new TensorView(storage, [2], 0, [2]),
      ({ storage, shape }: TensorView) => new TensorView(storage, shape, 0, [0]),
      ({ storage }: TensorView) => new TensorView(storage, []),
    ];
    for (const change of notFlat) {
      expect(await problemsIn(small(stage, slice(field, 0, 1, change)))).toEqual([
        { code: 'slice-not-flat', facts: { file: optimOf(1), group: 0 } },
      ]);
    }
  });

  test.each(cases)('may start inside their storage (stage %i)', async (stage, field) => {
    const shifted = slice(field, 0, 1, ({ storage, shape }) => {
      const bytes = Uint8Array.from([...new Uint8Array(12).fill(0x77), ...storage.bytes, 1, 2, 3, 4]);
      return new TensorView({ ...storage, bytes }, shape, 3);
    });
    await expectWhole(small(stage, shifted));
  });
});
