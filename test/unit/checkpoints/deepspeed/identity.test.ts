import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../../src/io/memory.js';
import { inspectSpec, problemsOf } from '../../../helpers/deepspeed/check.js';
import { type PyMap, TensorView } from '../../../helpers/deepspeed/python.js';
import { modelOf, optimOf, small } from '../../../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../../../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';
import { encodeFloats } from '../../../helpers/naive-floats.js';

type Files = Record<string, Uint8Array>;

const at = (files: Files, path: string) => files[path] ?? new Uint8Array();

/** Files of which some have the content of others. */
function moved(files: Files, ...moves: readonly (readonly [to: string, from: string])[]): Files {
  return { ...files, ...Object.fromEntries(moves.map(([to, from]) => [to, at(files, from)])) };
}

async function checkOf(spec: CheckpointSpec, id: string) {
  const { checks } = await inspectSpec(spec);
  return checks.find((check) => check.id === id);
}

describe('the name that a file was saved under', () => {
  test.each([1, 2, 3] as const)('is the one that it bears (stage %i)', async (stage) => {
    expect(await checkOf(small(stage, { rootNames: 'file' }), 'root-names')).toEqual({
      id: 'root-names',
      status: 'passed',
      detail: `Files that record the name that they were saved under: ${stage === 3 ? '6 of 6' : '4 of 4'}. Each bears it.`,
    });
  });

  test.each([
    ['saved to a stream', small(2)],
    ['of the legacy format', small(2, { container: 'legacy' })],
  ])('is not known of files that were %s', async (_, spec) => {
    expect(await checkOf(spec, 'root-names')).toMatchObject({ status: 'not-checkable' });
  });

  test('is not known where it is no name of a shard', async () => {
    const { files } = writeCheckpoint(small(2, { rootNames: 'file' }));
    const { checks, problems } = await inspect(memoryTree(renamedRoots(files, 'model_save_tmp_')));
    expect(problems).toEqual([]);
    expect(checks.find(({ id }) => id === 'root-names')).toMatchObject({ status: 'not-checkable' });
  });

  test.each([2, 3] as const)('tells that two ranks are swapped (stage %i)', async (stage) => {
    const { files } = writeCheckpoint(small(stage, { rootNames: 'file' }));
    const swapped = moved(files, [optimOf(0), optimOf(1)], [optimOf(1), optimOf(0)]);
    const [first, second] = await problemsOf(swapped);
    expect(first).toEqual({
      code: 'root-name-differs',
      facts: {
        file: optimOf(0),
        expected: 'bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt',
        found: 'bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt',
      },
    });
    expect(second?.facts).toMatchObject({ file: optimOf(1) });
    const { checks } = await inspect(memoryTree(swapped));
    expect(checks.find(({ id }) => id === 'root-names')?.status).toBe('failed');
  });

  test('tells that a model file of stage 3 is of another rank', async () => {
    const { files } = writeCheckpoint(small(3, { rootNames: 'file' }));
    expect((await problemsOf(moved(files, [modelOf(2), modelOf(1)]))).map(({ code }) => code)).toEqual([
      'root-name-differs',
    ]);
  });

  test('may have another prefix: that alone is no contradiction', async () => {
    const { files } = writeCheckpoint(small(2, { rootNames: 'file' }));
    const renamed = Object.entries(files).map(([path, bytes]) => [path.replace('bf16_zero_pp', 'zero_pp'), bytes]);
    expect(await problemsOf(Object.fromEntries(renamed))).toEqual([]);
  });
});

/** Files whose records are in a folder of a name of the same length that is no shard's. */
function renamedRoots(files: Files, prefix: string): Files {
  const renamed = Object.entries(files).map(([path, bytes]) => {
    const root = path.slice(path.lastIndexOf('/') + 1).replace('.pt', '');
    const other = (prefix + root).slice(0, root.length);
    const text = Buffer.from(bytes).toString('latin1').replaceAll(`${root}/`, `${other}/`);
    return [path, Uint8Array.from(Buffer.from(text, 'latin1'))] as const;
  });
  return Object.fromEntries(renamed);
}

