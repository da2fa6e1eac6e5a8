import { describe, expect, test } from 'vitest';
import { inspect } from '../../src/checkpoints/inspect.js';
import { memoryTree } from '../../src/io/memory.js';
import { plan } from '../../src/plan/make.js';
import { problemsIn, problemsOf, without } from '../helpers/deepspeed/check.js';
import { PyRaw } from '../helpers/deepspeed/python.js';
import { MODEL, modelOf, optimOf, small } from '../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../helpers/deepspeed/write.js';
import { detailOf, rejectionOf } from '../helpers/errors.js';
import { pickle } from '../helpers/pickle.js';
import { recordingTree } from '../helpers/recording-tree.js';

const FOLDER = 'global_step7';
const STAGES = [1, 2, 3] as const;
const FROZEN = [{ name: 'base', shape: [9] }];

const filesOf = (stage: CheckpointSpec['stage'], more: Partial<CheckpointSpec> = {}) =>
  writeCheckpoint(small(stage, more)).files;

/** Files with one of them under another name. */
function renamed(files: Readonly<Record<string, Uint8Array>>, from: string, to: string): Record<string, Uint8Array> {
  return Object.fromEntries(Object.entries(files).map(([path, bytes]) => [path === from ? to : path, bytes]));
}

function optimName(rank: number): string {
  return optimOf(rank).slice(FOLDER.length + 1);
}

/** One file. */
function only(files: Readonly<Record<string, Uint8Array>>, path: string, as = path): Record<string, Uint8Array> {
  return { [as]: files[path] ?? new Uint8Array() };
}

test.each(STAGES)('a whole checkpoint has no problem (stage %i)', async (stage) => {
  expect(await problemsIn(small(stage, { frozen: FROZEN }))).toEqual([]);
});

describe('a missing optimizer file', () => {
  for (const stage of STAGES) {
    test.each([0, 1, 2])(`of rank %i is a problem (stage ${stage})`, async (rank) => {
      expect(await problemsOf(without(filesOf(stage), optimOf(rank)))).toEqual([
        { code: 'missing-optim-rank', facts: { file: FOLDER, expected: 3, found: 2, missing: String(rank) } },
      ]);
    });
  }

  test('several are named together, and the plan refuses', async () => {
    const files = without(filesOf(2), optimOf(0), optimOf(2));
    const inventory = await inspect(memoryTree(files));
    expect(detailOf(() => plan(inventory))).toMatchObject({
      kind: 'missing-shard',
      code: 'missing-optim-rank',
      facts: { expected: 3, found: 1, missing: '0, 2' },
    });
  });

  test('all of them are a problem at stage 3, where the model files are hollow', async () => {
    const files = without(filesOf(3), optimOf(0), optimOf(1), optimOf(2));
    expect((await problemsOf(files))[0]).toEqual({
      code: 'missing-optim-rank',
      facts: { file: FOLDER, expected: 3, found: 0, missing: '0, 1, 2' },
    });
  });
});

describe('a missing model file', () => {
  test.each([0, 1, 2])('of rank %i is a problem at stage 3 where it holds a share of what is frozen', async (rank) => {
    expect(await problemsOf(without(filesOf(3, { frozen: FROZEN }), modelOf(rank)))).toEqual([
      { code: 'missing-model-rank', facts: { file: FOLDER, expected: 3, found: 2, missing: String(rank) } },
    ]);
    expect(await problemsOf(without(filesOf(3), modelOf(rank)))).toEqual([]);
  });

  test('is a problem where there is no other', async () => {
    const facts = { file: FOLDER, expected: 1, found: 0, missing: '0' };
    expect(await problemsOf(without(filesOf(2), MODEL))).toEqual([{ code: 'missing-model-rank', facts }]);
    const hollow = without(filesOf(3), modelOf(0), modelOf(1), modelOf(2));
    expect(await problemsOf(hollow)).toEqual([{ code: 'missing-model-rank', facts }]);
  });

  test('is not replaced by one of another stage', async () => {
    const files = { ...without(filesOf(2), MODEL), ...only(filesOf(3), modelOf(0)) };
    expect((await problemsOf(files)).map(({ code }) => code)).toEqual(['missing-model-rank']);
  });
});

