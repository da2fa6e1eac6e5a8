import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../src/io/memory.js';
import { without } from '../../helpers/deepspeed/check.js';
import { expectedOf, toSafetensors } from '../../helpers/deepspeed/convert.js';
import type { Cut } from '../../helpers/deepspeed/cuts.js';
import { GRID_FOLDER, type GridParam, type GridSpec, writeGrid } from '../../helpers/deepspeed/grid.js';
import {
  frozenHeldBy,
  heldByAny,
  modelPath,
  optimPath,
  provesSizes,
  withCopies,
  withoutTensors,
} from '../../helpers/deepspeed/lost.js';
import { smallGrid } from '../../helpers/deepspeed/merge-info.js';
import { randomSpec } from '../../helpers/deepspeed/random-spec.js';
import { writeCheckpoint } from '../../helpers/deepspeed/write.js';

/** Checkpoints that are tried for each stage. */
const RUNS = { numRuns: 80 };

/** Which files of ranks are lost, as the bits of a number. */
const chosen = (ranks: number, bits: number) => [...Array(ranks).keys()].filter((rank) => (bits >> rank) & 1);

describe.each([1, 2] as const)('any checkpoint of stage %i without some optimizer files', (stage) => {
  test('gives masters where they are whole, copies elsewhere, and buffers and frozen parameters as ever', () =>
    fc.assert(
      fc.asyncProperty(randomSpec(stage), fc.integer({ min: 1, max: 63 }), async (spec, bits) => {
        const lost = chosen(spec.ranks, bits);
        const written = writeCheckpoint(spec);
        const files = without(written.files, ...lost.map((rank) => optimPath(spec, rank)));
        const all = new Set(spec.groups.flat().map(({ name }) => name));
        const outcomes = [
          ...(lost.length < spec.ranks ? [heldByAny(spec, lost)] : [all]),
          // A slice that is alone may not tell how long the others were.
          ...(provesSizes(spec, lost) ? [] : [all]),
        ].map((names) => expectedOf(withCopies(spec, written, names), 'F32'));
        expect(outcomes).toContainEqual(await toSafetensors(files, {}, { partial: true }));
      }),
      RUNS,
    ));
});

test('any checkpoint of stage 3 without files of some ranks gives what lies in the others', () =>
  fc.assert(
    fc.asyncProperty(
      randomSpec(3),
      fc.integer({ min: 0, max: 63 }),
      fc.integer({ min: 0, max: 63 }),
      async (spec, optims, models) => {
        const [lostOptims, lostModels] = [chosen(spec.ranks, optims), chosen(spec.ranks, models & ~1)];
        const written = writeCheckpoint(spec);
        const paths = [
          ...lostOptims.map((rank) => optimPath(spec, rank)),
          ...lostModels.map((rank) => modelPath(spec, rank)),
        ];
        const files = without(written.files, ...paths);
        const names = new Set([...heldByAny(spec, lostOptims), ...frozenHeldBy(spec, lostModels)]);
        const expected = withoutTensors(written, names);
        const buffers = new Set((spec.buffers ?? []).map(({ name }) => name));
        if ([...expected.expected.keys()].every((name) => buffers.has(name))) {
          const { problems } = await inspect(memoryTree(files), { partial: true });
          expect(problems).toMatchObject([{ code: 'nothing-recovered' }]);
        } else expect(await toSafetensors(files, {}, { partial: true })).toEqual(expectedOf(expected, 'F32'));
      },
    ),
    RUNS,
  ));

const optimOf = (mp: number, dp: number) => `${GRID_FOLDER}/bf16_zero_pp_rank_${dp}_mp_rank_0${mp}_optim_states.pt`;

const WHOLE: Cut = { kind: 'whole' };
const cutAlong = (dim: number, ...widths: number[]): Cut => ({ kind: 'parts', dim, widths: [widths] });

const PARAMS: readonly GridParam[] = [
  { name: 'norm.weight', shape: [5], cut: WHOLE },
  { name: 'up.weight', shape: [7, 5], cut: cutAlong(0, 4, 3) },
  { name: 'down.weight', shape: [5, 7], cut: cutAlong(1, 4, 3) },
  { name: 'out.bias', shape: [6], cut: cutAlong(0, 4, 2) },
  { name: 'router.bias', shape: [6], cut: { kind: 'average' } },
];

describe('of a pipeline, of which one optimizer file is lost', () => {
  const params: readonly GridParam[] = [
    { name: 'tied_modules.embed.weight', shape: [7, 3], cut: WHOLE },
    { name: '1.up.weight', shape: [6, 3], cut: WHOLE },
    { name: '1.up.bias', shape: [6], cut: WHOLE },
    { name: '3.up.weight', shape: [6, 3], cut: WHOLE },
    { name: '3.up.bias', shape: [6], cut: WHOLE },
  ];
  const spec: GridSpec = {
    ...{ version: '0.19.6', stage: 1, modelDtype: 'BF16', ranks: 2, tp: 1, params },
    pipeline: { stages: 2, layers: [0, 0, 0, 1], tied: [{ key: 'embed', layers: [0], stages: [0, 1] }] },
  };

  test.each([
    [0, 0, ['1.up.weight']],
    [0, 1, ['1.up.weight', '1.up.bias']],
    [1, 0, ['3.up.weight']],
    [1, 1, ['3.up.weight', '3.up.bias']],
  ])(
    'stage %i keeps its masters where they are whole, and tied ones that another stage has (rank %i)',
    async (mp, dp, lost) => {
      const written = writeGrid(spec);
      const files = without(written.files, optimOf(mp, dp));
      const expected = expectedOf(withCopies(spec, written, new Set(lost)), 'F32');
      expect(await toSafetensors(files, {}, { partial: true })).toEqual(expected);
    },
  );
});

describe('with tensor parallelism, of which one optimizer file is lost', () => {
  const grid = (stage: GridSpec['stage']) => smallGrid({ stage, params: PARAMS });

  test.each(
    [1, 2, 3].flatMap((stage) => [0, 1].flatMap((mp) => [0, 1, 2].map((dp) => [stage as 1 | 2 | 3, mp, dp] as const))),
  )(
    'every tensor is its master, its copy or skipped (stage %i, rank %i of the model, %i of the data)',
    async (stage, mp, dp) => {
      const written = writeGrid(grid(stage));
      const files = without(written.files, optimOf(mp, dp));
      const { tensors } = await toSafetensors(files, {}, { partial: true });
      const inventory = await inspect(memoryTree(files), { partial: true });
      const masters = expectedOf(written, 'F32').tensors;
      const all = new Set(PARAMS.map(({ name }) => name));
      const copies = expectedOf(withCopies(grid(stage), written, all), 'F32').tensors;
      // The mean of copies is not the copy of a mean.
      const optims = Object.keys(written.files).filter((path) => /optim_states/.test(path));
      const copied = stage === 3 ? {} : (await toSafetensors(without(written.files, ...optims))).tensors;
      for (const { name, origin } of inventory.tensors) {
        if (origin === 'copy' && name === 'router.bias') expect(tensors[name]).toEqual(copied[name]);
        else expect(tensors[name]).toEqual((origin === 'copy' ? copies : masters)[name]);
        expect(['copy', 'master']).toContain(origin);
      }
      const skipped = inventory.skipped.map(({ name }) => name);
      expect([...Object.keys(tensors), ...skipped].sort()).toEqual(PARAMS.map(({ name }) => name).sort());
      expect(inventory.problems).toEqual([]);
      // Every rank of the model holds it.
      expect(inventory.tensors.find(({ name }) => name === 'norm.weight')?.origin).toBe('master');
    },
  );
});
