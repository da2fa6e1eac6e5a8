import { describe, expect, test } from 'vitest';
import { adapterNames, loraLayers, loraName, originalName, savedName } from '../../../src/checkpoints/peft-names.js';

const NAMES = [
  'base_model.model.q.base_layer.weight',
  'base_model.model.q.lora_A.default.weight',
  'base_model.model.q.lora_B.default.weight',
  'base_model.model.q.lora_magnitude_vector.default.weight',
  'base_model.model.embed.lora_embedding_A.policy',
  'base_model.model.embed.lora_embedding_B.policy',
  'base_model.model.norm.weight',
];

test('loraLayers finds linear layers and embeddings, and nothing else', () => {
  expect([...loraLayers(NAMES)]).toEqual(['base_model.model.q', 'base_model.model.embed']);
});

describe('loraName', () => {
  const layers = loraLayers(NAMES);

  test.each([
    ['base_model.model.q.lora_A.default.weight', 'base_model.model.q', 'lora_A', 'default', 'weight'],
    ['base_model.model.q.lora_B.default.bias', 'base_model.model.q', 'lora_B', 'default', 'bias'],
    ['base_model.model.q.lora_magnitude_vector.default', 'base_model.model.q', 'lora_magnitude_vector', 'default', ''],
    ['base_model.model.embed.lora_embedding_A.policy', 'base_model.model.embed', 'lora_embedding_A', 'policy', ''],
    ['base_model.model.q.lora_new.policy.a.b', 'base_model.model.q', 'lora_new', 'policy', 'a.b'],
  ])('takes %s apart', (name, layer, attribute, adapter, rest) => {
    expect(loraName(name, layers)).toEqual({ layer, attribute, adapter, rest });
  });

  test.each([
    'base_model.model.q.base_layer.weight',
    'base_model.model.q.weight',
    'base_model.model.norm.weight',
    'q.lora_A.default.weight',
    '',
  ])('does not take %j for a part of an adapter', (name) => {
    expect(loraName(name, layers)).toBeUndefined();
  });

  test('of layers in layers it takes the inner one', () => {
    const nested = loraLayers(['attn.lora_A.default.weight', 'attn.base_layer.out.lora_A.default.weight']);
    expect(loraName('attn.base_layer.out.lora_A.default.weight', nested)?.layer).toBe('attn.base_layer.out');
    expect(loraName('attn.base_layer.in_proj_weight', nested)).toBeUndefined();
  });
});

test('savedName and originalName take modules apart that are trained whole', () => {
  expect(savedName('m.head.modules_to_save.policy.dense.weight')).toEqual({
    module: 'm.head',
    adapter: 'policy',
    rest: 'dense.weight',
  });
  expect(originalName('m.head.original_module.dense.weight')).toEqual({ module: 'm.head', rest: 'dense.weight' });
  expect(savedName('m.head.weight')).toBeUndefined();
  expect(savedName('m.head.modules_to_save.policy')).toBeUndefined();
  expect(originalName('m.head.weight')).toBeUndefined();
});

test('adapterNames lists every adapter once, in order, and none for AdaLoRA and other kinds', () => {
  expect(adapterNames(NAMES)).toEqual(['default', 'policy']);
  expect(adapterNames(['q.lora_A.default', 'q.lora_E.default', 'q.ia3_l.default', 'norm.weight'])).toEqual([]);
});