describe('files that are too many', () => {
  test.each(STAGES)('of ranks that the run has not had (stage %i)', async (stage) => {
    const files = { ...filesOf(stage), ...only(filesOf(stage, { ranks: 5 }), optimOf(4)) };
    const problems = await problemsOf(files);
    expect(problems[0]).toEqual({ code: 'stale-ranks', facts: { file: FOLDER, expected: 3, found: 4 } });
    // The file also tells by itself that it is of another run.
    expect(problems[1]?.code).toBe('partition-count-differs');
  });

  test('of one rank under two names', async () => {
    const twin = `${FOLDER}/bf16_zero_pp_rank_01_mp_rank_00_optim_states.pt`;
    const files = { ...filesOf(2), ...only(filesOf(2), optimOf(1), twin) };
    expect(await problemsOf(files)).toEqual([
      {
        code: 'rank-twice',
        facts: {
          file: FOLDER,
          expected: 'bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt',
          found: 'bf16_zero_pp_rank_01_mp_rank_00_optim_states.pt',
        },
      },
    ]);
  });

  test('of one model under two names', async () => {
    const files = { ...filesOf(2), ...only(filesOf(2), MODEL, `${FOLDER}/mp_rank_0_model_states.pt`) };
    expect((await problemsOf(files)).map(({ code }) => code)).toEqual(['rank-twice']);
  });

  test('of one name but for its case: a disk may hold only one of them', async () => {
    const upper = optimOf(1).replace('bf16_zero', 'BF16_ZERO');
    const file = upper.slice(upper.lastIndexOf('/') + 1);
    expect(await problemsOf({ ...filesOf(2), ...only(filesOf(2), optimOf(1), upper) })).toEqual([
      { code: 'rank-twice', facts: { file: FOLDER, expected: file.replace('BF16_ZERO', 'bf16_zero'), found: file } },
    ]);
    const others = { [`${FOLDER}/notes.txt`]: new Uint8Array(), [`${FOLDER}/Notes.txt`]: new Uint8Array() };
    expect(await problemsOf({ ...filesOf(2), ...others })).toEqual([]);
  });

  test.each(STAGES)('of other kinds are not opened, and are listed (stage %i)', async (stage) => {
    const names = [
      '.DS_Store',
      'zero_to_fp32.py',
      'rng_state_0.pth',
      'scheduler.pt',
      `${optimName(0)}.crswap`,
      'x.tmp',
    ];
    const others = names.map((name) => [`${FOLDER}/${name}`, new Uint8Array([1, 2, 3])]);
    const tree = recordingTree(memoryTree({ ...filesOf(stage), ...Object.fromEntries(others) }));
    const { problems, warnings, checks } = await inspect(tree);
    expect({ problems, warnings }).toEqual({ problems: [], warnings: [] });
    expect(tree.reads.filter(({ path }) => names.some((name) => path.endsWith(`/${name}`)))).toEqual([]);
    const detail = checks.find(({ id }) => id === 'rank-set')?.detail ?? '';
    const listed = detail.slice(detail.indexOf('Not read: '));
    expect(names.filter((name) => listed.includes(name))).toHaveLength(5);
    expect(listed).toMatch(/, …\.$/);
  });

  test('two whole sets: nothing tells which is of this model file', async () => {
    const half = filesOf(2, { modelDtype: 'F16' });
    const files = { ...half, ...filesOf(2) };
    expect(await problemsOf(files)).toEqual([
      { code: 'several-optim-sets', facts: { file: FOLDER, expected: 1, found: 2 } },
    ]);
  });
});

describe('prefixes that are mixed', () => {
  test('leave no set whole', async () => {
    const files = renamed(filesOf(2), optimOf(1), `${FOLDER}/zero_pp_rank_1_mp_rank_00_optim_states.pt`);
    expect((await problemsOf(files)).map(({ code }) => code)).toEqual(['missing-optim-rank']);
  });

  test('are swapped for all of them: the name alone is no contradiction', async () => {
    let files: Record<string, Uint8Array> = filesOf(2);
    for (const rank of [0, 1, 2]) {
      files = renamed(files, optimOf(rank), `${FOLDER}/zero_pp_rank_${rank}_mp_rank_00_optim_states.pt`);
    }
    expect(await problemsOf(files)).toEqual([]);
  });
});

