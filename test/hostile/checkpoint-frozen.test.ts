import { describe, expect, test } from 'vitest';
import { inspectSpec, problemsIn } from '../helpers/deepspeed/check.js';
import { type PyMap, PyOrdered, TensorView, tensorOf } from '../helpers/deepspeed/python.js';
import { MODEL, modelOf, small } from '../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../helpers/deepspeed/spec.js';

/** Shares of 3 elements on 3 ranks, the last of them short. */
const FROZEN = [{ name: 'base', shape: [4, 2] }];

/** Changes the fragment of the frozen parameter in the model file of one rank. */
function fragment(onRank: number, change: (tensor: TensorView) => TensorView | undefined): Partial<CheckpointSpec> {
  return {
    frozen: FROZEN,
    editModel(root, rank) {
      if (rank !== onRank) return;
      const map = fragmentsOf(root);
      const tensor = map.get('base');
      if (!(tensor instanceof TensorView)) throw new Error('no fragment');
      const changed = change(tensor);
      if (changed === undefined) map.delete('base');
      else map.set('base', changed);
    },
  };
}

function fragmentsOf(root: PyMap): PyMap {
  const fragments = root.get('frozen_param_fragments');
  if (!(fragments instanceof PyOrdered)) throw new Error('no fragments');
  return fragments.map;
}

const ofInt8 = ({ shape: [length = 0] }: TensorView) => tensorOf('I8', [length], new Uint8Array(length), 'other');
const shareOf = (count: number) => tensorOf('BF16', [count], new Uint8Array(count * 2), 'other');

test.each([2, 3] as const)('fragments as they should be are no problem (stage %i)', async (stage) => {
  expect(await problemsIn(small(stage, { frozen: FROZEN }))).toEqual([]);
});

describe('a share of a frozen parameter at stage 3', () => {
  const problem = (rank: number, found: string) => [
    {
      code: 'frozen-fragment',
      facts: { file: modelOf(rank), tensor: 'base', expected: 'a share of 3 elements, not quantized', found },
    },
  ];

  test.each([
    ['is quantized, and its scale was not saved', 0, ofInt8, 'I8 of shape [3]'],
    ['has another dtype than that of rank 0', 1, ofInt8, 'I8 of shape [3]'],
    ['is longer', 1, () => shareOf(4), 'BF16 of shape [4]'],
    ['is shorter', 2, () => shareOf(2), 'BF16 of shape [2]'],
    ['is not there', 2, () => undefined, 'none'],
    ['has two dimensions', 1, ({ storage }: TensorView) => new TensorView(storage, [3, 1]), 'BF16 of shape [3, 1]'],
    ['repeats one element', 1, ({ storage }: TensorView) => new TensorView(storage, [3], 0, [0]), 'BF16 of shape [3]'],
  ] as const)('%s', async (_, rank, change, found) => {
    expect(await problemsIn(small(3, fragment(rank, change)))).toEqual(problem(rank, found));
  });

  test('may start inside its storage', async () => {
    const shifted = fragment(1, ({ storage, shape }) => {
      const bytes = Uint8Array.from([9, 9, ...storage.bytes, 9, 9]);
      return new TensorView({ ...storage, bytes }, shape, 1);
    });
    expect(await problemsIn(small(3, shifted))).toEqual([]);
  });
});

describe('a frozen parameter at stage 2', () => {
  const problem = (found: string) => [
    { code: 'frozen-fragment', facts: { file: MODEL, tensor: 'base', expected: 'shape [4, 2]', found } },
  ];

  test('has another shape than the list says', async () => {
    expect(
      await problemsIn(
        small(
          2,
          fragment(0, () => shareOf(8)),
        ),
      ),
    ).toEqual(problem('[8]'));
  });

  test('is not there', async () => {
    expect(
      await problemsIn(
        small(
          2,
          fragment(0, () => undefined),
        ),
      ),
    ).toEqual(problem('nothing'));
  });

  test('of int8 is whole, and its scale stands beside it: it is written as it is', async () => {
    const whole = fragment(0, () => tensorOf('I8', [4, 2], new Uint8Array(8).fill(3), 'other'));
    const { problems, tensors } = await inspectSpec(small(2, whole));
    expect(problems).toEqual([]);
    expect(tensors.find(({ name }) => name === 'base')?.stored.dtype).toBe('I8');
  });
});
