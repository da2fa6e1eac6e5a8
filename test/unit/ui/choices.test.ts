import { describe, expect, it } from 'vitest';
import { DEFAULT_CHOICES, planOptions, SHARD_SIZES } from '../../../src/ui/choices.js';

const defaults = {
  dtype: 'fp32',
  format: 'safetensors',
  excludeFrozen: false,
  duplicateTied: false,
  overflow: 'error',
};

describe('planOptions', () => {
  it('leaves the size open for one file', () => {
    expect(planOptions(DEFAULT_CHOICES)).toEqual(defaults);
  });

  it.each(SHARD_SIZES)('takes the offered size %d', (size) => {
    expect(planOptions({ ...DEFAULT_CHOICES, shardSize: String(size) })).toEqual({ ...defaults, maxShardSize: size });
  });

  it('reads the size that was typed', () => {
    const options = planOptions({ ...DEFAULT_CHOICES, shardSize: 'custom', customSize: ' 1.5 gb ' });
    expect(options).toEqual({ ...defaults, maxShardSize: 1_500_000_000 });
  });

  it('gives no options for a size that is none', () => {
    expect(planOptions({ ...DEFAULT_CHOICES, shardSize: 'custom', customSize: '4 apples' })).toBeUndefined();
  });

  it('passes every other choice on', () => {
    const choices = {
      dtype: 'fp16',
      format: 'bin',
      excludeFrozen: true,
      duplicateTied: true,
      overflow: 'clamp',
    } as const;
    expect(planOptions({ ...DEFAULT_CHOICES, ...choices })).toEqual(choices);
  });
});
