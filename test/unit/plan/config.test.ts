import { describe, expect, test } from 'vitest';
import { withDtype } from '../../../src/plan/config.js';

describe('withDtype', () => {
  test('sets the field under either name, and leaves every other byte as it is', () => {
    const text = '{\n  "eps": 1e-05,  "torch_dtype": "float32",\n  "big": 12345678901234567890 }\n';
    expect(withDtype(text, 'bf16')).toBe(text.replace('"float32"', '"bfloat16"'));
    expect(withDtype('{"dtype" : "bfloat16"}', 'fp16')).toBe('{"dtype" : "float16"}');
  });

  test('sets the field of every part of a composed model', () => {
    const text = '{"dtype": "bfloat16", "text_config": {"dtype": "bfloat16"}, "vision_config": {"torch_dtype": null}}';
    expect(withDtype(text, 'fp32')).toBe(
      '{"dtype": "float32", "text_config": {"dtype": "float32"}, "vision_config": {"torch_dtype": "float32"}}',
    );
  });

  test('adds the field where there is none', () => {
    expect(withDtype('{\n  "model_type": "llama"\n}', 'bf16')).toBe(
      '{\n  "torch_dtype": "bfloat16",\n  "model_type": "llama"\n}',
    );
    expect(JSON.parse(withDtype('{"a": 1}', 'fp16') ?? '')).toEqual({ torch_dtype: 'float16', a: 1 });
    expect(JSON.parse(withDtype('{}', 'fp16') ?? '')).toEqual({ torch_dtype: 'float16' });
  });

  test('changes nothing where nothing is to change', () => {
    expect(withDtype('{"dtype": "float32"}', 'fp32')).toBeUndefined();
    expect(withDtype('{"dtype": "float32"}', 'keep')).toBeUndefined();
    expect(withDtype('not JSON', 'fp32')).toBeUndefined();
    expect(withDtype('[1]', 'fp32')).toBeUndefined();
  });

  test('does not touch the field of a text that only looks like one', () => {
    const text = '{"dtype": "float32", "note": "a \\"dtype\\": \\"float16\\" here", "my_dtype": "x"}';
    expect(withDtype(text, 'fp32')).toBeUndefined();
  });
});
