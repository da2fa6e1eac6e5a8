import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../../src/io/memory.js';
import { without } from '../../../helpers/deepspeed/check.js';
import { toSafetensors } from '../../../helpers/deepspeed/convert.js';
import type { Cut } from '../../../helpers/deepspeed/cuts.js';
import { GRID_FOLDER, type GridParam, type GridSpec, gridModel, writeGrid } from '../../../helpers/deepspeed/grid.js';
import { smallGrid } from '../../../helpers/deepspeed/merge-info.js';
import { PyOrdered, tensorOf } from '../../../helpers/deepspeed/python.js';
import { bufferOf } from '../../../helpers/deepspeed/random-spec.js';
import { rejectionOf } from '../../../helpers/errors.js';

const WHOLE: Cut = { kind: 'whole' };
const cutAlong = (dim: number, ...widths: number[]): Cut => ({ kind: 'parts', dim, widths: [widths] });

/** Two tensor-parallel ranks, each cut over three data-parallel ranks. */
const PARAMS: readonly GridParam[] = [
  { name: 'norm.weight', shape: [5], cut: WHOLE },
  { name: 'up.weight', shape: [7, 5], cut: cutAlong(0, 4, 3) },
  { name: 'down.weight', shape: [5, 7], cut: cutAlong(1, 4, 3) },
];

function small(more: Partial<GridSpec> = {}): GridSpec {
  return smallGrid({ params: PARAMS, ...more });
}

async function problemsIn(spec: GridSpec) {
  const { problems } = await inspect(memoryTree(writeGrid(spec).files));
  return problems.map(({ code, facts }) => ({ code, facts }));
}

describe('model-parallel ranks', () => {
  const { files } = writeGrid(small());
  const of = (mp: number) => Object.keys(files).filter((path) => path.includes(`mp_rank_0${mp}`));

  test('that are missing are named, unless the others are wanted alone', async () => {
    const tree = memoryTree(without(files, ...of(1)));
    const { problems } = await inspect(tree);
    expect(problems.map(({ code, facts }) => ({ code, facts }))).toEqual([
      { code: 'missing-mp-rank', facts: { file: GRID_FOLDER, expected: 2, found: 1, missing: '1' } },
    ]);
    expect((await inspect(tree, { tpRank: 0 })).problems).toEqual([]);
  });

  test('whose optimizer files alone are missing are named', async () => {
    const optims = of(1).filter((path) => path.includes('optim'));
    const { problems } = await inspect(memoryTree(without(files, ...optims)));
    expect(problems[0]).toMatchObject({ code: 'missing-mp-rank', facts: { expected: 2, found: 1, missing: '1' } });
    const { problems: others } = await inspect(memoryTree(without(files, gridModel(1))));
    expect(others.map(({ code }) => code)).toEqual(['missing-model-rank']);
  });

  test('of a larger run are told', async () => {
    const stale = Object.fromEntries(
      of(1).map((path) => [path.replace('mp_rank_01', 'mp_rank_02'), files[path] ?? new Uint8Array()]),
    );
    const { problems } = await inspect(memoryTree({ ...files, ...stale }));
    expect(problems[0]).toMatchObject({ code: 'stale-mp-ranks', facts: { expected: 2, found: '2' } });
  });

  test.each([
    ['global_steps', 8, 'global-steps-differs'],
    ['ds_version', '0.19.5', 'ds-version-differs'],
    ['mp_world_size', 3, 'mp-world-size-differs'],
  ] as const)('contradict each other: %s', async (field, value, code) => {
    const edit: GridSpec['edit'] = (name, root) => {
      if (name.startsWith('mp_rank_01')) root.set(field, value);
    };
    expect((await problemsIn(small({ edit }))).map((problem) => problem.code)).toContain(code);
  });

  test.each(['0.19.6', '0.16.3'])('have different parameters (%s)', async (version) => {
    const rename: GridSpec['alter'] = (held, mp) =>
      mp === 1 && held.name === 'norm.weight' ? { ...held, name: 'norm' } : held;
    expect(await problemsIn(small({ version, alter: rename }))).toMatchObject([
      { code: 'tp-name-missing', facts: { file: gridModel(1), tensor: 'norm.weight' } },
      { code: 'tp-name-missing', facts: { file: gridModel(0), tensor: 'norm' } },
    ]);
  });

  test('have a buffer of different dtypes', async () => {
    const edit: GridSpec['edit'] = (name, root) => {
      const module = root.get('module');
      if (!name.startsWith('mp_rank_01') || !(module instanceof PyOrdered)) return;
      root.set('buffer_names', ['steps']);
      module.map.set('steps', tensorOf('I64', [1], new Uint8Array(8), 'other'));
    };
    const buffers = [bufferOf('steps', 'F32', [1], 3)];
    expect(await problemsIn(small({ buffers, edit }))).toEqual([
      {
        code: 'tp-shards-differ',
        facts: {
          file: gridModel(1),
          other: gridModel(0),
          tensor: 'steps',
          expected: 'F32 buffer',
          found: 'I64 buffer',
        },
      },
    ]);
  });

  test('hold different copies of what is replicated', async () => {
    const alter: GridSpec['alter'] = (held, mp) =>
      mp === 1 && held.name === 'norm.weight'
        ? { ...held, master: held.master.map((byte, i) => (i === 4 ? byte ^ 1 : byte)) }
        : held;
    const { files: other } = writeGrid(small({ alter }));
    const optim = `${GRID_FOLDER}/bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt`;
    expect(await rejectionOf(toSafetensors(other))).toMatchObject({
      code: 'replicated-differs',
      facts: { tensor: 'norm.weight', index: 1, other: optim },
    });
  });
});
