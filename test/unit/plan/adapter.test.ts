import { describe, expect, test } from 'vitest';
import type { Inventory } from '../../../src/checkpoints/inventory.js';
import { adaptersOf } from '../../../src/plan/lora.js';
import { plan } from '../../../src/plan/make.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { detailOf } from '../../helpers/errors.js';
import { LORA_CONFIG, linear, loraInventory, type TensorSpec } from '../../helpers/lora.js';

const Q = 'base_model.model.model.layers.0.q_proj';

const adapterOf = (inventory: Inventory, options: PlanOptions = {}) =>
  plan(inventory, { output: 'adapter', ...options });

/** The keys of the adapter of a run with the given tensors, besides an ordinary layer. */
function keysOf(specs: readonly TensorSpec[], config: object = LORA_CONFIG, options: PlanOptions = {}): string[] {
  const keys = adapterOf(loraInventory([...linear(Q), ...specs], config), options).tensors.map(({ name }) => name);
  return keys.filter((key) => key !== `${Q}.lora_A.weight` && key !== `${Q}.lora_B.weight`);
}

describe('the adapter', () => {
  test('is its tensors under the keys of PEFT, beside its configuration; the rest is skipped', () => {
    const made = adapterOf(loraInventory([...linear(Q), ['base_model.model.norm.weight', [3]]]));
    expect(made.tensors.map(({ name, to, shape }) => [name, to, shape])).toEqual([
      [`${Q}.lora_A.weight`, 'F32', [2, 3]],
      [`${Q}.lora_B.weight`, 'F32', [4, 2]],
    ]);
    expect(made.files.map(({ path }) => path)).toEqual(['adapter_model.safetensors', 'adapter_config.json']);
    expect(made.files[1]?.parts).toEqual([{ kind: 'copy', at: 0, length: 100, source: 1 }]);
    expect(made.skipped).toEqual([
      { name: `${Q}.base_layer.weight`, reason: 'not part of the adapter' },
      { name: 'base_model.model.norm.weight', reason: 'not part of the adapter' },
    ]);
    expect(made.warnings).toEqual([]);
  });

  test('can be written as torch file and in 16 bits', () => {
    const made = adapterOf(loraInventory(linear(Q)), { format: 'bin', dtype: 'bf16' });
    expect(made.files.map(({ path }) => path)).toEqual(['adapter_model.bin', 'adapter_config.json']);
    expect(made.files[0]?.zip?.records[0]?.name).toBe('adapter_model/data.pkl');
    expect(made.tensors.map(({ to }) => to)).toEqual(['BF16', 'BF16']);
  });

  test('comes without a configuration where there is none: that is told, and nothing is made up', () => {
    const made = adapterOf(loraInventory(linear(Q), null));
    expect(made.files.map(({ path }) => path)).toEqual(['adapter_model.safetensors']);
    expect(made.warnings).toMatchObject([{ code: 'adapter-config-missing' }]);
  });
});

