import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { shaderCode } from '../../../../src/engine/gpu/shader.js';
import { PAIRS } from '../../../helpers/float-vectors.js';

/** What a shader says of floats: types, constructors, built-ins that go through floats, literals. */
function floatsIn(code: string): string[] {
  const text = code.replace(/\/\/.*$/gm, '').replace(/\b0x[0-9a-f]+u?\b/gi, '0');
  const words = /\b(?:f16|f32|vec[234][fh]|mat\d\w*|bitcast|unpack\w+|pack[24]x\w+|quantizeToF16)\b/g;
  const literals = /\b\d+(?:\.\d*)?(?:e[+-]?\d+)?[fh]\b|\b\d+\.\d*|\.\d+\b|\b\d+e[+-]?\d+\b/g;
  return [...(text.match(words) ?? []), ...(text.match(literals) ?? [])];
}

const FOLDER = new URL('../../../../shaders/', import.meta.url);
const files = readdirSync(FOLDER).map((name) => ({ name, code: readFileSync(new URL(name, FOLDER), 'utf8') }));

test.each(files)('$name computes with integers only', ({ code }) => {
  expect(floatsIn(code)).toEqual([]);
});

test.each(PAIRS)('the shader of %s to %s computes with integers only', (from, to) => {
  expect(floatsIn(shaderCode(from, to))).toEqual([]);
});

test.each(files.filter(({ name }) => name !== 'gather.wgsl'))(
  '$name is one function, named as the file',
  ({ name, code }) => {
    const functionName = name.replace('.wgsl', '').replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    expect([...code.matchAll(/\bfn (\w+)/g)].map((match) => match[1])).toEqual([functionName]);
  },
);

test('only gather.wgsl has an entry point, and only one', () => {
  const entries = files.flatMap(({ name, code }) => (code.match(/@compute/g) ?? []).map(() => name));
  expect(entries).toEqual(['gather.wgsl']);
});

describe('the rule sees', () => {
  test.each([
    'let x: f32 = y;',
    'var a: array<f16>;',
    'f32(x)',
    'vec2f(1)',
    'vec4<f32>()',
    'mat2x2h',
    'pack2x16float(v)',
    'unpack2x16float(v)',
    'bitcast<u32>(x)',
    '1.0',
    '.5',
    '2f',
    '3h',
    '1e3',
  ])('%s', (code) => {
    expect(floatsIn(code)).not.toEqual([]);
  });

  test.each(['f32ToF16(word)', '0x7f', '0x1e5u', '12u', 'vec3<u32>', 'group.x * 4u', '// 2.5 f32', 'counts.inf'])(
    'nothing in %s',
    (code) => {
      expect(floatsIn(code)).toEqual([]);
    },
  );
});
