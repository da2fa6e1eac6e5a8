import { expect, test } from 'vitest';
import {
  diskBytes,
  elementsOf,
  LARGE_ELEMENTS,
  outputBytes,
  recipe,
  shardBytes,
} from '../../bench/checkpoint/recipes.js';

const parameters = [{ name: 'a', shape: [10, 100], elements: 1000, first: 0 }];

test('a checkpoint takes master, moments and at stage 2 a copy, but for zeros', () => {
  expect(diskBytes({ stage: 3, parameters })).toBe(12_000);
  expect(diskBytes({ stage: 2, parameters })).toBe(14_000);
  expect(diskBytes({ stage: 2, parameters, moments: 'zeros' })).toBe(6_000);
  expect(diskBytes({ stage: 3, parameters, moments: 'zeros' })).toBe(4_000);
  expect(diskBytes({ stage: 3, parameters, moments: 'zeros', weights: 'zeros' })).toBe(0);
});

test('the shapes that are compared have nearly as many bytes as the plain ones', () => {
  const elements = (name: Parameters<typeof recipe>[0]): number => elementsOf(recipe(name, LARGE_ELEMENTS).options);
  for (const [odd, plain] of [
    ['many-ranks', 'plain'],
    ['zero3', 'plain'],
    ['one-tensor', 'plain'],
    ['row-parallel', 'zero2'],
    ['small-tensors', 'plain-small'],
  ] as const) {
    expect(elements(odd) / elements(plain), odd).toBeGreaterThan(0.95);
    expect(elements(odd) / elements(plain), odd).toBeLessThan(1.06);
  }
});

test('tensors of 4 KB are 10,000, and the columns of a row-parallel merge can be shared out', () => {
  const small = recipe('small-tensors', LARGE_ELEMENTS).options.parameters;
  expect(small.length).toBe(10_000);
  expect(new Set(small.map(({ elements }) => 4 * elements))).toEqual(new Set([4096]));
  const { tensorParallel = 1, parameters: wide } = recipe('row-parallel', LARGE_ELEMENTS).options;
  expect(tensorParallel).toBe(8);
  expect(wide.filter(({ shape }) => (shape.at(-1) ?? 0) % tensorParallel !== 0)).toEqual([]);
});

test('shards have 500 MB, and are as many where the model is smaller', () => {
  expect(shardBytes(LARGE_ELEMENTS)).toBe(500e6);
  expect(shardBytes(LARGE_ELEMENTS / 100)).toBe(5e6);
});

test('outputs are counted in fp32, those of the giant checkpoint in bf16', () => {
  expect(outputBytes('zero3', LARGE_ELEMENTS)).toBe(16 * 477_950_067);
  expect(outputBytes('giant', LARGE_ELEMENTS)).toBe(6 * elementsOf(recipe('giant', LARGE_ELEMENTS).options));
});
