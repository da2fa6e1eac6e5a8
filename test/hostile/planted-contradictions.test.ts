/**
 * The contradictions that DeepSpeed's own converter was given and mostly took: in 11 of 24 cases it wrote wrong or
 * incomplete weights and said nothing, in 9 it took files that contradict each other. Here each is refused by its id.
 */

import { describe, expect, test } from 'vitest';
import { isUnshardError } from '../../src/base/errors.js';
import { inspect } from '../../src/checkpoints/inspect.js';
import { run } from '../../src/engine/run.js';
import { memoryOutput, memoryTree } from '../../src/io/memory.js';
import { plan } from '../../src/plan/make.js';
import type { PlanOptions } from '../../src/plan/plan.js';
import { type PyMap, type PyOrdered, PyTuple, type TensorView, tensorOf } from '../helpers/deepspeed/python.js';
import { GROUPS, MODEL, modelOf, optimOf, small } from '../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../helpers/deepspeed/write.js';
import { checkpointFiles } from '../helpers/fixtures.js';
import { encodeFloats } from '../helpers/naive-floats.js';
import { writeSafetensors } from '../helpers/safetensors.js';

type Files = Record<string, Uint8Array>;

/** How a conversion ends: `converted`, or the code that it is refused with. Whatever is refused leaves no output. */
async function outcomeOf(files: Files, options: PlanOptions = {}): Promise<string> {
  const input = memoryTree(files);
  const output = memoryOutput();
  try {
    await run(plan(await inspect(input), { overflow: 'inf', ...options }), { input, output });
    return 'converted';
  } catch (error) {
    if (!isUnshardError(error)) throw error;
    expect(output.files.size).toBe(0);
    return error.detail.code;
  }
}

const outcomeIn = (spec: CheckpointSpec) => outcomeOf(writeCheckpoint(spec).files);

function moved(files: Files, moves: Readonly<Record<string, string>>): Files {
  const contents = Object.entries(moves).map(([to, from]) => [to, files[from] ?? new Uint8Array()]);
  return { ...files, ...Object.fromEntries(contents) };
}

function renamed(files: Files, from: string, to: string): Files {
  return Object.fromEntries(Object.entries(files).map(([path, bytes]) => [path === from ? to : path, bytes]));
}

const SWAP = { [optimOf(0)]: optimOf(1), [optimOf(1)]: optimOf(0) };
const COPY = { [optimOf(1)]: optimOf(0) };

/** DeepSpeed that records no fragments of parameters yet: then only the bits of the copies tell. */
const OLD = { version: '0.7.0' } as const;

/** Changes the first flat group of rank 1, with the right CRC-32. */
function editSlice(stage: 2 | 3, edit: (bytes: Uint8Array) => void, more: Partial<CheckpointSpec> = {}) {
  return small(stage, {
    ...more,
    editOptim(_, state, rank) {
      const groups = state.get(stage === 3 ? 'fp32_flat_groups' : 'single_partition_of_fp32_groups');
      const [view] = (groups ?? []) as TensorView[];
      if (rank === 1 && view) edit(view.storage.bytes);
    },
  });
}

/** Changes the param_shapes of the first group. */
function editShapes(edit: (shapes: PyMap) => void, more: Partial<CheckpointSpec> = {}) {
  return small(2, {
    ...more,
    editModel(root) {
      const [first] = (root.get('param_shapes') ?? []) as PyOrdered[];
      if (first) edit(first.map);
    },
  });
}

function reversed(map: PyMap): void {
  const entries = [...map].reverse();
  map.clear();
  for (const [name, value] of entries) map.set(name, value);
}

test.each([1, 2, 3] as const)('the control: nothing is refused where nothing is planted (stage %i)', async (stage) => {
  expect(await outcomeIn(small(stage))).toBe('converted');
  expect(await outcomeIn(small(stage, OLD))).toBe('converted');
  expect(await outcomeIn(small(stage, { rootNames: 'file' }))).toBe('converted');
});

