import { describe, expect, test } from 'vitest';
import { fileNames, indexText, splitIntoShards } from '../../../src/plan/shards.js';

/** Names and tensors of each file. */
function split(sizes: number[], limit?: number): [string, readonly number[]][] {
  return splitIntoShards(sizes, fileNames({ output: 'model', format: 'safetensors' }), limit).map(
    ({ path, tensors }) => [path, tensors],
  );
}

describe('splitIntoShards', () => {
  test('writes one file without a limit', () => {
    expect(split([5, 5, 5])).toEqual([['model.safetensors', [0, 1, 2]]]);
  });

  test('writes one file, with its plain name, where all fits', () => {
    expect(split([5, 5], 10)).toEqual([['model.safetensors', [0, 1]]]);
  });

  // The example of huggingface_hub's own documentation.
  test('fills files in order and does not look for a better fit', () => {
    expect(split([6, 6, 2, 6, 2, 2], 10)).toEqual([
      ['model-00001-of-00003.safetensors', [0]],
      ['model-00002-of-00003.safetensors', [1, 2]],
      ['model-00003-of-00003.safetensors', [3, 4, 5]],
    ]);
  });

  test('gives a tensor above the limit a file of its own, before the one that is being filled', () => {
    expect(split([2, 11, 3], 10)).toEqual([
      ['model-00001-of-00002.safetensors', [1]],
      ['model-00002-of-00002.safetensors', [0, 2]],
    ]);
  });

  test('names files of the other format as transformers does', () => {
    expect(splitIntoShards([6, 6], fileNames({ output: 'model', format: 'bin' }), 10).map(({ path }) => path)).toEqual([
      'pytorch_model-00001-of-00002.bin',
      'pytorch_model-00002-of-00002.bin',
    ]);
  });
});

test.each([
  ['adapter', 'safetensors', 'adapter_model', '.safetensors'],
  ['adapter', 'bin', 'adapter_model', '.bin'],
  ['merged', 'safetensors', 'model', '.safetensors'],
  ['merged', 'bin', 'pytorch_model', '.bin'],
] as const)('the file of an output %s in %s is %s%s', (output, format, stem, extension) => {
  expect(fileNames({ output, format })).toEqual({ stem, extension });
});

test('indexText is what json.dump(index, indent=2) writes, with characters outside ASCII escaped', () => {
  const shards = [
    { path: 'model-00001-of-00002.safetensors', names: ['b', 'é'] },
    { path: 'model-00002-of-00002.safetensors', names: ['10'] },
  ];
  expect(indexText(shards, 42, { tied: 'b' })).toBe(`{
  "metadata": {
    "total_size": 42,
    "tied": "b"
  },
  "weight_map": {
    "b": "model-00001-of-00002.safetensors",
    "\\u00e9": "model-00001-of-00002.safetensors",
    "10": "model-00002-of-00002.safetensors"
  }
}`);
});
