import { describe, expect, test } from 'vitest';
import type { Inventory } from '../../../src/checkpoints/inventory.js';
import { plan } from '../../../src/plan/make.js';
import type { Compute, PlanOptions } from '../../../src/plan/plan.js';
import { detailOf } from '../../helpers/errors.js';
import { LORA_CONFIG, linear, loraInventory, type TensorSpec } from '../../helpers/lora.js';

const Q = 'base_model.model.layers.0.q_proj';

const mergedOf = (inventory: Inventory, options: PlanOptions = {}) => plan(inventory, { output: 'merged', ...options });

/** How the tensor of a name is computed. */
function loraOf(inventory: Inventory, name = 'layers.0.q_proj.weight', options: PlanOptions = {}) {
  const tensor = mergedOf(inventory, options).tensors.find((candidate) => candidate.name === name);
  if (tensor?.compute?.kind !== 'lora') throw new Error(`${name} is not merged`);
  return tensor.compute satisfies Compute;
}

/** A layer with tensors of the given shapes. */
const layer = (weight: number[], a: number[], b: number[], name = Q): TensorSpec[] => [
  [`${name}.base_layer.weight`, weight],
  [`${name}.lora_A.default.weight`, a],
  [`${name}.lora_B.default.weight`, b],
];

const refusal = (inventory: Inventory) => detailOf(() => mergedOf(inventory));

describe('merging', () => {
  const inventory = loraInventory([
    ...linear(Q),
    [`${Q}.base_layer.bias`, [4]],
    ['base_model.model.norm.weight', [3]],
    ['base_model.model.ids', [2], { dtype: 'I64', origin: 'buffer' }],
  ]);

  test('gives the base model under its own names, and computes the weight of the layer', () => {
    const made = mergedOf(inventory);
    expect(made.tensors.map(({ name, from, to }) => [name, from, to])).toEqual([
      ['layers.0.q_proj.weight', 'BF16', 'F32'],
      ['layers.0.q_proj.bias', 'BF16', 'F32'],
      ['norm.weight', 'BF16', 'F32'],
      ['ids', 'I64', 'I64'],
    ]);
    const [weight, ...others] = made.tensors;
    expect(weight).toMatchObject({ origin: 'frozen', fromCopy: false, pieces: inventory.tensors[0]?.stored.pieces });
    expect(weight?.compute).toEqual({
      kind: 'lora',
      a: inventory.tensors[1]?.stored,
      b: inventory.tensors[2]?.stored,
      rank: 2,
      rows: 4,
      columns: 3,
      scale: 3,
      transpose: false,
    });
    expect(others.map(({ compute }) => compute)).toEqual([undefined, undefined, undefined]);
    expect(made.warnings).toEqual([]);
  });

  test('lists the tensors of the adapter as merged', () => {
    expect(mergedOf(inventory).skipped).toEqual([
      { name: `${Q}.lora_A.default.weight`, reason: 'merged into its layer' },
      { name: `${Q}.lora_B.default.weight`, reason: 'merged into its layer' },
    ]);
  });

  test('counts what is read, and names the files as those of a model', () => {
    const made = mergedOf(inventory);
    expect(made.totals.inputBytes).toBe(2 * 12 + 4 * 6 + 4 * 8 + 2 * 4 + 2 * 3 + 16);
    expect(made.files.map(({ path }) => path)).toEqual(['model.safetensors', 'config.json']);
  });

  test('keeps the dtype of the weight where each is kept', () => {
    expect(mergedOf(inventory, { dtype: 'keep' }).tensors[0]).toMatchObject({ from: 'BF16', to: 'BF16' });
    expect(mergedOf(inventory, { dtype: 'fp16' }).tensors[0]).toMatchObject({ from: 'BF16', to: 'F16' });
  });

  test('a merged weight is trained, and not frozen', () => {
    const names = (options: PlanOptions) => mergedOf(inventory, options).tensors.map(({ name }) => name);
    expect(names({ trainableOnly: true })).toEqual(['layers.0.q_proj.weight']);
    expect(names({ excludeFrozen: true })).toEqual(['layers.0.q_proj.weight', 'ids']);
  });

  test('finds the weights of layers that PEFT before 0.6 replaced', () => {
    const old: TensorSpec[] = [[`${Q}.weight`, [4, 3]], [`${Q}.bias`, [4]], ...linear(Q).slice(1)];
    const made = mergedOf(loraInventory(old));
    expect(made.tensors.map(({ name, compute }) => [name, compute?.kind])).toEqual([
      ['layers.0.q_proj.weight', 'lora'],
      ['layers.0.q_proj.bias', undefined],
    ]);
  });

  test('leaves names outside the PeftModel as they are', () => {
    const made = mergedOf(loraInventory([...linear(`net.${Q}`), ['loss.weight', [2], { origin: 'master' }]]));
    expect(made.tensors.map(({ name }) => name)).toEqual(['layers.0.q_proj.weight', 'loss.weight']);
  });

  test('that makes two names equal is an error', () => {
    const found = loraInventory([...linear(`net.${Q}`), ['layers.0.q_proj.weight', [2]]]);
    expect(refusal(found)).toMatchObject({ code: 'names-collide', facts: { tensor: 'layers.0.q_proj.weight' } });
  });

  test('tells that there is no config.json to write beside it', () => {
    const made = mergedOf({ ...inventory, companions: inventory.companions.slice(1) });
    expect(made.warnings).toMatchObject([{ code: 'config-missing' }]);
  });
});

