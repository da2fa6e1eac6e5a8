import { describe, expect, it } from 'vitest';
import { type Choices, choicesFor, DEFAULT_CHOICES, planOptions, SHARD_SIZES } from '../../../src/ui/choices.js';

const defaults = {
  output: 'model',
  dtype: 'fp32',
  dtypeFor: [],
  format: 'safetensors',
  excludeFrozen: false,
  trainableOnly: false,
  include: [],
  exclude: [],
  trimVocab: false,
  duplicateTied: false,
  overflow: 'error',
};

function optionsOf(choices: Partial<Choices>): ReturnType<typeof planOptions> {
  return planOptions({ ...DEFAULT_CHOICES, ...choices });
}

describe('planOptions', () => {
  it('leaves the size open for one file', () => {
    expect(planOptions(DEFAULT_CHOICES)).toEqual(defaults);
  });

  it.each(SHARD_SIZES)('takes the offered size %d', (size) => {
    expect(optionsOf({ shardSize: String(size) })).toEqual({ ...defaults, maxShardSize: size });
  });

  it('reads the size that was typed', () => {
    const options = optionsOf({ shardSize: 'custom', customSize: ' 1.5 gb ' });
    expect(options).toEqual({ ...defaults, maxShardSize: 1_500_000_000 });
  });

  it('gives no options for a size that is none', () => {
    expect(optionsOf({ shardSize: 'custom', customSize: '4 apples' })).toBeUndefined();
  });

  it.each(['16', ' 16 '])('takes %j as lora_alpha of a merge', (loraAlpha) => {
    expect(optionsOf({ output: 'merged', loraAlpha })).toEqual({ ...defaults, output: 'merged', lora: { alpha: 16 } });
  });

  it.each(['16 apples', '0', '-1', 'Infinity'])('gives no options for %j as lora_alpha of a merge', (loraAlpha) => {
    expect(optionsOf({ output: 'merged', loraAlpha })).toBeUndefined();
    expect(optionsOf({ output: 'model', loraAlpha })).toEqual(defaults);
  });

  it('leaves the scale to adapter_config.json where no lora_alpha is typed', () => {
    const choices = { output: 'merged', loraAlpha: ' ', loraR: '8', loraRslora: true } as const;
    expect(optionsOf(choices)).toEqual({ ...defaults, output: 'merged' });
  });

  it('takes rank and use_rslora beside lora_alpha', () => {
    const choices = { output: 'merged', loraAlpha: '16', loraR: ' 8 ', loraRslora: true } as const;
    expect(optionsOf(choices)?.lora).toEqual({ alpha: 16, r: 8, rslora: true });
  });

  it.each(['eight', '0', '-1', '1.5'])('gives no options for %j as the rank of a merge', (loraR) => {
    expect(optionsOf({ output: 'merged', loraAlpha: '16', loraR })).toBeUndefined();
  });

  it('passes every other choice on', () => {
    const choices = {
      output: 'merged',
      adapterName: 'policy',
      dtype: 'fp16',
      format: 'bin',
      excludeFrozen: true,
      trainableOnly: true,
      stripPrefix: 'module.',
      trimVocab: true,
      duplicateTied: true,
      overflow: 'clamp',
    } as const;
    expect(optionsOf(choices)).toEqual({ ...defaults, ...choices });
  });

  it('takes a pattern from each line that has one', () => {
    expect(optionsOf({ include: ' model.* \n\nlm_head.*', exclude: '*.bias\n' })).toMatchObject({
      include: ['model.*', 'lm_head.*'],
      exclude: ['*.bias'],
    });
  });

  it('leaves out a rule without a pattern', () => {
    const norms = { pattern: '*norm*', dtype: 'fp32' } as const;
    expect(optionsOf({ dtypeFor: [norms, { pattern: ' ', dtype: 'keep' }] })).toMatchObject({ dtypeFor: [norms] });
  });

  it('leaves out what says nothing for an adapter, and takes it for the model', () => {
    const choices = { shardSize: '500000000', trimVocab: true, adapterName: 'policy' } as const;
    expect(optionsOf({ ...choices, output: 'adapter' })).toEqual({
      ...defaults,
      output: 'adapter',
      adapterName: 'policy',
    });
    expect(optionsOf(choices)).toEqual({ ...defaults, trimVocab: true, maxShardSize: 500_000_000 });
  });

  it('minds no size that is typed wrong where an adapter is one file', () => {
    expect(optionsOf({ output: 'adapter', shardSize: 'custom', customSize: 'four' })).toBeDefined();
  });
});

describe('choicesFor', () => {
  const merged: Choices = { ...DEFAULT_CHOICES, output: 'merged', adapterName: 'b' };

  it('falls back to the model where there is no adapter', () => {
    expect(choicesFor(merged, { adapters: [] })).toEqual(DEFAULT_CHOICES);
  });

  it('names no adapter where there is one, and the first of several', () => {
    expect(choicesFor(merged, { adapters: ['b'] })).toMatchObject({ output: 'merged', adapterName: '' });
    expect(choicesFor(merged, { adapters: ['x', 'y'] })).toMatchObject({ output: 'merged', adapterName: 'x' });
  });

  it('keeps the adapter that was chosen where it is there', () => {
    expect(choicesFor(merged, { adapters: ['a', 'b'] })).toEqual(merged);
  });
});
