import { describe, expect, test } from 'vitest';
import type { TensorEntry } from '../../../src/checkpoints/inventory.js';
import { plan } from '../../../src/plan/make.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { detailOf } from '../../helpers/errors.js';
import { inventoryOf, masterOf } from '../../helpers/inventory.js';

const entry = (name: string, origin: TensorEntry['origin'], i: number): TensorEntry => ({
  ...masterOf(name, 2, 16 * i),
  origin,
});

const INVENTORY = inventoryOf(
  [
    entry('layers.0.weight', 'master', 0),
    entry('layers.0.bias', 'master', 1),
    entry('embed.weight', 'frozen', 2),
    entry('norm.mean', 'buffer', 3),
  ],
  { aliases: { 'head.weight': 'embed.weight', 'last.weight': 'layers.0.weight' } },
);

/** Names that are written, tied names with their owner, and names that are not, with the reason. */
function chosen(options: PlanOptions) {
  const { tensors, aliases, skipped } = plan(INVENTORY, options);
  return {
    tensors: tensors.map(({ name }) => name),
    aliases,
    skipped: Object.fromEntries(skipped.map(({ name, reason }) => [name, reason])),
  };
}

describe('what is left out, with the reason', () => {
  test('nothing by default', () => {
    const { tensors, aliases, skipped } = chosen({});
    expect(tensors).toEqual(['layers.0.weight', 'layers.0.bias', 'embed.weight', 'norm.mean']);
    expect(aliases).toEqual({ 'head.weight': 'embed.weight', 'last.weight': 'layers.0.weight' });
    expect(skipped).toEqual({});
  });

  test('trainableOnly: frozen parameters and buffers', () => {
    expect(chosen({ trainableOnly: true })).toEqual({
      tensors: ['layers.0.weight', 'layers.0.bias'],
      aliases: { 'last.weight': 'layers.0.weight' },
      skipped: {
        'embed.weight': 'not trained, left out as asked',
        'norm.mean': 'not trained, left out as asked',
        'head.weight': 'not trained, left out as asked',
      },
    });
  });

  test('excludeFrozen: frozen parameters alone', () => {
    expect(chosen({ excludeFrozen: true }).tensors).toEqual(['layers.0.weight', 'layers.0.bias', 'norm.mean']);
  });

  test('include: all names that match no pattern', () => {
    const { tensors, aliases, skipped } = chosen({ include: ['layers.*', '*.mean'] });
    expect(tensors).toEqual(['layers.0.weight', 'layers.0.bias', 'norm.mean']);
    expect(aliases).toEqual({});
    expect(skipped['embed.weight']).toBe('not among the names asked for');
    expect(skipped['last.weight']).toBe('not among the names asked for');
  });

  test('exclude: names that match a pattern, also of those that are included', () => {
    const { tensors, skipped } = chosen({ include: ['layers.*', '*.mean'], exclude: ['*.bias', 'norm*'] });
    expect(tensors).toEqual(['layers.0.weight']);
    expect(skipped['layers.0.bias']).toBe('left out as asked');
  });

  test('a tied name is written with the bits of its owner where that alone is left out', () => {
    const made = plan(INVENTORY, { exclude: ['embed.weight'] });
    expect(made.aliases).toEqual({ 'last.weight': 'layers.0.weight' });
    expect(made.tensors.find(({ name }) => name === 'head.weight')?.pieces).toEqual(
      INVENTORY.tensors[2]?.stored.pieces,
    );
  });

  test('patterns that match no name are told, and others are not', () => {
    const told = (options: PlanOptions) => plan(INVENTORY, options).warnings;
    expect(told({ include: ['layers.*', 'lm_head*'] })).toEqual([
      { code: 'pattern-unused', message: 'No name matches lm_head*, which was to be written.' },
    ]);
    expect(told({ exclude: ['*.bais', 'head.*'] })).toEqual([
      { code: 'pattern-unused', message: 'No name matches *.bais, which was to be left out.' },
    ]);
    const dtypeFor = ['*nrom*', 'embed*', 'head*'].map((pattern) => ({ pattern, dtype: 'bf16' as const }));
    expect(told({ dtypeFor })).toEqual([
      {
        code: 'pattern-unused',
        message: 'No name that is written matches *nrom*, which was to have a dtype of its own.',
      },
    ]);
    expect(told({ include: ['layers.*'], dtypeFor: [{ pattern: 'norm*', dtype: 'bf16' }] })).toHaveLength(1);
    expect(told({ include: ['*'], exclude: ['*.bias'], dtypeFor: [{ pattern: 'norm*', dtype: 'bf16' }] })).toEqual([]);
  });

  test('everything is an error', () => {
    expect(detailOf(() => plan(INVENTORY, { include: ['nothing*'] }))).toMatchObject({ code: 'nothing-to-write' });
  });
});