describe('the scale', () => {
  test.each([
    [{}, 6 / 2],
    [{ use_rslora: true }, 6 / Math.sqrt(2)],
    [{ lora_alpha: 1.5 }, 0.75],
    [{ alpha_pattern: { q_proj: 8 } }, 4],
    [{ alpha_pattern: { 'layers.0.q_proj': 8 } }, 4],
    [{ alpha_pattern: { '^layers.0.q_proj': 8 } }, 4],
    [{ alpha_pattern: { 'layers\\.0\\.q_proj$': 8 } }, 4],
    [{ alpha_pattern: { _proj: 8, '0.q_proj': 10, q_proj: 12 } }, 5],
    [{ alpha_pattern: { 'layers\\.(1|2)\\..*': 8, 'layers\\.[0-9]+\\.(q|k)_proj': 10 } }, 5],
    [{ alpha_pattern: { '.*_proj': 8 } }, 4],
    [{ alpha_pattern: { '(a+)+$': 8 } }, 3],
    [{ alpha_pattern: { k_proj: 8, '^q_proj': 8, 'base_model.model.layers.0.q_proj': 8 } }, 3],
    [{ r: 9, rank_pattern: { q_proj: 2 } }, 3],
    [{ r: 9, rank_pattern: { q_proj: 2 }, alpha_pattern: { q_proj: 8 }, use_rslora: true }, 8 / Math.sqrt(2)],
  ])('with %j is %d', (config, scale) => {
    expect(loraOf(loraInventory(linear(Q), { ...LORA_CONFIG, ...config })).scale).toBe(scale);
  });
});