describe('what gave wrong or missing weights', () => {
  test('two rank files of stage 2 that are swapped', async () => {
    const swapped = (more: Partial<CheckpointSpec>) => outcomeOf(moved(writeCheckpoint(small(2, more)).files, SWAP));
    expect(await swapped({ rootNames: 'file' })).toBe('root-name-differs');
    expect(await swapped({})).toBe('slice-mapping');
    expect(await swapped(OLD)).toBe('master-copy-differs');
  });

  test('a rank file that is a copy of another', async () => {
    const copied = (more: Partial<CheckpointSpec>) => outcomeOf(moved(writeCheckpoint(small(2, more)).files, COPY));
    expect(await copied({ rootNames: 'file' })).toBe('root-name-differs');
    expect(await copied({})).toBe('duplicate-shard');
    expect(await copied({ ...OLD, container: 'legacy' })).toBe('master-copy-differs');
  });

  test('a rank file of another step', async () => {
    const before = (bytes: Uint8Array) => bytes.set(encodeFloats('F32', [0.25, -0.5, 3, 4, 5, 6, 7, 8]));
    const spec = editSlice(2, before);
    expect(await outcomeIn(spec)).toBe('master-copy-differs');
    const stepped: CheckpointSpec = {
      ...spec,
      editOptim(root, state, rank) {
        spec.editOptim?.(root, state, rank);
        const states = (state.get('base_optimizer_state') as PyMap).get('state') as PyMap;
        const step = tensorOf('F32', [], encodeFloats('F32', [3]), 'moments');
        if (rank === 1) (states.get(0) as PyMap).set('step', step);
      },
    };
    expect(await outcomeIn(stepped)).toBe('optimizer-step-differs');
  });

  test('a group that no shard holds', async () => {
    const spec = small(2, {
      editOptim(_, state) {
        state.set(
          'single_partition_of_fp32_groups',
          (state.get('single_partition_of_fp32_groups') as TensorView[]).slice(0, 1),
        );
      },
    });
    expect(await outcomeIn(spec)).toBe('group-count');
  });

  test.each([2, 3] as const)('a bit that flipped in a file (stage %i)', async (stage) => {
    const { files, regions } = writeCheckpoint(small(stage));
    const weights = regions.get(optimOf(1))?.find(({ role }) => role === 'weights');
    const bytes = files[optimOf(1)];
    if (!weights || !bytes) throw new Error('no weights');
    bytes[weights.offset + 3] = (bytes[weights.offset + 3] ?? 0) ^ 0x40;
    expect(await outcomeOf(files)).toBe('crc-mismatch');
  });

  test('a bit that flipped in memory, before the file and its CRC-32 were made', async () => {
    const flip = (bytes: Uint8Array) => {
      bytes[3] = (bytes[3] ?? 0) ^ 0x40;
    };
    expect(await outcomeIn(editSlice(2, flip))).toBe('master-copy-differs');
  });

  test('param_shapes in another order', async () => {
    expect(await outcomeIn(editShapes(reversed))).toBe('slice-mapping');
    expect(await outcomeIn(editShapes(reversed, OLD))).toBe('master-copy-differs');
  });

  test('param_shapes in another order, of parameters that are all alike', async () => {
    const groups = [['a', 'b', 'c'].map((name) => ({ name, shape: [2, 4] }))];
    expect(await outcomeIn(editShapes(reversed, { groups }))).toBe('slice-mapping');
    expect(await outcomeIn(editShapes(reversed, { groups, ...OLD }))).toBe('master-copy-differs');
  });

  test('param_shapes that take the padding for weights', async () => {
    const longer = (shapes: PyMap) => void shapes.set('norm.weight', new PyTuple([5]));
    expect(await outcomeIn(editShapes(longer))).toBe('element-count');
    // An optimizer that saves the padding has elements enough.
    const padded = await outcomeIn(editShapes(longer, { stage: 1, bf16Optimizer: true }));
    expect(padded).toBe('element-count');
    expect(await outcomeIn(editShapes(longer, { version: '0.6.0' }))).not.toBe('converted');
  });

  test('a tied parameter whose owner is nowhere', async () => {
    for (const stage of [2, 3] as const) {
      const tied: [string, string][] = [['tied.weight', 'embed.weight']];
      const editModel = (root: PyMap) => void root.set('shared_params', new Map([['tied.weight', 'gone.weight']]));
      expect(await outcomeIn(small(stage, { tied }))).toBe('converted');
      expect(await outcomeIn(small(stage, { tied, editModel }))).toBe('tied-owner');
    }
  });

  test('a buffer that is listed and not there', async () => {
    const editModel = (root: PyMap) => void root.set('buffer_names', ['running_mean']);
    for (const stage of [2, 3] as const) expect(await outcomeIn(small(stage, { editModel }))).toBe('buffer-absent');
  });

  test('a model file of a second model-parallel rank', async () => {
    const { files } = writeCheckpoint(small(2));
    const second = MODEL.replace('mp_rank_00', 'mp_rank_01');
    expect(await outcomeOf(moved(files, { [second]: MODEL }))).toBe('stale-mp-ranks');
  });

  test('two rank files of stage 3 that are swapped', async () => {
    const swapped = moved(writeCheckpoint(small(3, { rootNames: 'file' })).files, SWAP);
    expect(await outcomeOf(swapped)).toBe('root-name-differs');
  });

  test('two rank files of stage 3 that are swapped and bear no name, with gathered weights beside them', async () => {
    const written = writeCheckpoint(small(3));
    const weights = Object.fromEntries([...written.expected].map(([name, tensor]) => [name, tensor]));
    const beside = { 'model.safetensors': writeSafetensors(weights) };
    expect(await outcomeOf({ ...written.files, ...beside })).toBe('converted');
    expect(await outcomeOf({ ...moved(written.files, SWAP), ...beside })).toBe('master-gathered-differs');
  });

  test('where nothing on disk tells the ranks of stage 3 apart, no check claims that they are proven', async () => {
    const { checks } = await inspect(memoryTree(moved(writeCheckpoint(small(3)).files, SWAP)));
    const status = Object.fromEntries(checks.map(({ id, status }) => [id, status]));
    expect(status).toMatchObject({
      'root-names': 'not-checkable',
      'slice-mappings': 'not-checkable',
      'device-order': 'not-checkable',
    });
  });
});

