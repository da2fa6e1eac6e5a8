import { describe, expect, test } from 'vitest';
import { DTYPES, type DType } from '../../../../src/base/dtype.js';
import { expectWhole, inspectSpec } from '../../../helpers/deepspeed/check.js';
import { expectedOf, toBin, toSafetensors } from '../../../helpers/deepspeed/convert.js';
import { PyOrdered, TensorView, tensorOf } from '../../../helpers/deepspeed/python.js';
import { bufferOf } from '../../../helpers/deepspeed/random-spec.js';
import { small } from '../../../helpers/deepspeed/small.js';
import { type CheckpointSpec, type NamedBuffer, valuesOf } from '../../../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';
import { encodeFloats } from '../../../helpers/naive-floats.js';
import { sha256 } from '../../../helpers/safetensors.js';

const STAGES = [1, 2, 3] as const;

/** The entries of the state dict that a spec is about to write. */
function moduleIn(root: Map<unknown, unknown>): Map<unknown, unknown> {
  const module = root.get('module');
  if (!(module instanceof PyOrdered)) throw new Error('no state dict');
  return module.map;
}

async function originOf(spec: CheckpointSpec, name: string): Promise<string | undefined> {
  return (await inspectSpec(spec)).tensors.find((tensor) => tensor.name === name)?.origin;
}

describe('buffers', () => {
  const ids: NamedBuffer = {
    name: 'ids',
    dtype: 'I64',
    shape: [3],
    bytes: new Uint8Array(new BigInt64Array([2n ** 24n + 1n, -(2n ** 62n) - 1n, 0n]).buffer),
  };
  const counter: NamedBuffer = { name: 'count', dtype: 'I64', shape: [], bytes: new Uint8Array(8).fill(3) };
  const scale: NamedBuffer = { name: 'scale', dtype: 'F32', shape: [], bytes: encodeFloats('F32', [-0]) };
  const odd: NamedBuffer = {
    name: 'odd',
    dtype: 'F32',
    shape: [4],
    bytes: encodeFloats('F32', [Number.NaN, Number.NEGATIVE_INFINITY, 2 ** -149, 1 + 2 ** -8]),
  };
  const ofEveryDtype = (Object.keys(DTYPES) as DType[]).map((dtype) => bufferOf(`of.${dtype}`, dtype, [2, 3], 17));
  const buffers = [ids, counter, scale, odd, ...ofEveryDtype];

  test.each(STAGES)('of every dtype stay what they are, and floats follow the precision (stage %i)', async (stage) => {
    // Rounding of fp64 to 16 bits is for the tests of the converter.
    const rounded = buffers.filter(({ dtype }) => dtype !== 'F64');
    const written = writeCheckpoint(small(stage, { buffers: rounded }));
    expect(await toBin(written.files, { dtype: 'fp16' })).toEqual(expectedOf(written, 'F16'));
    await expectWhole(small(stage, { buffers }));
  });

  test('that are no float have the bytes that were stored', async () => {
    const { tensors } = await toSafetensors(writeCheckpoint(small(3, { buffers: [ids] })).files, { dtype: 'bf16' });
    expect(tensors['ids']).toEqual({ dtype: 'I64', shape: [3], sha256: sha256(ids.bytes) });
  });

  test.each(STAGES)('are told from parameters (stage %i)', async (stage) => {
    expect(await originOf(small(stage, { buffers }), 'ids')).toBe('buffer');
  });

  test('may be transposed views', async () => {
    const values = encodeFloats('F32', [1, 2, 3, 4, 5, 6]);
    const buffer = { name: 'grid', dtype: 'F32', shape: [2, 3], bytes: values } as const;
    const spec = small(3, {
      buffers: [buffer],
      editModel(root) {
        const storage = { dtype: 'F32', bytes: encodeFloats('F32', [1, 4, 2, 5, 3, 6]), role: 'other' } as const;
        moduleIn(root).set('grid', new TensorView(storage, [2, 3], 0, [1, 2]));
      },
    });
    await expectWhole(spec);
  });
});

describe('frozen parameters', () => {
  const frozen = [
    { name: 'base.weight', shape: [7, 3] },
    { name: 'base.bias', shape: [2] },
    { name: 'base.empty', shape: [0, 4] },
  ];

  test.each(STAGES)('are written with the trained ones (stage %i)', async (stage) => {
    await expectWhole(small(stage, { frozen }));
    expect(await originOf(small(stage, { frozen }), 'base.weight')).toBe('frozen');
  });

  test.each(STAGES)('are not there where they were not saved (stage %i)', async (stage) => {
    const written = await expectWhole(small(stage, { frozen, excludeFrozen: true }));
    expect([...written.expected.keys()]).not.toContain('base.weight');
  });

  test.each([1, 2] as const)('are in the state dict before 0.9.1 (stage %i)', async (stage) => {
    await expectWhole(small(stage, { frozen, version: '0.9.0' }));
    expect(await originOf(small(stage, { frozen, version: '0.9.0' }), 'base.weight')).toBe('frozen');
  });

  test('have no values at stage 3 before 0.9.1, and that is told', async () => {
    const spec = small(3, { frozen, version: '0.9.0' });
    const { lost } = await expectWhole(spec);
    const { skipped, warnings } = await inspectSpec(spec);
    expect(lost).toEqual(['base.weight', 'base.bias', 'base.empty']);
    expect(skipped.map(({ name }) => name)).toEqual(lost);
    expect(warnings.map(({ code }) => code)).toEqual(['hollow-parameters']);
  });

  test('may share their memory without being one parameter', async () => {
    const spec = small(2, {
      frozen,
      tied: [['base.bias.view', 'base.bias']],
      editModel(root) {
        const view = tensorOf('BF16', [1], encodeFloats('BF16', [0.5]), 'other');
        moduleIn(root).set('base.bias.view', view);
      },
    });
    const { tensors, aliases } = await toSafetensors(writeCheckpoint(spec).files);
    expect(aliases).toEqual({});
    expect(tensors['base.bias.view']).toEqual({
      dtype: 'F32',
      shape: [1],
      sha256: sha256(encodeFloats('F32', [0.5])),
    });
  });
});