describe('the scale that options give', () => {
  const scalesOf = (lora: PlanOptions['lora'], config: object | null = null) => {
    const made = plan(loraInventory(linear(Q), config), { output: 'merged', ...(lora ? { lora } : {}) });
    const scales = made.tensors.map(({ compute }) => (compute?.kind === 'lora' ? compute.scale : undefined));
    return { scales, codes: made.warnings.map(({ code }) => code) };
  };

  test('stands in for adapter_config.json, with the rank that the matrices show, and is told', () => {
    expect(scalesOf({ alpha: 6 })).toEqual({ scales: [3], codes: ['merge-scale-given'] });
    expect(scalesOf({ alpha: 6, r: 2 }).scales).toEqual([3]);
    expect(scalesOf({ alpha: 6, rslora: true }).scales).toEqual([6 / Math.sqrt(2)]);
    expect(scalesOf(undefined, LORA_CONFIG)).toEqual({ scales: [3], codes: [] });
  });

  test('is refused where the rank is another, or the file is there', () => {
    expect(detailOf(() => scalesOf({ alpha: 6, r: 4 }))).toMatchObject({ code: 'adapter-rank' });
    expect(detailOf(() => scalesOf({ alpha: 6 }, LORA_CONFIG))).toMatchObject({
      kind: 'usage',
      code: 'lora-given-twice',
      facts: { file: 'adapter_config.json' },
    });
  });

  test('leaves it to the other matrices which way round a square one is', () => {
    const square = (layer: string): TensorSpec[] => [
      [`${layer}.base_layer.weight`, [4, 4]],
      [`${layer}.lora_A.default.weight`, [2, 4]],
      [`${layer}.lora_B.default.weight`, [4, 2]],
    ];
    const turned: TensorSpec[] = [
      ['h.c_attn.base_layer.weight', [4, 6]],
      ['h.c_attn.lora_A.default.weight', [2, 4]],
      ['h.c_attn.lora_B.default.weight', [6, 2]],
    ];
    const transposed = (specs: readonly TensorSpec[]) =>
      plan(loraInventory(specs, null), { output: 'merged', lora: { alpha: 4 } }).tensors.map(
        ({ compute }) => compute?.kind === 'lora' && compute.transpose,
      );
    expect(transposed(square('h.c_proj'))).toEqual([false]);
    expect(transposed([...square('h.c_proj'), ...turned])).toEqual([true, true]);
    expect(transposed([...square('h.c_proj'), ...linear('h.q')])).toEqual([false, false]);
    const mixed = [...square('h.c_proj'), ...turned, ...linear('h.q')];
    expect(detailOf(() => transposed(mixed))).toMatchObject({ code: 'merge-unsupported' });
  });
});

describe('which way round a weight is', () => {
  test('is told by the shapes', () => {
    const inOut = loraInventory(layer([3, 4], [2, 3], [4, 2]), { ...LORA_CONFIG, fan_in_fan_out: true });
    expect(loraOf(inOut)).toMatchObject({ transpose: true, rows: 3, columns: 4 });
    const outIn = loraInventory(layer([4, 3], [2, 3], [4, 2]), { ...LORA_CONFIG, fan_in_fan_out: true });
    expect(loraOf(outIn)).toMatchObject({ transpose: false, rows: 4, columns: 3 });
  });

  test.each([true, false])('is told by the configuration where a weight is square (%s)', (turned) => {
    const inventory = loraInventory(layer([3, 3], [2, 3], [3, 2]), { ...LORA_CONFIG, fan_in_fan_out: turned });
    expect(loraOf(inventory).transpose).toBe(turned);
  });

  test('is not known where a square weight is beside one that contradicts the configuration', () => {
    const inventory = loraInventory([
      ...layer([3, 3], [2, 3], [3, 2]),
      ...layer([3, 4], [2, 3], [4, 2], 'base_model.model.fc'),
    ]);
    expect(refusal(inventory)).toMatchObject({ kind: 'unsupported', code: 'merge-unsupported', facts: { tensor: Q } });
  });

  test('of an embedding is always turned, also where it is square', () => {
    const name = 'base_model.model.wte';
    const inventory = loraInventory([
      [`${name}.base_layer.weight`, [3, 3]],
      [`${name}.lora_embedding_A.default`, [2, 3]],
      [`${name}.lora_embedding_B.default`, [3, 2]],
    ]);
    expect(loraOf(inventory, 'wte.weight')).toMatchObject({ transpose: true, rows: 3, columns: 3, rank: 2 });
  });

  test('of a convolution: its kernel is part of A', () => {
    const inventory = loraInventory(layer([4, 3, 5, 5], [2, 3, 5, 5], [4, 2, 1, 1]));
    expect(loraOf(inventory)).toMatchObject({ transpose: false, rows: 4, columns: 75 });
  });
});