test('a frozen parameter that the model file holds twice, and not alike', async () => {
  const frozen = [{ name: 'base.weight', shape: [4] }];
  const twice = (values: readonly number[]) =>
    small(2, {
      frozen,
      editModel(root) {
        const fragments = root.get('frozen_param_fragments') as PyOrdered;
        const { storage } = fragments.map.get('base.weight') as TensorView;
        const bytes = values.length > 0 ? encodeFloats('BF16', values) : storage.bytes;
        fragments.map.set('base.weight', tensorOf('BF16', [4], bytes.slice(), 'other'));
      },
    });
  expect(await outcomeIn(twice([]))).toBe('converted');
  expect(await outcomeIn(twice([1, 2, 3, 4]))).toBe('frozen-copy-differs');
});

describe('what was taken without a word', () => {
  test.each([2, 3] as const)('ranks that count differently (stage %i)', async (stage) => {
    const editOptim = (_: PyMap, state: PyMap, rank: number) => {
      if (rank === 1) state.set('partition_count', stage === 3 ? 4 : [4, 4]);
    };
    expect(await outcomeIn(small(stage, { editOptim }))).toBe('partition-count-differs');
  });

  test('ranks of different stages', async () => {
    const editOptim = (_: PyMap, state: PyMap, rank: number) => void (rank === 1 && state.set('zero_stage', 1));
    expect(await outcomeIn(small(2, { editOptim }))).toBe('zero-stage-differs');
  });

  test.each([2, 3] as const)('masters of different dtypes (stage %i)', async (stage) => {
    const key = stage === 3 ? 'fp32_flat_groups' : 'single_partition_of_fp32_groups';
    const editOptim = (_: PyMap, state: PyMap, rank: number) => {
      const views = state.get(key) as TensorView[];
      const halves = views.map(({ shape: [length = 0] }) =>
        tensorOf('F16', [length], new Uint8Array(2 * length), 'weights'),
      );
      if (rank === 1) state.set(key, halves);
    };
    expect(await outcomeIn(small(stage, { editOptim }))).toBe('master-dtype-differs');
  });

  test('a rank that is named 7', async () => {
    const { files } = writeCheckpoint(small(2));
    expect(await outcomeOf(renamed(files, optimOf(1), optimOf(7)))).toBe('missing-optim-rank');
  });

  test('a rank in whose place is one of another model-parallel rank', async () => {
    const { files } = writeCheckpoint(small(2));
    const other = optimOf(1).replace('mp_rank_00', 'mp_rank_01');
    expect(await outcomeOf(renamed(files, optimOf(1), other))).toBe('stale-mp-ranks');
  });

  test('a shard of stage 3 that is longer than the others', async () => {
    const editOptim = (_: PyMap, state: PyMap, rank: number) => {
      const [first, ...others] = state.get('fp32_flat_groups') as TensorView[];
      const length = (first?.shape[0] ?? 0) + 1;
      const longer = tensorOf('F32', [length], new Uint8Array(4 * length), 'weights');
      if (rank === 1) state.set('fp32_flat_groups', [longer, ...others]);
    };
    expect(await outcomeIn(small(3, { editOptim }))).toBe('share-count');
  });

  test('a model file of stage 3 that lists other shapes', async () => {
    const editModel = (root: PyMap, rank: number) => {
      const [first] = root.get('param_shapes') as PyOrdered[];
      if (rank === 1) first?.map.set('norm.weight', new PyTuple([2, 2]));
    };
    expect(await outcomeIn(small(3, { editModel }))).toBe('param-shapes-differs');
  });

  test('a model file of stage 3 that is not there: it is not needed, and that is told', async () => {
    const { [modelOf(1)]: _, ...files } = writeCheckpoint(small(3)).files;
    const { problems, warnings } = await inspect(memoryTree(files));
    expect({ problems, warnings: warnings.map(({ code }) => code) }).toEqual({
      problems: [],
      warnings: ['model-files-missing'],
    });
    const frozen = writeCheckpoint(small(3, { frozen: [{ name: 'base', shape: [4] }] })).files;
    delete frozen[modelOf(1)];
    expect(await outcomeOf(frozen)).toBe('missing-model-rank');
  });
});

