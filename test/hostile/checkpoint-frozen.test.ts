import { describe, expect, test } from 'vitest';
import { inspect } from '../../src/checkpoints/inspect.js';
import { memoryTree } from '../../src/io/memory.js';
import { plan } from '../../src/plan/make.js';
import type { PlanOptions } from '../../src/plan/plan.js';
import { inspectSpec, problemsIn, without } from '../helpers/deepspeed/check.js';
import { expectedOf, toSafetensors } from '../helpers/deepspeed/convert.js';
import { withoutTensors } from '../helpers/deepspeed/lost.js';
import { type PyMap, PyOrdered, TensorView, tensorOf } from '../helpers/deepspeed/python.js';
import { bufferOf } from '../helpers/deepspeed/random-spec.js';
import { MODEL, modelOf, small } from '../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../helpers/deepspeed/write.js';
import { detailOf } from '../helpers/errors.js';

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

describe('what is wrong with frozen parameters alone', () => {
  const tied = [['base.alias', 'base']] as const;
  const cases: readonly (readonly [string, string, () => Record<string, Uint8Array>])[] = [
    ['a share at stage 3 that is quantized', 'frozen-fragment', () => filesOf(3, fragment(1, ofInt8))],
    [
      'a share at stage 3 that is not there',
      'frozen-fragment',
      () =>
        filesOf(
          3,
          fragment(2, () => undefined),
        ),
    ],
    [
      'a parameter at stage 2 that is not there',
      'frozen-fragment',
      () =>
        filesOf(
          2,
          fragment(0, () => undefined),
        ),
    ],
    [
      'a model file at stage 3 that is missing',
      'missing-model-rank',
      () => without(filesOf(3, { frozen: FROZEN }), modelOf(1)),
    ],
    ['that of rank 0', 'missing-model-rank', () => without(filesOf(3, { frozen: FROZEN }), modelOf(0))],
  ];

  function filesOf(stage: 2 | 3, more: Partial<CheckpointSpec>): Record<string, Uint8Array> {
    return writeCheckpoint(small(stage, { ...more, tied, buffers: [bufferOf('steps', 'I64', [2], 3)] })).files;
  }

  test.each(cases)('%s stops a run that would write them, and no other', async (_, code, files) => {
    const inventory = await inspect(memoryTree(files()));
    expect(inventory.problems).toMatchObject([{ code, concerns: 'frozen' }]);
    const refused: readonly PlanOptions[] = [
      {},
      { dtype: 'bf16' },
      { include: ['base', 'head.*'] },
      { exclude: ['head.*'] },
    ];
    for (const options of refused) expect(detailOf(() => plan(inventory, options))).toMatchObject({ code });
    const written = writeCheckpoint(small(3));
    const asked: readonly PlanOptions[] = [
      { trainableOnly: true },
      { exclude: ['base*', 'steps'] },
      { include: ['head.*', 'embed.*', 'norm.*'] },
    ];
    for (const options of asked)
      expect(await toSafetensors(files(), options)).toEqual({ ...expectedOf(written, 'F32'), aliases: {} });
    const made = plan(inventory, { excludeFrozen: true });
    expect(made.tensors.map(({ name }) => name).sort()).toEqual([...written.expected.keys(), 'steps'].sort());
    expect(made.skipped).toContainEqual({ name: 'base', reason: 'frozen parameter, left out as asked' });
  });

  test.each(cases)('%s: a partial recovery skips what it concerns', async (_, _code, files) => {
    const { problems, skipped } = await inspect(memoryTree(files()), { partial: true });
    expect(problems).toEqual([]);
    expect(skipped.map(({ name }) => name)).toContain('base');
    const written = writeCheckpoint(small(3, { buffers: [bufferOf('steps', 'I64', [2], 3)] }));
    expect(await toSafetensors(files(), {}, { partial: true })).toEqual(expectedOf(written, 'F32'));
  });

  test('frozen parameters that a missing model file holds no part of can be written', async () => {
    const spec = small(3, {
      frozen: [
        { name: 'base', shape: [2] },
        { name: 'wide', shape: [7] },
      ],
    });
    const written = writeCheckpoint(spec);
    const files = without(written.files, modelOf(2));
    const inventory = await inspect(memoryTree(files));
    expect(detailOf(() => plan(inventory))).toMatchObject({ code: 'missing-model-rank' });
    const expected = expectedOf(withoutTensors(written, new Set(['wide'])), 'F32');
    expect(await toSafetensors(files, { exclude: ['wide'] })).toEqual(expected);
    expect(await toSafetensors(files, {}, { partial: true })).toEqual(expected);
  });
});

test('the adapter of a LoRA run needs no frozen parameter of the base, and merging it does', async () => {
  const layer = 'base_model.model.proj';
  const lora = [
    { name: `${layer}.lora_A.default.weight`, shape: [2, 4] },
    { name: `${layer}.lora_B.default.weight`, shape: [6, 2] },
  ];
  const frozen = [{ name: `${layer}.base_layer.weight`, shape: [6, 4] }];
  const spec = small(3, { groups: [lora], frozen });
  const files = without(writeCheckpoint(spec).files, modelOf(1));
  const config = new TextEncoder().encode(JSON.stringify({ peft_type: 'LORA', r: 2, lora_alpha: 2 }));
  const inventory = await inspect(memoryTree({ ...files, 'adapter_config.json': config }));
  expect(inventory.problems).toMatchObject([{ code: 'missing-model-rank', concerns: 'frozen' }]);
  expect(plan(inventory, { output: 'adapter' }).tensors).toHaveLength(2);
  expect(detailOf(() => plan(inventory, { output: 'merged' }))).toMatchObject({ code: 'missing-model-rank' });
});