describe('modules that are trained whole', () => {
  const saved = (adapter: string): TensorSpec => [`base_model.model.head.modules_to_save.${adapter}.weight`, [5, 3]];
  const original: TensorSpec = ['base_model.model.head.original_module.weight', [5, 3]];

  test('take the place of the originals', () => {
    const inventory = loraInventory([...linear(Q), original, saved('default')]);
    const made = mergedOf(inventory);
    const head = made.tensors.find(({ name }) => name === 'head.weight');
    expect(head?.pieces).toEqual(inventory.tensors[4]?.stored.pieces);
    expect(made.skipped).toContainEqual({
      name: original[0],
      reason: 'replaced by the copy that was trained with the adapter',
    });
  });

  test('of another adapter do not: the original is written', () => {
    const inventory = loraInventory([...linear(Q), ...linear(Q, 'policy').slice(1), original, saved('policy')]);
    const made = mergedOf(inventory, { adapterName: 'default' });
    expect(made.tensors.find(({ name }) => name === 'head.weight')?.pieces).toEqual(
      inventory.tensors[5]?.stored.pieces,
    );
    expect(made.skipped).toContainEqual({ name: saved('policy')[0], reason: 'part of another adapter' });
    expect(made.skipped).toContainEqual({ name: `${Q}.lora_A.policy.weight`, reason: 'part of another adapter' });
  });

  test('may hold layers of the adapter themselves', () => {
    const head = 'base_model.model.head';
    const inventory = loraInventory([
      ...linear(`${head}.modules_to_save.default`),
      ...linear(`${head}.original_module`),
      ['base_model.model.norm.weight', [3]],
    ]);
    const made = mergedOf(inventory);
    expect(made.tensors.map(({ name }) => name)).toEqual(['head.weight', 'norm.weight']);
    expect(made.tensors[0]?.compute).toMatchObject({
      a: inventory.tensors[1]?.stored,
      b: inventory.tensors[2]?.stored,
    });
  });

  test('that were tied are not any more, which is told', () => {
    const more = { aliases: { 'base_model.model.lm_head.weight': original[0] } };
    const made = mergedOf(loraInventory([...linear(Q), original, saved('default')], LORA_CONFIG, more));
    expect(made.tensors.map(({ name }) => name)).toEqual(['layers.0.q_proj.weight', 'head.weight', 'lm_head.weight']);
    expect(made.warnings).toMatchObject([{ code: 'merged-untied' }]);
    expect(made.warnings[0]?.message).toContain('lm_head.weight');
  });

  test('that were tied are not in config.json of the output, but for encoder-decoders', () => {
    const aliases = { 'base_model.model.lm_head.weight': original[0] };
    const config = (text: string, specs: readonly TensorSpec[]) => {
      const companions = [{ source: 2, name: 'config.json', text }];
      const inventory = loraInventory([...linear(Q), original, ...specs], LORA_CONFIG, { aliases });
      const made = mergedOf({ ...inventory, companions: [...companions, ...inventory.companions.slice(1)] });
      const [part] = made.files.find(({ path }) => path === 'config.json')?.parts ?? [];
      const written = part?.kind === 'literal' ? JSON.parse(Buffer.from(part.base64, 'base64').toString()) : {};
      return { tied: written.tie_word_embeddings, told: made.warnings.map(({ message }) => message).join() };
    };
    const [tied, unread] = [
      '{"tie_word_embeddings": true}',
      '{"is_encoder_decoder": true, "tie_word_embeddings": true}',
    ];
    expect(config(tied, [saved('default')])).toEqual({
      tied: false,
      told: expect.stringContaining('tie_word_embeddings is false in config.json of the output'),
    });
    expect(config('{}', [saved('default')]).tied).toBe(false);
    expect(config(tied, []).tied).toBe(true);
    expect(config(unread, [saved('default')])).toEqual({
      tied: true,
      told: expect.stringContaining('Set tie_word_embeddings to false in config.json'),
    });
  });
});

describe('tied weights', () => {
  const head = 'base_model.model.lm_head';

  test('are merged under both names, which is told', () => {
    const more = { aliases: { [`${head}.weight`]: `${Q}.base_layer.weight` } };
    const made = mergedOf(loraInventory(linear(Q), LORA_CONFIG, more));
    expect(made.aliases).toEqual({ 'lm_head.weight': 'layers.0.q_proj.weight' });
    expect(made.warnings).toMatchObject([{ code: 'merged-tied' }]);
  });

  test('with an adapter on each are refused', () => {
    const more = { aliases: { [`${head}.base_layer.weight`]: `${Q}.base_layer.weight` } };
    const inventory = loraInventory([...linear(Q), ...linear(head).slice(1)], LORA_CONFIG, more);
    expect(refusal(inventory)).toMatchObject({ code: 'merge-unsupported' });
  });
});

