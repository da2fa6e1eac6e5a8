import { describe, expect, test } from 'vitest';
import { plan } from '../../../src/plan/make.js';
import { offeredPrefix } from '../../../src/plan/names.js';
import { detailOf } from '../../helpers/errors.js';
import { inventoryOf, masterOf } from '../../helpers/inventory.js';

const named = (...names: string[]) => inventoryOf(names.map((name, i) => masterOf(name, 2, 16 * i)));

describe('offeredPrefix', () => {
  test.each([
    [['module.a', 'module.b'], 'module.', 'a'],
    [['_forward_module.a.w', '_forward_module.b'], '_forward_module.', 'a.w'],
    [['_orig_mod.a'], '_orig_mod.', 'a'],
    [
      ['_forward_module.module._orig_mod.a', '_forward_module.module._orig_mod.b'],
      '_forward_module.module._orig_mod.',
      'a',
    ],
    [['module._orig_mod.a', 'module.b'], 'module.', '_orig_mod.a'],
    [['module.module.a', 'module.module.b'], 'module.module.', 'a'],
  ])('of %j is %s', (names, prefix, after) => {
    expect(offeredPrefix(named(...names))).toEqual({ prefix, before: names[0], after });
  });

  test.each([[['module.a', 'b']], [['model.a', 'model.b']], [['module.', 'module.b']], [['a']]])(
    'is none for %j',
    (names) => {
      expect(offeredPrefix(named(...names))).toBeUndefined();
    },
  );

  test('is none where a tied name does not have it', () => {
    const inventory = inventoryOf([masterOf('module.a', 2, 0)], { aliases: { head: 'module.a' } });
    expect(offeredPrefix(inventory)).toBeUndefined();
    expect(offeredPrefix({ ...inventory, aliases: { 'module.head': 'module.a' } })?.prefix).toBe('module.');
  });
});

describe('a shared prefix', () => {
  test('is told with one name before and after, and stays', () => {
    const made = plan(named('module.a', 'module.b'));
    expect(made.tensors.map(({ name }) => name)).toEqual(['module.a', 'module.b']);
    expect(made.warnings).toMatchObject([{ code: 'prefix-offered' }]);
    expect(made.warnings[0]?.message).toContain('Every name (2 of them) starts with module.');
    expect(made.warnings[0]?.message).toContain('module.a would be a');
  });

  test('is stripped where asked, from tied names as well', () => {
    const inventory = inventoryOf([masterOf('module.a', 2, 0)], { aliases: { 'module.head': 'module.a' } });
    const made = plan(inventory, { stripPrefix: 'module.' });
    expect(made.tensors.map(({ name }) => name)).toEqual(['a']);
    expect(made.aliases).toEqual({ head: 'a' });
    expect(made.warnings).toEqual([]);
  });
});

describe('stripPrefix', () => {
  test('leaves names that do not have the prefix', () => {
    const made = plan(named('module.a', 'b'), { stripPrefix: 'module.' });
    expect(made.tensors.map(({ name }) => name)).toEqual(['a', 'b']);
  });

  test('that makes two names equal is an error', () => {
    const detail = detailOf(() => plan(named('module.a', 'a'), { stripPrefix: 'module.' }));
    expect(detail).toMatchObject({
      kind: 'usage',
      code: 'names-collide',
      facts: { tensor: 'a', expected: 'module.a', found: 'a' },
    });
  });

  test('that no name has is an error', () => {
    const detail = detailOf(() => plan(named('a', 'b'), { stripPrefix: 'module.' }));
    expect(detail).toMatchObject({ kind: 'usage', code: 'prefix-absent', facts: { expected: 'module.', found: 'a' } });
  });

  test('that leaves nothing of a name is an error', () => {
    expect(detailOf(() => plan(named('module.'), { stripPrefix: 'module.' }))).toMatchObject({ code: 'name-bad' });
  });

  test('comes before the patterns, which match the names of the output', () => {
    const made = plan(named('module.a', 'module.b'), {
      stripPrefix: 'module.',
      exclude: ['b'],
      dtypeFor: [{ pattern: 'a', dtype: 'bf16' }],
    });
    expect(made.tensors.map(({ name, to }) => [name, to])).toEqual([['a', 'BF16']]);
    expect(made.skipped).toEqual([{ name: 'module.b', reason: 'left out as asked' }]);
  });
});