describe('keys', () => {
  test('of embeddings, of the magnitude of DoRA (a module or, before, a parameter) and of biases in lora_B', () => {
    expect(
      keysOf([
        ['base_model.model.wte.base_layer.weight', [5, 3]],
        ['base_model.model.wte.lora_embedding_A.default', [2, 5]],
        ['base_model.model.wte.lora_embedding_B.default', [3, 2]],
        [`${Q}.lora_magnitude_vector.default.weight`, [4]],
        [`${Q}.lora_B.default.bias`, [4]],
      ]),
    ).toEqual([
      'base_model.model.wte.lora_embedding_A',
      'base_model.model.wte.lora_embedding_B',
      `${Q}.lora_magnitude_vector`,
      `${Q}.lora_B.bias`,
    ]);
    expect(keysOf([[`${Q}.lora_magnitude_vector.default`, [4]]])).toEqual([`${Q}.lora_magnitude_vector`]);
  });

  test('of modules that are trained whole lose the wrapper; the originals are not written', () => {
    expect(
      keysOf([
        ['base_model.model.score.original_module.weight', [2, 3]],
        ['base_model.model.score.modules_to_save.default.weight', [2, 3]],
        ['base_model.model.head.modules_to_save.default.dense.bias', [2]],
      ]),
    ).toEqual(['base_model.model.score.weight', 'base_model.model.head.dense.bias']);
  });

  test('of trained tokens', () => {
    const tokens = 'base_model.model.embed_tokens.token_adapter';
    expect(
      keysOf([
        [`${tokens}.base_layer.weight`, [5, 3]],
        [`${tokens}.trainable_tokens_delta.default`, [2, 3]],
      ]),
    ).toEqual([`${tokens}.trainable_tokens_delta`]);
  });

  test('of the base weights of embedding and head are there where the adapter is on them', () => {
    const [embed, head] = ['base_model.model.embed_tokens', 'base_model.model.lm_head'];
    expect(
      keysOf([
        [`${embed}.base_layer.weight`, [5, 3]],
        [`${embed}.lora_embedding_A.default`, [2, 5]],
        [`${embed}.lora_embedding_B.default`, [3, 2]],
        [`${head}.weight`, [5, 3]],
      ]),
    ).toEqual([`${embed}.base_layer.weight`, `${embed}.lora_embedding_A`, `${embed}.lora_embedding_B`]);
  });

  test.each([
    ['none', []],
    ['lora_only', [`${Q}.base_layer.bias`]],
    ['all', [`${Q}.base_layer.bias`, 'base_model.model.norm.bias']],
  ])('of biases follow bias: %s', (bias, expected) => {
    const biases: TensorSpec[] = [
      [`${Q}.base_layer.bias`, [4], { origin: 'master' }],
      ['base_model.model.norm.bias', [3], { origin: 'master' }],
      ['base_model.model.norm.weight', [3]],
    ];
    expect(keysOf(biases, { ...LORA_CONFIG, bias })).toEqual(expected);
  });

  test('of layers that PEFT before 0.6 replaced', () => {
    const old = 'base_model.model.k_proj';
    const specs: TensorSpec[] = [
      [`${old}.weight`, [4, 3]],
      [`${old}.bias`, [4], { origin: 'master' }],
      ...linear(old).slice(1),
    ];
    const keys = [`${old}.lora_A.weight`, `${old}.lora_B.weight`];
    expect(keysOf(specs)).toEqual(keys);
    expect(keysOf(specs, { ...LORA_CONFIG, bias: 'lora_only' })).toEqual([`${old}.bias`, ...keys]);
  });

  test('a module of the name of the adapter keeps its name', () => {
    expect(keysOf([['base_model.model.default.proj.modules_to_save.default.weight', [2]]])).toEqual([
      'base_model.model.default.proj.weight',
    ]);
  });
});

describe('tied weights', () => {
  const saved = (module: string) => `base_model.model.${module}.modules_to_save.default.weight`;
  const inventory = loraInventory([...linear(Q), [saved('embed'), [5, 3]]], LORA_CONFIG, {
    aliases: { [saved('head')]: saved('embed') },
  });

  test('are written under each name, since PEFT looks for each', () => {
    const made = adapterOf(inventory);
    expect(made.tensors.map(({ name }) => name)).toContain('base_model.model.head.weight');
    expect(made.aliases).toEqual({});
  });

  test('share their storage in a torch file', () => {
    const made = adapterOf(inventory, { format: 'bin' });
    expect(made.tensors.map(({ name }) => name)).not.toContain('base_model.model.head.weight');
    expect(made.aliases).toEqual({ 'base_model.model.head.weight': 'base_model.model.embed.weight' });
  });
});

describe('several adapters', () => {
  const both = loraInventory([...linear(Q), ...linear(Q, 'policy').slice(1)]);

  test('are told by the inventory', () => {
    expect(adaptersOf(both)).toEqual(['default', 'policy']);
    expect(adaptersOf(loraInventory([['norm.weight', [3]]]))).toEqual([]);
  });

  test('must be named, and the named one is written alone', () => {
    expect(detailOf(() => adapterOf(both))).toMatchObject({
      kind: 'usage',
      code: 'adapter-ambiguous',
      facts: { found: 'default, policy' },
    });
    const made = adapterOf(both, { adapterName: 'policy' });
    expect(made.tensors.map(({ name, pieces }) => [name, pieces])).toEqual([
      [`${Q}.lora_A.weight`, both.tensors[3]?.stored.pieces],
      [`${Q}.lora_B.weight`, both.tensors[4]?.stored.pieces],
    ]);
    expect(detailOf(() => adapterOf(both, { adapterName: 'other' }))).toMatchObject({
      kind: 'usage',
      code: 'adapter-unknown',
      facts: { expected: 'other', found: 'default, policy' },
    });
  });

  test('come each with its own configuration', () => {
    const companions = [
      ...both.companions,
      { source: 2, name: 'adapter_config.json', text: JSON.stringify(LORA_CONFIG), adapter: 'policy' },
    ];
    const sourceOf = (adapterName: string) => adapterOf({ ...both, companions }, { adapterName }).files[1]?.parts[0];
    expect(sourceOf('policy')).toMatchObject({ kind: 'copy', source: 2 });
    expect(sourceOf('default')).toMatchObject({ kind: 'copy', source: 1 });
  });

  test('a run of one, called otherwise, takes the only configuration there is', () => {
    expect(adapterOf(loraInventory(linear(Q, 'policy'))).files[1]?.path).toBe('adapter_config.json');
  });
});