describe('merging is refused, with the reason', () => {
  test('where adapter_config.json is missing: it is named', () => {
    expect(refusal(loraInventory(linear(Q), null))).toMatchObject({
      kind: 'missing-shard',
      code: 'adapter-config-missing',
      facts: { file: 'adapter_config.json' },
    });
    const policy = loraInventory(linear(Q, 'policy'), null);
    expect(refusal(policy)).toMatchObject({ facts: { file: 'policy/adapter_config.json' } });
  });

  test('where the frozen weights are not in the checkpoint', () => {
    const inventory = loraInventory([...linear(Q), ...linear('base_model.model.v').slice(1)]);
    expect(refusal(inventory)).toMatchObject({
      kind: 'missing-shard',
      code: 'merge-base-missing',
      facts: { tensor: 'base_model.model.v', expected: 2, found: 1 },
    });
  });

  test.each([
    'use_dora',
    'use_qalora',
    'lora_bias',
    'target_parameters',
    'trainable_token_indices',
    'layer_replication',
    'alora_invocation_tokens',
    'kasa_config',
  ])('where the configuration has %s', (field) => {
    const value = field.startsWith('use') || field === 'lora_bias' ? true : [1];
    const detail = refusal(loraInventory(linear(Q), { ...LORA_CONFIG, [field]: value }));
    expect(detail).toMatchObject({
      kind: 'unsupported',
      code: 'merge-unsupported',
      facts: { tensor: 'adapter_config.json' },
    });
    expect(detail.message).toContain(field);
    for (const unset of [false, null, []]) {
      expect(() => mergedOf(loraInventory(linear(Q), { ...LORA_CONFIG, [field]: unset }))).not.toThrow();
    }
  });

  test.each<[string, TensorSpec[]]>([
    ['a magnitude of DoRA', [...linear(Q), [`${Q}.lora_magnitude_vector.default.weight`, [4]]]],
    ['no lora_B', linear(Q).slice(0, 2)],
    ['a quantised weight', [[`${Q}.base_layer.weight`, [6, 1], { dtype: 'U8' }], ...linear(Q).slice(1)]],
    ['an attention with its weights in one', [[`${Q}.base_layer.in_proj_weight`, [4, 3]], ...linear(Q).slice(1)]],
  ])('where a layer has %s', (_, specs) => {
    expect(refusal(loraInventory(specs))).toMatchObject({ kind: 'unsupported', code: 'merge-unsupported' });
  });

  test.each<[string, TensorSpec[]]>([
    ['A does not fit', layer([4, 3], [2, 5], [4, 2])],
    ['B does not fit', layer([4, 3], [2, 3], [5, 2])],
    ['the ranks of A and B differ', layer([4, 3], [2, 3], [4, 3])],
    ['the weight is a convolution of groups', layer([4, 1, 5], [2, 4, 5], [4, 2, 1])],
    ['B has a kernel', layer([4, 3, 5], [2, 3, 5], [4, 2, 5])],
  ])('where %s', (_, specs) => {
    expect(refusal(loraInventory(specs))).toMatchObject({
      kind: 'inconsistent',
      code: 'adapter-shape',
      facts: { tensor: Q },
    });
  });

  test('where the rank is not the one of the configuration', () => {
    expect(refusal(loraInventory(linear(Q), { ...LORA_CONFIG, r: 8 }))).toMatchObject({
      kind: 'inconsistent',
      code: 'adapter-rank',
      facts: { file: 'adapter_config.json', expected: '8', found: 2 },
    });
  });

  test('where a pattern is a regular expression that is not read', () => {
    const config = { ...LORA_CONFIG, alpha_pattern: { '(?=q)q_proj': 8 } };
    expect(refusal(loraInventory(linear(Q), config))).toMatchObject({
      kind: 'unsupported',
      code: 'adapter-pattern',
      facts: { found: '(?=q)q_proj' },
    });
  });
});