describe('files that contradict each other', () => {
  const onRank1 = (field: string, value: string | number | number[]): Partial<CheckpointSpec> => ({
    editOptim(root, state, rank) {
      if (rank !== 1) return;
      if (field === 'ds_version') root.set(field, value);
      else state.set(field, value);
    },
  });

  test.each([
    [2, 'partition_count', [3, 4], 'partition-count-differs', '3,3', '3,4'],
    [2, 'zero_stage', 1, 'zero-stage-differs', 2, 1],
    [2, 'ds_version', '0.16.0', 'ds-version-differs', '0.17.0', '0.16.0'],
    [3, 'partition_count', 4, 'partition-count-differs', '3', '4'],
    [3, 'ds_version', '0.16.0', 'ds-version-differs', '0.17.0', '0.16.0'],
  ] as const)('about stage %i: %s', async (stage, field, value, code, expected, found) => {
    const edit = onRank1(field, typeof value === 'object' ? [...value] : value);
    expect(await problemsIn(small(stage, edit))).toEqual([
      { code, facts: { file: optimOf(1), other: optimOf(0), expected, found } },
    ]);
  });

  test.each([
    ['global_steps', 8, 'global-steps-differs', 7, 8],
    ['ds_version', '0.16.0', 'ds-version-differs', '0.17.0', '0.16.0'],
    ['frozen_param_shapes', null, 'frozen-param-shapes-differs', '1 parameter', '0 parameters'],
  ] as const)('in the model files of stage 3: %s', async (field, value, code, expected, found) => {
    const spec = small(3, {
      frozen: FROZEN,
      editModel(root, rank) {
        if (rank === 2) root.set(field, value);
      },
    });
    expect(await problemsIn(spec)).toEqual([{ code, facts: { file: modelOf(2), other: modelOf(0), expected, found } }]);
  });

  test('about the number of ranks: the model file says another one', async () => {
    const edit = { editModel: (root: Map<unknown, unknown>) => void root.set('dp_world_size', 4) };
    expect(await problemsIn(small(2, edit))).toEqual([
      {
        code: 'the-number-of-ranks-differs',
        facts: { file: MODEL, other: FOLDER, expected: 'partition_count 3', found: 4 },
      },
    ]);
    // MiCS cuts the weights over fewer ranks than there are.
    expect(await problemsIn(small(3, edit))).toEqual([]);
  });
});

describe('counts that cannot be', () => {
  test.each([
    [2, 0],
    [2, 2 ** 40],
    [2, [2 ** 40]],
    [2, [0, 0]],
    [3, 0],
    [3, 2 ** 40],
  ] as const)('a partition_count at stage %i of %j', async (stage, count) => {
    const value = typeof count === 'object' ? [...count] : count;
    const files = filesOf(stage, { editOptim: (_, state) => state.set('partition_count', value) });
    const found = typeof count === 'object' ? count[0] : count;
    expect(await rejectionOf(inspect(memoryTree(files)))).toMatchObject({
      kind: 'bad-file',
      code: 'rank-count',
      facts: { file: optimOf(0), expected: 2 ** 17, found },
    });
  });

  test('a partition_count as large as can be is answered by what is missing', async () => {
    const files = filesOf(3, { editOptim: (_, state) => state.set('partition_count', 2 ** 17) });
    expect(await problemsOf(files)).toMatchObject([
      {
        code: 'missing-optim-rank',
        facts: { expected: 2 ** 17, found: 3, missing: expect.stringMatching(/^3, 4, .*…$/) },
      },
    ]);
  });

  test('a partition_count of very many entries', async () => {
    const list = new PyRaw(pickle('](', 'K\x03'.repeat(300_000), 'e'));
    const files = filesOf(2, { editOptim: (_, state) => state.set('partition_count', list) });
    expect(await problemsOf(files)).toEqual([]);
  });

  test('a dp_world_size that would fill the memory with ranks', async () => {
    const files = without(
      filesOf(3, { editModel: (root) => root.set('dp_world_size', 2 ** 40) }),
      ...[0, 1, 2].map(optimOf),
    );
    expect(await rejectionOf(inspect(memoryTree(files)))).toMatchObject({
      code: 'rank-count',
      facts: { file: modelOf(0), expected: 2 ** 17, found: 2 ** 40 },
    });
  });

  test('a rank in a name that no number holds', async () => {
    const huge = `${FOLDER}/bf16_zero_pp_rank_${'9'.repeat(60)}_mp_rank_00_optim_states.pt`;
    const files = { ...filesOf(2), ...only(filesOf(2), optimOf(1), huge) };
    expect((await problemsOf(files)).map(({ code }) => code)).toEqual(['stale-ranks']);
  });
});
