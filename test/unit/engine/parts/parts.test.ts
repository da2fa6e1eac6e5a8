import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { filesOfPart, lastFiles, partName, partOfFiles, planOfFiles } from '../../../../src/engine/parts/parts.js';
import { checkPlan } from '../../../../src/plan/check.js';
import { plan } from '../../../../src/plan/make.js';
import type { OutputFile, Plan } from '../../../../src/plan/plan.js';
import { detailOf } from '../../../helpers/errors.js';
import { inventoryOf, masterOf } from '../../../helpers/inventory.js';

const NOTHING = plan(inventoryOf([masterOf('a', 4, 0)]));

/** A plan of files of these sizes, with an index after them where asked. */
function planOf(sizes: readonly number[], hasIndex = false): Plan {
  const files = sizes.map((byteLength, i): OutputFile => ({ path: `${i}`, byteLength, parts: [] }));
  const index: OutputFile = { path: 'index', byteLength: 10, parts: [], afterOthers: true };
  return { ...NOTHING, files: hasIndex ? [...files, index] : files };
}

const partsOf = (made: Plan, count: number) =>
  [...Array(count).keys()].map((index) => filesOfPart(made, { index, count }));

describe('the files of a part', () => {
  test('are shared out by their bytes, the largest first', () => {
    expect(partsOf(planOf([10, 70, 20, 30, 10, 20]), 3)).toEqual([[1], [0, 3, 4], [2, 5]]);
  });

  test('are in the order of the plan, and equal ones are dealt out in it', () => {
    expect(partsOf(planOf([5, 5, 5, 5]), 2)).toEqual([
      [0, 2],
      [1, 3],
    ]);
  });

  test('may be none', () => {
    expect(partsOf(planOf([5, 7]), 4)).toEqual([[1], [0], [], []]);
  });

  test('are never those that come last', () => {
    const made = planOf([5, 7], true);
    expect(partsOf(made, 1)).toEqual([[0, 1]]);
    expect(lastFiles(made)).toEqual([2]);
  });

  test('of all parts are all files once, and no part has more than the mean and one file', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1000), { maxLength: 40 }), fc.integer({ min: 1, max: 12 }), (sizes, count) => {
        const made = planOf(sizes, true);
        const parts = partsOf(made, count);
        expect(parts.flat().toSorted((a, b) => a - b)).toEqual([...sizes.keys()]);
        const bytes = (files: readonly number[]) => files.reduce((sum, file) => sum + (sizes[file] ?? 0), 0);
        const mean = bytes([...sizes.keys()]) / count;
        for (const part of parts) expect(bytes(part)).toBeLessThanOrEqual(mean + Math.max(0, ...sizes));
        for (const [file, part] of partOfFiles(made, count)) expect(parts[part]).toContain(file);
      }),
    );
  });

  test.each([
    [0, 0],
    [-1, 4],
    [4, 4],
    [0.5, 4],
    [0, 2.5],
    [0, 200_000],
    [Number.NaN, 1],
  ])('are refused for index %d of %d', (index, count) => {
    expect(detailOf(() => filesOfPart(NOTHING, { index, count }))).toMatchObject({ kind: 'usage', code: 'part-bad' });
  });

  test('of a part have the name that people use', () => {
    expect(partName({ index: 0, count: 8 })).toBe('1/8');
  });
});

describe('the plan of some files', () => {
  const tensors = ['a', 'b', 'c', 'd', 'e'].map((name, i) => masterOf(name, 300, i * 20));
  const sources = [{ path: 'rank0.pt', size: 4000, modified: 1 }];
  const companions = [{ source: 0, name: 'tokenizer.json' }];
  const whole = plan(inventoryOf(tensors, { sources, companions }), { maxShardSize: 2500 });

  test('holds their tensors alone, and is a plan', () => {
    expect(whole.files).toHaveLength(5);
    const { plan: some, tensors: indices } = planOfFiles(whole, [2, 3]);
    expect(some.files.map(({ path }) => path)).toEqual(['model-00003-of-00003.safetensors', 'tokenizer.json']);
    expect(indices.map((index) => whole.tensors[index]?.name)).toEqual(['e']);
    expect(some.tensors.map(({ name }) => name)).toEqual(['e']);
    expect(some.totals).toMatchObject({ tensors: 1, elements: 300, inputBytes: 1200 + 4000 });
    expect(() => checkPlan(some)).not.toThrow();
  });

  test('of all files has all there is', () => {
    const { plan: all } = planOfFiles(whole, [0, 1, 2, 3, 4]);
    expect(all.totals).toEqual(whole.totals);
    expect(all.tensors).toEqual(whole.tensors);
  });
});