describe('adapter_config.json', () => {
  test.each<[string, object, string]>([
    ['peft_type', { peft_type: 'IA3' }, 'adapter-kind'],
    ['peft_type', { peft_type: undefined }, 'adapter-kind'],
    ['r', { r: '8' }, 'adapter-config-bad'],
    ['r', { r: 0 }, 'adapter-config-bad'],
    ['lora_alpha', { lora_alpha: undefined }, 'adapter-config-bad'],
    ['lora_alpha', { lora_alpha: -1 }, 'adapter-config-bad'],
    ['bias', { bias: 'some' }, 'adapter-config-bad'],
    ['alpha_pattern', { alpha_pattern: [] }, 'adapter-config-bad'],
    ['alpha_pattern', { alpha_pattern: { q: 'x' } }, 'adapter-config-bad'],
    ['rank_pattern', { rank_pattern: 3 }, 'adapter-config-bad'],
  ])('with a wrong %s is refused: %j', (_, config, code) => {
    expect(refusal(loraInventory(linear(Q), { ...LORA_CONFIG, ...config }))).toMatchObject({ code });
  });

  test.each(['', 'no JSON', '[]', 'null', '{"lora_alpha": 1e999, "r": 2, "peft_type": "LORA"}'])(
    'that is %j is refused',
    (text) => {
      const inventory = loraInventory(linear(Q));
      const companions = inventory.companions.map((companion) => ({ ...companion, text }));
      expect(refusal({ ...inventory, companions })).toMatchObject({ kind: 'bad-file', code: 'adapter-config-bad' });
    },
  );

  test('of null patterns and no bias is read', () => {
    const config = { peft_type: 'LORA', r: 2, lora_alpha: 6, alpha_pattern: null, rank_pattern: null };
    expect(loraOf(loraInventory(linear(Q), config)).scale).toBe(3);
  });
});

test('trimVocab leaves rows out of a merged embedding: its adapter is read as it is stored', () => {
  const name = 'base_model.model.embed_tokens';
  const specs: TensorSpec[] = [
    [`${name}.base_layer.weight`, [7, 3]],
    [`${name}.lora_embedding_A.default`, [2, 7]],
    [`${name}.lora_embedding_B.default`, [3, 2]],
  ];
  const inventory = loraInventory(specs);
  const companions = inventory.companions.map((companion) =>
    companion.name === 'config.json' ? { ...companion, text: '{"vocab_size": 5}' } : companion,
  );
  const [tensor] = mergedOf({ ...inventory, companions }, { trimVocab: true }).tensors;
  expect(tensor).toMatchObject({ shape: [5, 3], pieces: [{ source: 0, offset: 0, length: 30, at: 0 }] });
  expect(tensor?.compute).toMatchObject({ rows: 7, columns: 3, a: inventory.tensors[1]?.stored });
});

describe('an adapter of which tensors are lost', () => {
  const specs: TensorSpec[] = [...linear(Q), ['base_model.model.head.original_module.weight', [2, 3]]];
  const without = (...names: string[]) =>
    loraInventory(specs, LORA_CONFIG, { skipped: names.map((name) => ({ name, reason: 'lost' })) });

  test.each([
    'base_model.model.layers.1.q_proj.lora_A.default.weight',
    'base_model.model.head.modules_to_save.default.weight',
  ])('is not merged without %s', (name) => {
    const found = refusal(without('other.bias', name));
    expect({ code: found.code, facts: found.facts }).toEqual({
      code: 'adapter-incomplete',
      facts: { file: 'run', tensor: name, found: 1 },
    });
  });

  test('is merged where what is lost belongs to another one, or to none', () => {
    const inventory = without(
      'layers.1.q_proj.lora_A.second.weight',
      'head.modules_to_save.second.weight',
      'other.bias',
    );
    expect(mergedOf(inventory).tensors).toHaveLength(2);
  });
});