describe('what stands before the names of the model', () => {
  test('is taken off and told: a wrapper, or the module that holds the PeftModel', () => {
    const made = adapterOf(
      loraInventory([...linear(`_forward_module.net.${Q}`), ['_forward_module.loss.weight', [2]]]),
    );
    expect(made.tensors.map(({ name }) => name)).toEqual([`${Q}.lora_A.weight`, `${Q}.lora_B.weight`]);
    expect(made.warnings).toMatchObject([{ code: 'adapter-prefix' }]);
    expect(made.warnings[0]?.message).toContain('_forward_module.net.');
  });

  test('is put there and told where LoRA is in a model without PeftModel', () => {
    const made = adapterOf(loraInventory(linear('model.q_proj')));
    expect(made.tensors[0]?.name).toBe('base_model.model.model.q_proj.lora_A.weight');
    expect(made.warnings).toMatchObject([{ code: 'adapter-prefix' }]);
  });

  test('must be one: two models are an error', () => {
    const inventory = loraInventory([...linear(`actor.${Q}`), ...linear(`critic.${Q}`)]);
    expect(detailOf(() => adapterOf(inventory))).toMatchObject({
      kind: 'unsupported',
      code: 'adapter-models',
      facts: { expected: 'actor.base_model.model.', found: 'critic.base_model.model.' },
    });
  });
});

describe('a run without LoRA', () => {
  test('has no adapter', () => {
    const inventory = loraInventory([['model.norm.weight', [3]]], null);
    expect(detailOf(() => adapterOf(inventory))).toMatchObject({ kind: 'usage', code: 'adapter-absent' });
    expect(detailOf(() => plan(inventory, { output: 'merged' }))).toMatchObject({ code: 'adapter-absent' });
  });

  test('but with an adapter of another kind is told so', () => {
    const inventory = loraInventory([['base_model.model.q.lora_A.default', [2, 3]]], { peft_type: 'ADALORA' });
    expect(detailOf(() => adapterOf(inventory))).toMatchObject({
      kind: 'unsupported',
      code: 'adapter-kind',
      facts: { file: 'adapter_config.json', found: 'ADALORA' },
    });
  });
});

describe('companions', () => {
  const sources = ['model.pt', 'adapter_config.json', 'config.json', 'tokenizer.json', 'generation_config.json'];
  const inventory = loraInventory(linear(Q), LORA_CONFIG, {
    sources: sources.map((path) => ({ path, size: 1000, modified: 0 })),
    companions: [
      { source: 2, name: 'config.json', text: '{}' },
      { source: 4, name: 'generation_config.json' },
      { source: 3, name: 'tokenizer.json' },
      { source: 1, name: 'adapter_config.json', text: JSON.stringify(LORA_CONFIG), adapter: 'default' },
    ],
  });
  const paths = (options: PlanOptions) => plan(inventory, options).files.map(({ path }) => path);

  test('of an adapter are its configuration and the tokenizer', () => {
    expect(paths({ output: 'adapter' })).toEqual([
      'adapter_model.safetensors',
      'adapter_config.json',
      'tokenizer.json',
    ]);
  });

  test.each(['model', 'merged'] as const)('of a %s are all but the configuration of the adapter', (output) => {
    const companions = ['config.json', 'generation_config.json', 'tokenizer.json'];
    expect(paths({ output })).toEqual(['model.safetensors', ...companions]);
  });
});
