import { describe, expect, test } from 'vitest';
import { expectWhole, inspectSpec } from '../../../helpers/deepspeed/check.js';
import { expectedOf, toSafetensors } from '../../../helpers/deepspeed/convert.js';
import { type PyMap, TensorView, tensorOf } from '../../../helpers/deepspeed/python.js';
import { GROUPS, small } from '../../../helpers/deepspeed/small.js';
import { type CheckpointSpec, valuesOf } from '../../../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';
import { decodeFloats, encodeFloats } from '../../../helpers/naive-floats.js';
import { sha256 } from '../../../helpers/safetensors.js';

/** Sets a field of the optimizer of a model file. */
function setMasters(root: PyMap, field: string, masters: TensorView[] | TensorView[][]): void {
  const optimizer = root.get('optimizer');
  if (!(optimizer instanceof Map)) throw new Error('no optimizer');
  optimizer.set(field, masters);
}

/** A parameter's 16-bit copy as fp32, which is what there is where its master is not used. */
function copyOf(name: string): string {
  const param = GROUPS.flat().find((candidate) => candidate.name === name);
  if (!param) throw new Error(`no ${name}`);
  const copy = encodeFloats('BF16', decodeFloats('F32', valuesOf(param, 'F32')));
  return sha256(encodeFloats('F32', decodeFloats('BF16', copy)));
}

async function expectCopies(spec: CheckpointSpec): Promise<void> {
  const { warnings, problems, tensors } = await inspectSpec(spec);
  expect(problems).toEqual([]);
  expect(warnings.map(({ code }) => code)).toEqual(['zero0-masters-unnamed']);
  expect(new Set(tensors.map(({ origin }) => origin))).toEqual(new Set(['module']));
  expect((await toSafetensors(writeCheckpoint(spec).files)).tensors['head.bias']?.sha256).toBe(copyOf('head.bias'));
}

