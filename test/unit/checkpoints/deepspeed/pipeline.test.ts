import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../../src/io/memory.js';
import { problemsOf, without } from '../../../helpers/deepspeed/check.js';
import { expectedOf, toSafetensors } from '../../../helpers/deepspeed/convert.js';
import type { Cut } from '../../../helpers/deepspeed/cuts.js';
import { GRID_FOLDER, type GridParam, type GridSpec, gridModel, writeGrid } from '../../../helpers/deepspeed/grid.js';
import { mergeInfoOf } from '../../../helpers/deepspeed/merge-info.js';
import { bufferOf } from '../../../helpers/deepspeed/random-spec.js';
import { rejectionOf } from '../../../helpers/errors.js';

const WHOLE: Cut = { kind: 'whole' };

const PARAMS: readonly GridParam[] = [
  { name: 'tied_modules.embed.weight', shape: [7, 3], cut: WHOLE },
  { name: '1.up.weight', shape: [6, 3], cut: WHOLE },
  { name: '1.up.bias', shape: [6], cut: WHOLE },
  { name: '3.up.weight', shape: [6, 3], cut: WHOLE },
  { name: '3.up.bias', shape: [6], cut: WHOLE },
];

/** Five layers on two stages: a tied embedding, which the last layer uses through a function; layer 2 has no parameters. */
function small(more: Partial<GridSpec> = {}): GridSpec {
  return {
    version: '0.19.6',
    stage: 1,
    modelDtype: 'BF16',
    ranks: 2,
    tp: 1,
    params: PARAMS,
    buffers: [bufferOf('1.steps', 'I64', [2], 3), bufferOf('3.scale', 'F32', [], 4)],
    pipeline: { stages: 2, layers: [0, 0, 0, 1], tied: [{ key: 'embed', layers: [0], stages: [0, 1] }] },
    ...more,
  };
}

function layerFile(layer: number, tp?: number): string {
  return `${GRID_FOLDER}/layer_0${layer}${tp === undefined ? '' : `-model_0${tp}`}-model_states.pt`;
}

function optimFile(dp: number, mp: number): string {
  return `${GRID_FOLDER}/bf16_zero_pp_rank_${dp}_mp_rank_0${mp}_optim_states.pt`;
}

async function expectWhole(spec: GridSpec): Promise<void> {
  const written = writeGrid(spec);
  expect(await toSafetensors(written.files)).toEqual(expectedOf(written, 'F32'));
}

