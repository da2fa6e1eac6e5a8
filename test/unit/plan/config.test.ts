import { describe, expect, test } from 'vitest';
import { editedConfig, mayUntie } from '../../../src/plan/config.js';
import type { Precision } from '../../../src/plan/plan.js';

const withDtype = (text: string, precision: Precision) => editedConfig(text, precision, false);

describe('the dtype', () => {
  test('is set under either name, and every other byte stays as it is', () => {
    const text = '{\n  "eps": 1e-05,  "torch_dtype": "float32",\n  "big": 12345678901234567890 }\n';
    expect(withDtype(text, 'bf16')).toBe(text.replace('"float32"', '"bfloat16"'));
    expect(withDtype('{"dtype" : "bfloat16"}', 'fp16')).toBe('{"dtype" : "float16"}');
  });

  test('is set in every part of a composed model', () => {
    const text = '{"dtype": "bfloat16", "text_config": {"dtype": "bfloat16"}, "vision_config": {"torch_dtype": null}}';
    expect(withDtype(text, 'fp32')).toBe(
      '{"dtype": "float32", "text_config": {"dtype": "float32"}, "vision_config": {"torch_dtype": "float32"}}',
    );
  });

  test('is added where there is none', () => {
    expect(withDtype('{\n  "model_type": "llama"\n}', 'bf16')).toBe(
      '{\n  "torch_dtype": "bfloat16",\n  "model_type": "llama"\n}',
    );
    expect(JSON.parse(withDtype('{"a": 1}', 'fp16'))).toEqual({ torch_dtype: 'float16', a: 1 });
    expect(JSON.parse(withDtype('{}', 'fp16'))).toEqual({ torch_dtype: 'float16' });
  });

  test.each([
    ['{"dtype": "float32"}', 'fp32'],
    ['{"dtype": "float32"}', 'keep'],
    ['not JSON', 'fp32'],
    ['[1]', 'fp32'],
  ] as const)('changes nothing in %s for %s', (text, precision) => {
    expect(withDtype(text, precision)).toBe(text);
  });

  test('is not set in a text that only looks like its field', () => {
    const text = '{"dtype": "float32", "note": "a \\"dtype\\": \\"float16\\" here", "my_dtype": "x"}';
    expect(withDtype(text, 'fp32')).toBe(text);
  });
});

describe('the tie of embedding and head', () => {
  const untied = (text: string) => editedConfig(text, 'keep', true);

  test('is set to false where it is, and every other byte stays as it is', () => {
    const text = '{\n  "tie_word_embeddings" : true,\n  "eps": 1e-05\n}\n';
    expect(untied(text)).toBe(text.replace('true', 'false'));
    expect(untied('{"tie_word_embeddings": null}')).toBe('{"tie_word_embeddings": false}');
    expect(untied('{"tie_word_embeddings": false}')).toBe('{"tie_word_embeddings": false}');
  });

  test('is added where there is none, as true is the default', () => {
    expect(untied('{\n  "a": 1\n}')).toBe('{\n  "tie_word_embeddings": false,\n  "a": 1\n}');
    expect(JSON.parse(untied('{}'))).toEqual({ tie_word_embeddings: false });
    expect(JSON.parse(editedConfig('{"a": 1}', 'bf16', true))).toEqual({
      torch_dtype: 'bfloat16',
      tie_word_embeddings: false,
      a: 1,
    });
  });

  test('is set in the whole and in every part of a composed model', () => {
    expect(JSON.parse(untied('{"text_config": {"tie_word_embeddings": true}}'))).toEqual({
      tie_word_embeddings: false,
      text_config: { tie_word_embeddings: false },
    });
  });

  test('is not touched where nothing is untied, nor in what is no JSON object', () => {
    const text = '{"tie_word_embeddings": true}';
    expect(editedConfig(text, 'keep', false)).toBe(text);
    expect(untied('[true]')).toBe('[true]');
  });

  test('is left alone in encoder-decoders, which scale by it', () => {
    expect(mayUntie('{"is_encoder_decoder": true}')).toBe(false);
    expect(mayUntie('{"is_encoder_decoder": false}')).toBe(true);
    expect(mayUntie('{}')).toBe(true);
    expect([mayUntie(undefined), mayUntie('x')]).toEqual([false, false]);
  });
});
