import { describe, expect, it } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import type { TpRule } from '../../../src/checkpoints/options.js';
import { memoryTree } from '../../../src/io/memory.js';
import { finishedRules, isAboutRanks, isOfRanks, ruleDrafts } from '../../../src/ui/reading.js';
import { writeGrid } from '../../helpers/deepspeed/grid.js';
import { smallGrid } from '../../helpers/deepspeed/merge-info.js';

/** Four shards of layers that nothing says how to join, in two kinds. */
function ruleless(rules: readonly TpRule[] = []) {
  const param = (name: string, dim: number) =>
    ({ name, shape: [6, 8], cut: { kind: 'parts', dim, widths: [[dim ? 4 : 3, dim ? 4 : 3]] } }) as const;
  const names = ['layers.0.up.weight', 'layers.1.up.weight', 'layers.0.down.weight', 'layers.1.down.weight'];
  const { info: _, ...spec } = smallGrid({ params: names.map((name) => param(name, name.includes('down') ? 1 : 0)) });
  return inspect(memoryTree(writeGrid(spec).files), { tpRules: rules });
}

describe('the rules that the controls start with', () => {
  it('have a line for each kind of tensors that the checkpoint does not say how to join', async () => {
    const { problems } = await ruleless();
    expect(problems.map(isAboutRanks)).toEqual([true]);
    expect(ruleDrafts([], problems)).toEqual([
      { pattern: 'layers.*.up.weight', how: '' },
      { pattern: 'layers.*.down.weight', how: '' },
    ]);
  });

  it('make the model whole when each is given a way', async () => {
    const drafts = ruleDrafts([], (await ruleless()).problems);
    const rules = finishedRules(drafts.map((draft) => ({ ...draft, how: draft.pattern.includes('up') ? '0' : '1' })));
    expect(rules).toEqual([
      { pattern: 'layers.*.up.weight', merge: 0 },
      { pattern: 'layers.*.down.weight', merge: 1 },
    ]);
    const { problems, tensors } = await ruleless(rules);
    expect(problems).toEqual([]);
    expect(tensors.map(({ shape }) => shape)).toEqual(Array(4).fill([6, 8]));
  });

  it('keep those in force, and ask for the rest', async () => {
    const rules: TpRule[] = [{ pattern: '*.up.weight', merge: 'replicated' }];
    const { problems } = await ruleless([...rules, { pattern: '*.gate.weight', merge: 0 }]);
    expect(ruleDrafts(rules, problems)[0]).toEqual({ pattern: '*.up.weight', how: 'replicated' });
    expect(ruleDrafts(rules, problems).map(({ pattern }) => pattern)).toContain('layers.*.down.weight');
    expect(ruleDrafts(rules, [])).toHaveLength(1);
  });

  it('are told of where no tensor has them', async () => {
    const { warnings } = await ruleless([{ pattern: 'none', merge: 'average' }]);
    expect(warnings.filter(isOfRanks).map(({ code }) => code)).toEqual(['tp-rule-unused']);
    expect(isOfRanks({ code: 'partial', message: '' })).toBe(false);
  });

  it('are none for another problem', () => {
    const problem = { kind: 'missing-shard', code: 'missing-optim-rank', message: '', advice: '' } as const;
    expect(isAboutRanks({ ...problem, facts: {} })).toBe(false);
    expect(ruleDrafts([], [{ ...problem, facts: { tensors: 'a [1]: b' } }])).toEqual([]);
  });
});

describe('rules that were typed', () => {
  it('say nothing until a way is chosen', () => {
    expect(
      finishedRules([
        { pattern: '*', how: '' },
        { pattern: '', how: '' },
      ]),
    ).toEqual([]);
  });

  it('are not finished without a name', () => {
    expect(finishedRules([{ pattern: ' ', how: 'average' }])).toBeUndefined();
    expect(finishedRules([{ pattern: ' a ', how: 'average' }])).toEqual([{ pattern: 'a', merge: 'average' }]);
  });
});
