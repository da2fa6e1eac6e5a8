import { describe, expect, test } from 'vitest';
import { pythonPattern } from '../../../../src/checkpoints/deepspeed/python-pattern.js';
import { detailOf } from '../../../helpers/errors.js';

function matches(pattern: string, name: string): boolean {
  return pythonPattern(pattern, 'model.pt').matches(name);
}

describe('a pattern of Python', () => {
  // What `bool(re.match(pattern, name))` says in Python 3.12.
  test.each<[pattern: string, name: string, matched: boolean]>([
    ['^model\\.layers\\.0\\.norm\\.weight$', 'model.layers.0.norm.weight', true],
    ['^model\\.layers\\.0\\.norm\\.weight$', 'model.layers.0.norm.weights', false],
    ['^model\\.layers\\.0\\.norm\\.weight$', 'modelXlayers.0.norm.weight', false],
    ['model.norm', 'model.norm.weight', true],
    ['model.norm', 'a.model.norm.weight', false],
    ['model.norm', 'modelXnorm', true],
    ['', 'anything', true],
    ['\\d+.word_embeddings.weight', '12.word_embeddings.weight', true],
    ['\\d+.word_embeddings.weight', 'x.word_embeddings.weight', false],
    ['\\d+.word_embeddings.weight', '1word_embeddings.weight', false],
    ['.*\\.experts\\.w[123]$', 'layers.1.experts.w3', true],
    ['.*\\.experts\\.w[123]$', 'layers.1.experts.w4', false],
    ['.*\\.experts\\.w[123]$', 'layers.1.experts.w3.0', false],
    ['\\.experts\\.w[123]$', 'layers.1.experts.w3', false],
    ['(q|k|v)_proj', 'k_proj.weight', true],
    ['(q|k|v)_proj', 'o_proj.weight', false],
    ['(?:a|b)+c$', 'ababc', true],
    ['(?:a|b)+c$', 'c', false],
    ['(?P<layer>\\d+)\\.mlp', '7.mlp.w', true],
    ['a{2}$', 'aa', true],
    ['a{2}$', 'a', false],
    ['a{2}$', 'aaa', false],
    ['a{1,2}$', 'aa', true],
    ['a{1,2}$', 'aaa', false],
    ['a{2,}$', 'aaaaa', true],
    ['a{2,}$', 'a', false],
    ['a{0,1}b', 'b', true],
    ['a*?b$', 'aaab', true],
    ['a?b', 'b', true],
    ['(a*)*b', 'aaab', true],
    ['(a*)*$', '', true],
    ['(|a)+$', 'aa', true],
    ['[^0-9]+$', 'abc', true],
    ['[^0-9]+$', 'ab1', false],
    ['[]a]+$', ']a', true],
    ['[a-]+$', 'a-a', true],
    ['[\\w.]+$', 'a_1.b', true],
    ['[\\]x]$', ']', true],
    ['\\w+\\.\\W\\s\\S\\D$', 'ab.- xy', true],
    ['\\Aab\\Z', 'ab', true],
    ['\\Aab\\Z', 'abc', false],
    ['a^b', 'ab', false],
    ['a$b', 'ab', false],
    ['a|b$', 'ax', true],
    ['a|b$', 'bx', false],
    ['a|', '', true],
    ['.', '\n', false],
    ['^.$', '😀', true],
    ['^a\\\nb$', 'a\nb', true],
    ['^\\w+$', 'слой_層²', true],
    ['^\\w+$', 'e\u0301', false],
    ['^[\\w]$', 'é', true],
    ['^\\W$', 'é', false],
    ['^\\d\\D$', '٣²', true],
    ['^\\s$', '\x1c', true],
    ['^\\S$', '\x1c', false],
    ['^\\s$', '\ufeff', false],
  ])('%j on %j: %s', (pattern, name, matched) => {
    expect(matches(pattern, name)).toBe(matched);
  });

  test('takes no longer where JavaScript would take years', () => {
    expect(matches('(a+)+$', `${'a'.repeat(5000)}b`)).toBe(false);
    expect(matches('(a|a)*(a|a)*(a|a)*c', 'a'.repeat(5000))).toBe(false);
    expect(matches('(.*)(.*)(.*)(.*)x$', 'a'.repeat(5000))).toBe(false);
  });

  test.each<[what: string, pattern: string]>([
    ['looks ahead', '(?=a)a'],
    ['looks behind', '(?<=a)b'],
    ['refers back', '(a)\\1'],
    ['asks for the edge of a word', '\\bweight'],
    ['repeats nothing', '*a'],
    ['ends in a backslash', 'a\\'],
    ['does not close its group', '(a'],
    ['does not open its group', 'a)'],
    ['does not close its set', '[a'],
    ['holds a brace that counts nothing', 'a{x}'],
    ['counts backwards', 'a{3,2}'],
    ['is short and comes to very many steps', '(((a{99}){99}){99}){99}'],
    ['nests very deeply', `${'('.repeat(3000)}a${')'.repeat(3000)}`],
    ['is very long', `a|${'b'.repeat(5000)}`],
  ])('that %s is refused', (_, pattern) => {
    expect(detailOf(() => pythonPattern(pattern, 'model.pt'))).toMatchObject({
      kind: 'unsupported',
      code: 'pattern-unsupported',
      facts: { file: 'model.pt', pattern: pattern.slice(0, 200) },
    });
  });
});