describe('the content of a file', () => {
  test.each([1, 2, 3] as const)('is different on each rank (stage %i)', async (stage) => {
    expect(await checkOf(small(stage), 'duplicate-shards')).toMatchObject({
      status: 'passed',
      detail: 'The contents of 3 optimizer files are all different.',
    });
  });

  test.each([1, 3] as const)('is not that of another rank (stage %i)', async (stage) => {
    const { files } = writeCheckpoint(small(stage));
    const copied = moved(files, [optimOf(2), optimOf(0)]);
    const problems = await problemsOf(copied);
    expect(problems).toContainEqual({ code: 'duplicate-shard', facts: { file: optimOf(2), other: optimOf(0) } });
  });

  test('may be the same on ranks that hold padding alone', async () => {
    const spec = small(3, { ranks: 6, groups: [[{ name: 'w', shape: [8] }]] });
    const { checks, problems } = await inspectSpec(spec);
    expect(problems).toEqual([]);
    expect(checks.find(({ id }) => id === 'duplicate-shards')?.detail).toContain('4 optimizer files');
    const { files } = writeCheckpoint(spec);
    expect(at(files, optimOf(4))).toEqual(at(files, optimOf(5)));
    const copied = moved(files, [optimOf(1), optimOf(0)]);
    expect((await problemsOf(copied)).map(({ code }) => code)).toEqual(['duplicate-shard']);
  });

  test('may be the same where all weights are alike, as those of norms are before the first step', async () => {
    const fill = (value: number) =>
      small(3, {
        groups: [[{ name: 'norm.weight', shape: [12] }]],
        editOptim(_, state) {
          const [view] = (state.get('fp32_flat_groups') ?? []) as TensorView[];
          view?.storage.bytes.set(encodeFloats('F32', [1, 1, value, 1]));
        },
      });
    expect((await problemsOf(writeCheckpoint(fill(1)).files)).map(({ code }) => code)).toEqual([]);
    expect((await problemsOf(writeCheckpoint(fill(2)).files)).map(({ code }) => code)).toEqual([
      'duplicate-shard',
      'duplicate-shard',
    ]);
  });

  test('cannot be compared where it has no digest, or there is one rank', async () => {
    expect(await checkOf(small(2, { container: 'legacy' }), 'duplicate-shards')).toMatchObject({
      status: 'not-checkable',
    });
    expect(await checkOf(small(2, { ranks: 1 }), 'duplicate-shards')).toMatchObject({ status: 'not-checkable' });
  });

  test('cannot be compared where the digest is of no CRC-32s: it is that of every rank', async () => {
    const { checks, problems } = await inspectSpec(small(2, { crcs: false }));
    expect(problems).toEqual([]);
    expect(checks.find(({ id }) => id === 'duplicate-shards')).toMatchObject({ status: 'not-checkable' });
  });
});

describe('the devices of the ranks', () => {
  /** A run whose ranks were on these devices. */
  const onDevices = (...devices: string[]) =>
    small(2, {
      ranks: devices.length,
      groups: [[{ name: 'w', shape: [devices.length * 4] }]],
      editOptim: (_, state: PyMap, rank) => {
        const [view] = (state.get('single_partition_of_fp32_groups') ?? []) as TensorView[];
        if (!view) throw new Error('no slice');
        const storage = { ...view.storage, location: devices[rank] ?? '' };
        state.set('single_partition_of_fp32_groups', [new TensorView(storage, view.shape)]);
      },
    });

  test.each([
    [['cuda:0', 'cuda:1', 'cuda:2', 'cuda:3'], 'passed'],
    [['cuda:0', 'cuda:1', 'cuda:0', 'cuda:1'], 'passed'],
    [['cuda:0', 'cuda:2', 'cuda:0'], 'passed'],
    [['npu:4', 'npu:5', 'npu:4'], 'passed'],
    [['cuda:1', 'cuda:0', 'cuda:2', 'cuda:3'], 'not-checkable'],
    [['cuda:0', 'cuda:1', 'cuda:1', 'cuda:0'], 'not-checkable'],
    [['cuda:0', 'cuda:0'], 'not-checkable'],
    [['cpu', 'cpu'], 'not-checkable'],
    [['cuda:0'], 'not-checkable'],
  ] as const)('%j: %s', async (devices, status) => {
    const { checks, problems } = await inspectSpec(onDevices(...devices));
    expect(problems).toEqual([]);
    expect(checks.find(({ id }) => id === 'device-order')?.status).toBe(status);
  });

  test('are shown where their order is odd', async () => {
    const check = await checkOf(onDevices('cuda:0', 'cuda:1', 'cuda:1', 'cuda:0'), 'device-order');
    expect(check?.detail).toContain('cuda:0, cuda:1, cuda:1, cuda:0');
  });
});