describe('masters', () => {
  test.each(['flat', 'shaped'] as const)('have no names and are named by their bits (%s)', async (masters) => {
    const spec = small(0, { masters, ranks: 1 });
    const { layout, warnings, tensors } = await inspectSpec(spec);
    expect({ layout, warnings }).toEqual({ layout: 'deepspeed-zero0', warnings: [] });
    expect(tensors.map(({ origin, copy }) => [origin, copy?.dtype])).toEqual(Array(4).fill(['master', 'BF16']));
    await expectWhole(spec);
  });

  test('are named where torch has rounded a NaN to one of other bits', async () => {
    const group = [
      { name: 'w', shape: [10] },
      { name: 'b', shape: [3] },
    ];
    const bits = [Number.NaN, 1, 2, Number.NaN, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    const spec = small(0, {
      ranks: 1,
      groups: [group],
      editModel(root) {
        const copies = Uint16Array.from(bits, (value) => (Number.isNaN(value) ? 0xffff : value * 2));
        const masters = Uint32Array.from(bits, (value) => (Number.isNaN(value) ? 0x7fc00000 : value * 0x20000 + 5));
        const bytes = (words: Uint16Array | Uint32Array) => new Uint8Array(words.buffer.slice(0));
        const copy = (from: number, to: number) => tensorOf('BF16', [to - from], bytes(copies.slice(from, to)), 'copy');
        root.set('module', new Map(Object.entries({ w: copy(0, 10), b: copy(10, 13) })));
        setMasters(root, 'fp32_groups_flat', [tensorOf('F32', [13], bytes(masters), 'weights')]);
      },
    });
    const { warnings, tensors } = await inspectSpec(spec);
    expect(warnings).toEqual([]);
    expect(tensors.map(({ name, origin }) => [name, origin])).toEqual([
      ['w', 'master'],
      ['b', 'master'],
    ]);
  });

  test('need not be in the order of the state dict from group to group', async () => {
    const [first = [], second = []] = GROUPS;
    await expectWhole(small(0, { groups: [second, first], masters: 'shaped', ranks: 1 }));
    await expectWhole({
      ...small(0, { groups: GROUPS, ranks: 1 }),
      editModel: (root) => {
        const joined = (group: typeof first) => Buffer.concat(group.map((param) => valuesOf(param, 'F32')));
        setMasters(root, 'fp32_groups_flat', [
          tensorOf('F32', [20], Uint8Array.from(joined(second)), 'weights'),
          tensorOf('F32', [19], Uint8Array.from(joined(first)), 'weights'),
        ]);
      },
    });
  });

  test('leave out frozen parameters and buffers of the same size', async () => {
    const frozen = [{ name: 'base', shape: [5, 3] }];
    const buffers = [{ name: 'stat', dtype: 'F32', shape: [4], bytes: encodeFloats('F32', [1, 2, 3, 4]) } as const];
    await expectWhole(small(0, { frozen, buffers, ranks: 1, tied: [['tied', 'embed.weight']] }));
  });
});

describe('without masters that can be named, the state dict is used', () => {
  test('there are none, as bf16 runs up to 0.18.4 left them', async () => {
    const spec = small(0, { masters: 'none', ranks: 1 });
    const written = writeCheckpoint(spec);
    expect((await inspectSpec(spec)).warnings).toEqual([]);
    expect(await toSafetensors(written.files, { dtype: 'keep' })).toEqual(expectedOf(written, 'keep'));
  });

  test('their bits fit no parameter', async () => {
    const other = tensorOf('F32', [19], new Uint8Array(76).fill(0x3f), 'weights');
    const second = tensorOf('F32', [20], new Uint8Array(80).fill(0x3f), 'weights');
    await expectCopies(
      small(0, { ranks: 1, editModel: (root) => setMasters(root, 'fp32_groups_flat', [other, second]) }),
    );
  });

  test('one element is missing', async () => {
    const [group = []] = GROUPS;
    const bytes = Uint8Array.from(Buffer.concat(group.map((param) => valuesOf(param, 'F32'))));
    const short = tensorOf('F32', [18], bytes.slice(0, 72), 'weights');
    await expectCopies(small(0, { ranks: 1, editModel: (root) => setMasters(root, 'fp32_groups_flat', [short]) }));
  });

  test('they are a view that is no run of bytes', async () => {
    const storage = { dtype: 'F32', bytes: new Uint8Array(4), role: 'weights' } as const;
    const view = new TensorView(storage, [39], 0, [0]);
    await expectCopies(small(0, { ranks: 1, editModel: (root) => setMasters(root, 'fp32_groups_flat', [view]) }));
  });

  test('two copies are alike and their masters may be swapped', async () => {
    const masterOf = (values: readonly number[]) => tensorOf('F32', [2], encodeFloats('F32', values), 'weights');
    const near = [1 + 2 ** -20, 2 + 2 ** -20];
    const copy = tensorOf('BF16', [2], encodeFloats('BF16', near), 'copy');
    const groups = [[{ name: 'a', shape: [2] }], [{ name: 'b', shape: [2] }]];
    const spec = (other: readonly number[]) =>
      small(0, {
        groups,
        ranks: 1,
        editModel(root) {
          const alike = { b: tensorOf('BF16', [2], encodeFloats('BF16', other), 'copy'), a: copy };
          root.set('module', new Map(Object.entries(alike)));
          setMasters(root, 'fp32_groups_flat', [masterOf(near), masterOf(other)]);
        },
      });
    const control = await inspectSpec(spec([5, 6]));
    expect(control.tensors.map(({ name, origin }) => [name, origin])).toEqual([
      ['b', 'master'],
      ['a', 'master'],
    ]);
    const swapped = await inspectSpec(spec([1 - 2 ** -20, 2 - 2 ** -20]));
    expect(swapped.warnings.map(({ code }) => code)).toEqual(['zero0-masters-unnamed']);
    expect(swapped.tensors.map(({ origin }) => origin)).toEqual(['module', 'module']);
  });

  test('the optimizer is no dict', async () => {
    const spec = small(0, { ranks: 1, masters: 'none', editModel: (root) => root.set('optimizer', [1, 2]) });
    const { problems, tensors } = await inspectSpec(spec);
    expect(problems).toEqual([]);
    expect(tensors.map(({ origin }) => origin)).toEqual(Array(4).fill('module'));
  });
});