describe('tied parameters', () => {
  const tied = [
    ['lm_head.weight', 'embed.weight'],
    ['decoder.weight', 'embed.weight'],
  ] as const;

  test.each(STAGES)('are written once, with every name (stage %i)', async (stage) => {
    const { aliases } = await expectWhole(small(stage, { tied }));
    expect(aliases).toEqual({ 'lm_head.weight': 'embed.weight', 'decoder.weight': 'embed.weight' });
  });

  test.each([1, 2] as const)('are found by their storage before 0.9.2 (stage %i)', async (stage) => {
    const { aliases } = await expectWhole(small(stage, { tied, version: '0.9.1' }));
    expect(Object.keys(aliases)).toEqual(['lm_head.weight', 'decoder.weight']);
  });

  test('are not recorded at stage 3 before 0.9.2, and that is told', async () => {
    const spec = small(3, { tied, version: '0.9.1' });
    await expectWhole(spec);
    const { aliases, skipped, warnings } = await inspectSpec(spec);
    expect(aliases).toEqual({});
    expect(skipped.map(({ name }) => name)).toEqual(['lm_head.weight', 'decoder.weight']);
    expect(warnings.map(({ code }) => code)).toEqual(['hollow-parameters']);
  });

  test('are those that any file of stage 3 lists', async () => {
    const listedBy = (holder: number | undefined): CheckpointSpec =>
      small(3, {
        tied,
        editModel: (root, rank) => void root.set('shared_params', new Map(rank === holder ? tied : [])),
      });
    for (const holder of [0, 1, 2]) await expectWhole(listedBy(holder));
    expect((await inspectSpec(listedBy(undefined))).aliases).toEqual({});
  });

  test('may have a frozen owner', async () => {
    const frozen = [{ name: 'base.weight', shape: [3, 2] }];
    for (const stage of STAGES) await expectWhole(small(stage, { frozen, tied: [['head', 'base.weight']] }));
  });

  test.each([1, 2] as const)('stand for themselves where the owner was not saved (stage %i)', async (stage) => {
    const base = { name: 'base.weight', shape: [3, 2] };
    const spec = small(stage, { frozen: [base], excludeFrozen: true, tied: [['head', 'base.weight']] });
    const { tensors, aliases } = await toSafetensors(writeCheckpoint(spec).files, { dtype: 'keep' });
    expect(aliases).toEqual({});
    expect(tensors['head']).toEqual({ dtype: 'BF16', shape: [3, 2], sha256: sha256(valuesOf(base, 'BF16')) });
  });

  test('are left out at stage 3 where the owner was not saved, and that is told', async () => {
    const base = { name: 'base.weight', shape: [3, 2] };
    const { aliases, skipped, problems, warnings } = await inspectSpec(
      small(3, { frozen: [base], excludeFrozen: true, tied: [['head', 'base.weight']] }),
    );
    expect({ aliases, problems }).toEqual({ aliases: {}, problems: [] });
    expect(skipped.map(({ name }) => name)).toEqual(['head']);
    expect(warnings.map(({ code }) => code)).toEqual(['hollow-parameters']);
  });

  test.each([1, 2] as const)('are not those without elements, which all have address 0 (stage %i)', async (stage) => {
    const groups = [
      [
        { name: 'a', shape: [0] },
        { name: 'b', shape: [0, 3] },
        { name: 'c', shape: [2] },
      ],
    ];
    const frozen = [{ name: 'd', shape: [2, 0] }];
    expect((await expectWhole(small(stage, { groups, frozen }))).aliases).toEqual({});
  });

  test('with "duplicateTied" every name has its tensor', async () => {
    const { tensors, aliases } = await toSafetensors(writeCheckpoint(small(3, { tied })).files, {
      duplicateTied: true,
    });
    expect(aliases).toEqual({});
    expect(tensors['lm_head.weight']).toEqual(tensors['embed.weight']);
  });
});

describe('the rest of the state dict', () => {
  test.each(STAGES)('is written too: a tensor that is neither parameter nor buffer (stage %i)', async (stage) => {
    const bytes = encodeFloats('F32', [1, 2, 3]);
    const spec = small(stage, {
      editModel: (root) => moduleIn(root).set('absmax', tensorOf('F32', [3], bytes, 'other')),
    });
    const { tensors } = await toSafetensors(writeCheckpoint(spec).files);
    expect(tensors['absmax']).toEqual({ dtype: 'F32', shape: [3], sha256: sha256(bytes) });
  });

  test('is skipped where it is the extra state of a module, and that is told', async () => {
    const spec = small(2, { editModel: (root) => moduleIn(root).set('attn._extra_state', null) });
    expect((await inspectSpec(spec)).skipped.map(({ name }) => name)).toEqual(['attn._extra_state']);
    await expectWhole(spec);
  });

  test('gives the order: tensors are listed as in the state dict', async () => {
    const frozen = [{ name: 'z', shape: [1] }];
    const { tensors } = await inspectSpec(small(2, { roundRobin: true, frozen }));
    expect(tensors.map(({ name }) => name)).toEqual(['embed.weight', 'norm.weight', 'head.weight', 'head.bias', 'z']);
  });
});