describe('the stages of a pipeline', () => {
  test('make up one model, with buffers from the layer files and tied modules once', async () => {
    await expectWhole(small());
    const { tensors, facts } = await inspect(memoryTree(writeGrid(small()).files));
    expect(facts).toMatchObject({ ranks: 2, pipelineStages: 2 });
    expect(tensors.find(({ name }) => name === 'tied_modules.embed.weight')).toMatchObject({
      origin: 'master',
      copy: { dtype: 'BF16' },
      proofs: [{ check: 'replicated', dtype: 'F32' }],
    });
    expect(tensors.filter(({ origin, copy }) => origin === 'master' && copy === undefined)).toEqual([]);
  });

  test.each(['0.7.4', '0.12.0', '0.16.4'])('are told by the layer files before they are recorded (%s)', (version) =>
    expectWhole(small({ version })),
  );

  test('keep the padding of BF16_Optimizer', () => expectWhole(small({ bf16Optimizer: true })));

  test('may have frozen parameters, which the layer files alone hold', () =>
    expectWhole(
      small({ params: [...PARAMS, { name: '2.frozen.weight', shape: [4, 2], cut: WHOLE, isFrozen: true }] }),
    ));

  test('may have a frozen layer that looks like the tied module', async () => {
    const params = [...PARAMS, { name: '2.weight', shape: [7, 3], cut: WHOLE, isFrozen: true }];
    await expectWhole(small({ params }));
    const { tensors, warnings } = await inspect(memoryTree(writeGrid(small({ params })).files));
    expect(tensors.find(({ name }) => name === '2.weight')?.origin).toBe('frozen');
    expect(warnings.map(({ code }) => code)).toEqual(['layer-like-tied']);
  });

  test('may have several tied modules of one shape, written by several layers', async () => {
    const params = [...PARAMS, { name: 'tied_modules.head.weight', shape: [7, 3], cut: WHOLE }];
    const tied = [
      { key: 'embed', layers: [0, 4], stages: [0, 1] },
      { key: 'head', layers: [5], stages: [1] },
    ];
    const spec = small({ params, pipeline: { stages: 2, layers: [0, 0, 0, 1, 1, 1], tied } });
    await expectWhole(spec);
    const { tensors } = await inspect(memoryTree(writeGrid(spec).files));
    const dtypes = (end: string) => tensors.find(({ name }) => name.endsWith(end))?.proofs?.map(({ dtype }) => dtype);
    // Of the embedding there is the other stage's master, and the copy in the file of the other layer.
    expect([dtypes('embed.weight'), dtypes('head.weight')]).toEqual([['F32', 'BF16'], undefined]);
  });

  test('have the copies of a tied module under its name where its masters are lost', async () => {
    const tied = [{ key: 'embed', layers: [0, 4], stages: [0, 1] }];
    const written = writeGrid(small({ pipeline: { stages: 2, layers: [0, 0, 0, 1, 1], tied } }));
    const files = without(written.files, optimFile(0, 0), optimFile(0, 1));
    expect(await toSafetensors(files, { dtype: 'bf16' }, { partial: true })).toEqual(expectedOf(written, 'BF16'));
    const { tensors, warnings } = await inspect(memoryTree(files), { partial: true });
    expect(tensors.find(({ name }) => name === 'tied_modules.embed.weight')?.origin).toBe('copy');
    expect(warnings.filter(({ code }) => code === 'layer-taken-for-tied').map(({ message }) => message)).toEqual([
      'Layer 0 has the names and shapes of tied_modules.embed, whose masters are lost. It is taken for that module.',
    ]);
  });

  test('may have a frozen layer that looks like the tied module whose masters are lost', async () => {
    const params = [...PARAMS, { name: '2.weight', shape: [7, 3], cut: WHOLE, isFrozen: true }];
    const written = writeGrid(small({ params }));
    const files = without(written.files, optimFile(0, 0), optimFile(0, 1));
    expect(await toSafetensors(files, { dtype: 'bf16' }, { partial: true })).toEqual(expectedOf(written, 'BF16'));
    const { warnings } = await inspect(memoryTree(files), { partial: true });
    expect(warnings.map(({ code }) => code).filter((code) => code.startsWith('layer-'))).toEqual([
      'layer-taken-for-tied',
      'layer-like-tied',
    ]);
  });

  test('keep the names of layers where the masters of two modules of one shape are lost', async () => {
    const params = [{ name: 'tied_modules.head.weight', shape: [7, 3], cut: WHOLE }, ...PARAMS];
    const tied = [
      { key: 'embed', layers: [0], stages: [0] },
      { key: 'head', layers: [4], stages: [0] },
    ];
    const { files } = writeGrid(small({ params, pipeline: { stages: 2, layers: [0, 0, 0, 1, 0], tied } }));
    const lost = without(files, optimFile(0, 0));
    const { tensors, skipped, warnings } = await inspect(memoryTree(lost), { partial: true });
    expect(tensors.map(({ name }) => name)).toEqual(expect.arrayContaining(['0.weight', '4.weight']));
    expect(skipped.map(({ name }) => name).toSorted()).toEqual([
      'tied_modules.embed.weight',
      'tied_modules.head.weight',
    ]);
    expect(warnings.filter(({ code }) => code.startsWith('layer-'))).toEqual([]);
  });

  test('may have buffers in a tied module', () =>
    expectWhole(small({ buffers: [bufferOf('tied_modules.embed.ids', 'I64', [3], 7)] })));

  test('may have saved extra state in a layer file, which is no tensor', async () => {
    const edit: GridSpec['edit'] = (name, root) => {
      if (name.startsWith('layer_01')) root.set('norm._extra_state', 5);
    };
    await expectWhole(small({ edit }));
    const { skipped } = await inspect(memoryTree(writeGrid(small({ edit })).files));
    expect(skipped.map(({ name }) => name)).toEqual(['1.norm._extra_state']);
  });

  test('have their masters in the model files at stage 0, named by their bits', async () => {
    const params = PARAMS.slice(1);
    const spec = small({ stage: 0, params, pipeline: { stages: 2, layers: [0, 0, 0, 1] } });
    await expectWhole(spec);
    const { tensors } = await inspect(memoryTree(writeGrid(spec).files));
    expect(tensors.filter(({ origin }) => origin === 'master')).toHaveLength(4);
  });

  test('are cut over tensor-parallel ranks as well', async () => {
    const cut: Cut = { kind: 'parts', dim: 0, widths: [[4, 3]] };
    const params: GridParam[] = [
      { name: 'tied_modules.embed.weight', shape: [7, 3], cut },
      { name: '1.norm.weight', shape: [5], cut: WHOLE },
      { name: '3.down.weight', shape: [5, 7], cut: { ...cut, dim: 1 } },
    ];
    const buffers = [bufferOf('1.steps', 'I64', [2], 3)];
    for (const version of ['0.16.3', '0.19.6']) {
      await expectWhole(small({ version, tp: 2, params, buffers, info: mergeInfoOf(params) }));
    }
    const { facts } = await inspect(
      memoryTree(writeGrid(small({ tp: 2, params, buffers, info: mergeInfoOf(params) })).files),
    );
    expect(facts).toMatchObject({ pipelineStages: 2, tensorParallel: 2 });
  });
});

