import { describe, expect, test } from 'vitest';
import type { Inventory, TensorEntry } from '../../../src/checkpoints/inventory.js';
import { plan } from '../../../src/plan/make.js';
import { detailOf } from '../../helpers/errors.js';
import { inventoryOf, masterOf } from '../../helpers/inventory.js';

/** A table of `rows` rows of 2 elements. */
const table = (name: string, rows: number, offset = 0): TensorEntry => ({
  ...masterOf(name, rows * 2, offset, true),
  shape: [rows, 2],
});

function withConfig(
  config: string | undefined,
  tensors: readonly TensorEntry[],
  more: Partial<Inventory> = {},
): Inventory {
  const sources = ['rank0.pt', 'rank1.pt', 'config.json'].map((path) => ({ path, size: 1000, modified: 1 }));
  const companions = config === undefined ? [] : [{ source: 2, name: 'config.json', text: config }];
  return inventoryOf(tensors, { sources, companions, ...more });
}

describe('rows and vocab_size', () => {
  test.each([
    'model.embed_tokens.weight',
    'transformer.wte.weight',
    'gpt_neox.embed_in.weight',
    'embed_out.weight',
    'shared.weight',
    'lm_head.weight',
    'bert.embeddings.word_embeddings.weight',
  ])('that differ are told for %s', (name) => {
    const { warnings, tensors } = plan(withConfig('{"vocab_size": 5}', [table(name, 7)]));
    expect(warnings).toEqual([
      {
        code: 'vocab-size',
        message: `${name} has 7 rows; vocab_size in config.json is 5. The rows beyond it can be trimmed.`,
      },
    ]);
    expect(tensors[0]?.shape).toEqual([7, 2]);
  });

  test('that are too few are told as well', () => {
    const { warnings } = plan(withConfig('{"vocab_size": 9}', [table('lm_head.weight', 7)]));
    expect(warnings[0]?.message).toContain('lm_head.weight has 7 rows; vocab_size in config.json is 9.');
  });

  test('that agree are not told, nor those of other tensors', () => {
    const tensors = [table('lm_head.weight', 5), table('model.layers.0.mlp.weight', 7, 100)];
    expect(plan(withConfig('{"vocab_size": 5}', tensors)).warnings).toEqual([]);
  });

  test('of a composed configuration are those of its language model', () => {
    const config = '{"text_config": {"vocab_size": 5}, "vision_config": {"vocab_size": 1}}';
    expect(plan(withConfig(config, [table('lm_head.weight', 7)])).warnings).toMatchObject([{ code: 'vocab-size' }]);
  });

  test.each(['{}', '{"vocab_size": "5"}', '{"vocab_size": -5}', '{"vocab_size": 5.5}', 'no JSON', '[]', 'null'])(
    'are not compared where config.json is %s',
    (config) => {
      expect(plan(withConfig(config, [table('lm_head.weight', 7)])).warnings).toEqual([]);
    },
  );
});

describe('trimVocab', () => {
  test('leaves out the rows beyond it, of master and copy, and tells it', () => {
    const inventory = withConfig('{"vocab_size": 5}', [table('lm_head.weight', 7, 40)]);
    const fp32 = plan(inventory, { trimVocab: true });
    expect(fp32.tensors).toMatchObject([
      { shape: [5, 2], from: 'F32', pieces: [{ source: 0, offset: 40, length: 40, at: 0 }] },
    ]);
    expect(fp32.warnings).toEqual([
      { code: 'vocab-trimmed', message: 'lm_head.weight was trimmed from 7 rows to the 5 of config.json.' },
    ]);
    const bf16 = plan(inventory, { trimVocab: true, dtype: 'bf16' });
    expect(bf16.tensors).toMatchObject([
      { shape: [5, 2], from: 'BF16', pieces: [{ source: 1, offset: 40, length: 20, at: 0 }] },
    ]);
  });

  test('keeps tied names tied', () => {
    const aliases = { 'lm_head.weight': 'model.embed_tokens.weight' };
    const inventory = withConfig('{"vocab_size": 5}', [table('model.embed_tokens.weight', 7)], { aliases });
    const made = plan(inventory, { trimVocab: true });
    expect(made.tensors.map(({ name, shape }) => [name, shape])).toEqual([['model.embed_tokens.weight', [5, 2]]]);
    expect(made.aliases).toEqual(aliases);
    expect(made.warnings).toHaveLength(1);
  });

  test('trims biases of the head, and never adds rows', () => {
    const tensors = [masterOf('lm_head.bias', 7, 0), table('lm_head.weight', 3, 100)];
    const made = plan(withConfig('{"vocab_size": 5}', tensors), { trimVocab: true });
    expect(made.tensors.map(({ shape }) => shape)).toEqual([[5], [3, 2]]);
    expect(made.warnings.map(({ code }) => code)).toEqual(['vocab-trimmed', 'vocab-size']);
  });

  test.each([undefined, '{}'])('is an error where config.json is %s', (config) => {
    const detail = detailOf(() => plan(withConfig(config, [table('lm_head.weight', 7)]), { trimVocab: true }));
    expect(detail).toMatchObject({ kind: 'usage', code: 'vocab-unknown', facts: { file: 'run' } });
  });
});