describe('what was found', () => {
  test.each([2, 3] as const)('a rank that is missing, or one too many (stage %i)', async (stage) => {
    const { files } = writeCheckpoint(small(stage));
    const { [optimOf(1)]: rank1 = new Uint8Array(), ...others } = files;
    expect(await outcomeOf(others)).toBe('missing-optim-rank');
    expect(await outcomeOf({ ...files, [optimOf(3)]: rank1 })).toBe('stale-ranks');
  });

  test('parameters that need more elements than there are', async () => {
    const groups = GROUPS.map((group) => [...group, { name: `${group[0]?.name}.more`, shape: [7, 7] }]);
    const { files } = writeCheckpoint(small(2));
    const more = writeCheckpoint(small(2, { groups })).files;
    expect(await outcomeOf({ ...files, [MODEL]: more[MODEL] ?? new Uint8Array() })).toBe('element-count');
  });
});

describe('real checkpoints', () => {
  const optim = (rank: number) => `global_step3/bf16_zero_pp_rank_${rank}_mp_rank_00_optim_states.pt`;
  const files = (name: string) => checkpointFiles(name);

  test.each(['llama-tied-zero2-bf16-w3', 'llama-tied-zero3-bf16-w3'])('%s', async (name) => {
    expect(await outcomeOf(files(name))).toBe('converted');
    const swap = { [optim(0)]: optim(2), [optim(2)]: optim(0) };
    expect(await outcomeOf(moved(files(name), swap))).toBe('root-name-differs');
    expect(await outcomeOf(moved(files(name), { [optim(1)]: optim(0) }))).toBe('root-name-differs');
    expect(await outcomeOf(renamed(files(name), optim(1), optim(7)))).toBe('missing-optim-rank');
  });

  test.each<[name: string, one: string, other: string]>([
    ['pipeline-zero1-bf16-pp2-dp2', 'global_step2/layer_01-model_states.pt', 'global_step2/layer_04-model_states.pt'],
    [
      'moe-zero2-bf16-ep2-dp4',
      'global_step2/layer_0_expert_1_mp_rank_00_model_states.pt',
      'global_step2/layer_0_expert_2_mp_rank_00_model_states.pt',
    ],
    [
      'universal-llama-zero3-bf16-w4',
      'global_step3_universal/zero/model.norm.weight/fp32.pt',
      'global_step3_universal/zero/model.norm.weight/exp_avg.pt',
    ],
  ])('%s: files of layers, experts and parameters', async (name, one, other) => {
    for (const dtype of ['fp32', 'bf16'] as const) {
      const outcome = (given: Files) => outcomeOf(given, { dtype });
      expect(await outcome(files(name))).toBe('converted');
      expect(await outcome(moved(files(name), { [one]: other, [other]: one }))).toBe('root-name-differs');
      expect(await outcome(moved(files(name), { [one]: other }))).toBe('root-name-differs');
    }
  });

  test('masters of two parameters of a universal checkpoint that were tensor-parallel', async () => {
    const name = 'universal-llama-autotp2-zero1-bf16';
    const of = (parameter: string) => `global_step3_universal/zero/model.${parameter}.weight/fp32.pt`;
    expect(await outcomeOf(files(name))).toBe('converted');
    const swap = (one: string, other: string) =>
      outcomeOf(moved(files(name), { [of(one)]: of(other), [of(other)]: of(one) }));
    expect(await swap('layers.0.mlp.up_proj', 'norm')).toBe('shape-differs');
    expect(await swap('layers.0.mlp.up_proj', 'layers.0.mlp.gate_proj')).toBe('master-copy-differs');
  });

  test('a layer file too many, with the content of another', async () => {
    const [from, to] = ['global_step2/layer_03-model_states.pt', 'global_step2/layer_09-model_states.pt'];
    const pipeline = files('pipeline-zero1-bf16-pp2-dp2');
    expect(Object.keys(pipeline)).toContain(from);
    expect(Object.keys(pipeline)).not.toContain(to);
    expect(await outcomeOf(moved(pipeline, { [to]: from }))).toBe('root-name-differs');
  });

  test('a shard of another run of the same sizes', async () => {
    const [zero3, hpz] = [files('llama-zero3-bf16-w4'), files('llama-hpz-zero3-bf16-w4')];
    expect(await outcomeOf({ ...zero3, [optim(2)]: hpz[optim(2)] ?? new Uint8Array() })).toBe('ds-config-differs');
  });
});
