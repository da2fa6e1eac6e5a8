import { describe, expect, test } from 'vitest';
import { checkPlan } from '../../../src/plan/check.js';
import { plan } from '../../../src/plan/make.js';
import type { Compute, Plan, PlannedTensor } from '../../../src/plan/plan.js';
import { detailOf } from '../../helpers/errors.js';
import { inventoryOf, masterOf } from '../../helpers/inventory.js';
import { linear, loraInventory } from '../../helpers/lora.js';

type Lora = Extract<Compute, { kind: 'lora' }>;
type Mean = Extract<Compute, { kind: 'mean' }>;

/** The plan with another first tensor. */
function withTensor(made: Plan, change: (tensor: PlannedTensor) => Partial<PlannedTensor>): Plan {
  const [first, ...others] = made.tensors;
  if (!first) throw new Error('the plan has no tensor');
  return { ...made, tensors: [{ ...first, ...change(first) }, ...others] };
}

describe('checkPlan of a merged weight', () => {
  const good = plan(loraInventory(linear('base_model.model.q')), { output: 'merged' });
  const withLora = (change: (lora: Lora) => Partial<Lora>) =>
    withTensor(good, ({ compute }) => ({ compute: { ...(compute as Lora), ...change(compute as Lora) } }));

  test('accepts it, also after a trip through JSON', () => {
    expect(() => checkPlan(JSON.parse(JSON.stringify(good)) as Plan)).not.toThrow();
  });

  test.each<[string, Plan]>([
    ['A too short', withLora((lora) => ({ a: { ...lora.a, pieces: [] } }))],
    ['B of another rank', withLora(() => ({ rank: 3 }))],
    ['matrices that are turned', withLora(() => ({ transpose: true }))],
    ['A of integers', withLora((lora) => ({ a: { ...lora.a, dtype: 'I32' } }))],
    ['no rank', withLora(() => ({ rank: 0 }))],
    ['half a column', withLora(() => ({ columns: 1.5 }))],
    ['fewer rows than the output', withLora(() => ({ rows: 3 }))],
    ['a scale without end', withLora(() => ({ scale: Number.POSITIVE_INFINITY }))],
    [
      'a source that is not there',
      withLora((lora) => ({ a: { ...lora.a, pieces: [{ source: 9, offset: 0, length: 24, at: 0 }] } })),
    ],
    ['an output of integers', withTensor(good, () => ({ to: 'I32' }))],
    ['a weight of integers', withTensor(good, () => ({ from: 'I16' }))],
  ])('refuses %s', (_, made) => {
    expect(detailOf(() => checkPlan(made))).toMatchObject({ kind: 'usage', code: 'plan-invalid' });
  });
});

describe('checkPlan of a mean', () => {
  const entry = masterOf('norm', 4, 0);
  const good = plan(inventoryOf([{ ...entry, meanOf: [entry.stored, masterOf('', 4, 100).stored] }]));
  const withCopies = (of: Mean['of']) => withTensor(good, () => ({ compute: { kind: 'mean', of } }));

  test('accepts it', () => {
    expect(() => checkPlan(good)).not.toThrow();
  });

  test.each<[string, Mean['of']]>([
    ['no copies', []],
    ['a copy that is too short', [entry.stored, masterOf('', 3, 100).stored]],
    ['a copy that is too long', [entry.stored, masterOf('', 5, 100).stored]],
  ])('refuses %s', (_, of) => {
    expect(detailOf(() => checkPlan(withCopies(of)))).toMatchObject({ kind: 'usage', code: 'plan-invalid' });
  });
});

describe('checkPlan of a cut over ranks', () => {
  const START = 100;
  // Ten floats: three on each of the first ranks, one on the fourth, none on the fifth.
  const NEEDED = [12, 12, 12, 4, 0];
  const made = plan(inventoryOf([masterOf('w', 10, 0)]));
  const cut = (sizes: readonly number[], starts: readonly number[] = NEEDED.map(() => START), offset = 8): Plan => ({
    ...withTensor(made, () => ({ pieces: [{ over: 0, offset, share: 12, length: 40, at: 0 }] })),
    crcs: [],
    sources: sizes.map((size, i) => ({ path: `rank-${i}.pt`, size, modified: 0 })),
    partitions: [starts.map((start, source) => ({ source, offset: start }))],
  });
  const exact = NEEDED.map((bytes) => (bytes === 0 ? START : START + 8 + bytes));

  test('accepts files that end where their share does, and one without a share that is shorter', () => {
    expect(() => checkPlan(cut(exact))).not.toThrow();
  });

  test.each([0, 1, 2, 3])('refuses a file that is a byte too short, and names it (rank %i)', (rank) => {
    const short = cut(exact.map((size, i) => (i === rank ? size - 1 : size)));
    const what = `a range of rank-${rank}.pt for w`;
    expect(detailOf(() => checkPlan(short))).toMatchObject({ code: 'plan-invalid', facts: { what } });
  });

  test.each<[string, Plan]>([
    ['starts before its file', cut(exact, [START, START, -9, START, START])],
    ['starts between two bytes', cut(exact, [START, 50.5, START, START, START])],
    ['starts nowhere', cut(exact, [START, Number.NaN, START, START, START])],
    ['has its piece before its start', cut(exact, undefined, -101)],
    ['lies in a file of no size', cut(exact.map((size, i) => (i === 1 ? Number.NaN : size)))],
    ['lies in no file', cut(exact.slice(0, 2))],
  ])('refuses a partition that %s', (_, bad) => {
    expect(detailOf(() => checkPlan(bad))).toMatchObject({ kind: 'usage', code: 'plan-invalid' });
  });
});