describe('what is missing or wrong in a pipeline', () => {
  const { files } = writeGrid(small());

  test('a layer that has parameters or buffers', async () => {
    expect(await problemsOf(without(files, layerFile(1), layerFile(3)))).toMatchObject([
      { code: 'missing-layer', facts: { file: GRID_FOLDER, expected: 2, found: 0, missing: '1, 3' } },
      { code: 'buffer-absent' },
      { code: 'buffer-absent' },
    ]);
  });

  test('no layer that has none, nor the copy of a tied module', async () => {
    expect(await problemsOf(without(files, layerFile(0), layerFile(2)))).toEqual([]);
  });

  test('a layer of one tensor-parallel rank', async () => {
    const params = PARAMS.slice(1);
    const spec = small({ tp: 2, params, info: mergeInfoOf(params) });
    expect(await problemsOf(without(writeGrid(spec).files, layerFile(3, 1)))).toMatchObject([
      { code: 'missing-layer', facts: { missing: '3' } },
      { code: 'buffer-absent' },
    ]);
  });

  test('a stage', async () => {
    const last = Object.keys(files).filter((path) => path.includes('mp_rank_01'));
    expect(await problemsOf(without(files, ...last))).toEqual([
      { code: 'missing-mp-rank', facts: { file: GRID_FOLDER, expected: 2, found: 1, missing: '1' } },
    ]);
  });

  test('a rank of a stage', async () => {
    const optim = `${GRID_FOLDER}/bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt`;
    expect(await problemsOf(without(files, optim))).toMatchObject([
      { code: 'missing-optim-rank', facts: { expected: 2, found: 1, missing: '1' } },
      { code: 'the-number-of-ranks-differs' },
    ]);
  });

  test('all optimizer files: the tied module is the layer that has its copy, and its own name is skipped', async () => {
    const left = Object.entries(files).filter(([path]) => !path.endsWith('optim_states.pt'));
    const { tensors, skipped, problems } = await inspect(memoryTree(Object.fromEntries(left)));
    expect(problems).toEqual([]);
    expect(tensors.map(({ name }) => name)).toContain('0.weight');
    const reason = 'its copy is written under the name of a layer';
    expect(skipped).toEqual([{ name: 'tied_modules.embed.weight', reason }]);
    expect((await inspect(memoryTree(files))).skipped).toEqual([]);
  });

  test('copies of a tied module that are not the same', async () => {
    const alter: GridSpec['alter'] = (held, mp) =>
      mp === 1 && held.name.startsWith('tied_modules.')
        ? { ...held, master: held.master.map((byte, i) => (i === 8 ? byte ^ 1 : byte)) }
        : held;
    expect(await rejectionOf(toSafetensors(writeGrid(small({ alter })).files))).toMatchObject({
      kind: 'inconsistent',
      code: 'replicated-differs',
      facts: { tensor: 'tied_modules.embed.weight', index: 2 },
    });
  });

  test('a parameter that is on two stages and not tied', async () => {
    const alter: GridSpec['alter'] = (held) => ({
      ...held,
      name: held.name.replace('tied_modules.embed', '1.embed'),
    });
    expect((await problemsOf(writeGrid(small({ alter })).files))[0]).toMatchObject({
      code: 'name-twice',
      facts: { tensor: '1.embed.weight', file: gridModel(1) },
    });
  });

  test('layers of a topology with other axes', async () => {
    const odd = `${GRID_FOLDER}/layer_01-expert_00-model_01-model_states.pt`;
    const { [layerFile(1)]: layer = new Uint8Array(), ...others } = files;
    expect(await rejectionOf(inspect(memoryTree({ ...others, [odd]: layer })))).toMatchObject({
      kind: 'unsupported',
      code: 'layer-topology',
      facts: { file: odd, found: '-expert_00-model_01' },
    });
  });

  test('a number of ranks that tensor-parallel ranks cannot share', async () => {
    const edit: GridSpec['edit'] = (name, root) => {
      if (name.includes('mp_rank')) root.set('mp_world_size', 3);
    };
    const spec = small({ version: '0.16.3', tp: 2, params: PARAMS.slice(1), edit });
    expect((await problemsOf(writeGrid(spec).files))[0]).toEqual({
      code: 'parallel-grid',
      facts: { file: GRID_FOLDER, expected: 2, found: 3 },
    });
  });
});

