import { describe, expect, test } from 'vitest';
import { matches } from '../../../src/base/glob.js';
import { precisionOf, resolveOptions } from '../../../src/plan/options.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { detailOf } from '../../helpers/errors.js';

describe('resolveOptions', () => {
  test('fills in the defaults', () => {
    expect(resolveOptions({})).toEqual({
      output: 'model',
      dtype: 'fp32',
      format: 'safetensors',
      excludeFrozen: false,
      trainableOnly: false,
      include: [],
      exclude: [],
      trimVocab: false,
      duplicateTied: false,
      overflow: 'error',
      dtypeFor: [],
    });
  });

  test('keeps what was given', () => {
    expect(resolveOptions({ dtype: 'bf16', maxShardSize: 5e9 })).toMatchObject({ dtype: 'bf16', maxShardSize: 5e9 });
    const merged = {
      output: 'merged',
      adapterName: 'policy',
      stripPrefix: 'module.',
      include: ['a*'],
      trimVocab: true,
    };
    expect(resolveOptions(merged as PlanOptions)).toMatchObject(merged);
  });

  test.each([
    [{ dtype: 'fp8' }, 'dtype', 'fp8'],
    [{ format: 'gguf' }, 'format', 'gguf'],
    [{ overflow: 'wrap' }, 'overflow', 'wrap'],
    [{ maxShardSize: 5 }, 'maxShardSize', 5],
    [{ maxShardSize: 1000.5 }, 'maxShardSize', 1000.5],
    [{ dtypeFor: [{ pattern: '*', dtype: 'int8' }] }, 'dtypeFor', 'int8'],
    [{ output: 'lora' }, 'output', 'lora'],
    [{ include: [''] }, 'include', "''"],
    [{ exclude: ['a', ''] }, 'exclude', "''"],
    [{ stripPrefix: '' }, 'stripPrefix', "''"],
    [{ output: 'adapter', adapterName: '' }, 'adapterName', "''"],
    [{ adapterName: 'policy' }, 'adapterName', 'policy'],
    [{ output: 'adapter', trimVocab: true }, 'trimVocab', 'true'],
    [{ lora: { alpha: 16 } }, 'lora', 'given'],
    [{ output: 'merged', lora: { alpha: 0 } }, 'lora.alpha', 0],
    [{ output: 'merged', lora: { alpha: Number.NaN } }, 'lora.alpha', Number.NaN],
    [{ output: 'merged', lora: { alpha: 16, r: 2.5 } }, 'lora.r', 2.5],
    [{ output: 'merged', lora: { alpha: 16, r: 0 } }, 'lora.r', 0],
    [{ output: 'adapter', maxShardSize: 5e9 }, 'maxShardSize', 5e9],
  ])('refuses %j', (options, option, found) => {
    const detail = detailOf(() => resolveOptions(options as PlanOptions));
    expect(detail).toMatchObject({ kind: 'usage', code: 'option-bad', facts: { option, found } });
  });
});

describe('matches', () => {
  test.each([
    ['a.b', 'a.b', true],
    ['a.b', 'a.bc', false],
    ['*', 'anything', true],
    ['*norm*', 'model.norm.weight', true],
    ['model.*.weight', 'model.layers.0.weight', true],
    ['model.*.weight', 'model.weight', false],
    ['*.bias', 'a.bias', true],
    ['*.bias', 'a.bias2', false],
    ['ab*ba', 'aba', false],
    ['a*b*c', 'aXbYc', true],
    ['a*b*c', 'acb', false],
    ['a.b', 'aXb', false],
  ])('%s and %s: %s', (pattern, name, expected) => {
    expect(matches(pattern, name)).toBe(expected);
  });
});

test('precisionOf takes the first pattern that matches, else the general precision', () => {
  const options = resolveOptions({
    dtype: 'bf16',
    dtypeFor: [
      { pattern: '*norm*', dtype: 'fp32' },
      { pattern: '*.weight', dtype: 'fp16' },
    ],
  });
  expect(precisionOf(['norm.weight'], options)).toBe('fp32');
  expect(precisionOf(['fc.weight'], options)).toBe('fp16');
  expect(precisionOf(['fc.bias'], options)).toBe('bf16');
});