describe('any pipeline', () => {
  const layer = fc.record({
    params: fc.array(fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 2 }), { maxLength: 3 }),
    hasBuffer: fc.boolean(),
    isFrozen: fc.boolean(),
  });
  const specs = fc.record({
    stages: fc.integer({ min: 1, max: 4 }),
    layers: fc.array(layer, { minLength: 4, maxLength: 8 }),
    tiedAt: fc.array(fc.nat(), { minLength: 1, maxLength: 3 }),
    version: fc.constantFrom('0.9.2', '0.16.3', '0.16.4', '0.19.6'),
    ranks: fc.integer({ min: 1, max: 3 }),
    tp: fc.integer({ min: 1, max: 2 }),
    modelDtype: fc.constantFrom('F16', 'BF16'),
    bf16Optimizer: fc.boolean(),
  } as const);

  test('is one model', () =>
    fc.assert(
      fc.asyncProperty(specs, async ({ stages, layers, tiedAt, bf16Optimizer, ...made }) => {
        const stageOf = layers.map((_, i) => Math.floor((i * stages) / layers.length));
        const tiedLayers = [...new Set(tiedAt.map((at) => at % layers.length))];
        const vocabulary: Cut = made.tp === 1 ? WHOLE : { kind: 'parts', dim: 0, widths: [[3, 2]] };
        const params: GridParam[] = [
          { name: 'tied_modules.embed.weight', shape: [5, 4], cut: vocabulary },
          ...layers.flatMap(({ params: shapes, isFrozen }, i) =>
            tiedLayers.includes(i)
              ? []
              : shapes.map((shape, j): GridParam => ({ name: `${i}.p${j}`, shape, cut: WHOLE, isFrozen })),
          ),
        ];
        const tied = [{ key: 'embed', layers: tiedLayers, stages: [...new Set(stageOf)] }];
        const buffers = layers.flatMap(({ hasBuffer }, i) =>
          hasBuffer && !tiedLayers.includes(i) ? [bufferOf(`${i}.steps`, 'I64', [2], i)] : [],
        );
        const written = writeGrid({
          ...made,
          stage: 1,
          params,
          buffers,
          bf16Optimizer: bf16Optimizer && made.modelDtype === 'BF16',
          pipeline: { stages, layers: stageOf, tied },
          info: mergeInfoOf(params),
        });
        expect(await toSafetensors(written.files)).toEqual(expectedOf(written, 'F32'));
      }),
      { numRuns: 120 },
    ));
});
