import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ROOT } from './modules.js';
import { assemble, expandMacros } from './wat.js';

const SOURCES = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.wat'))
  .map((name) => `src/${name}`);

// `npm run wasm` writes the modules anew: with it, a snapshot that differs is replaced.
test.each(SOURCES)('the module of %s has the bytes of its source', async (path) => {
  const source = path.replace(/^.*\//, '');
  const name = source.replace('.wat', '').replaceAll('-', '_').toUpperCase();
  const text = `/** \`${source}\`, assembled by \`npm run wasm\`: the bytes of the module in base64. */
export const ${name}_MODULE =
  '${Buffer.from(await assemble(path, readFileSync(join(ROOT, path), 'utf8'))).toString('base64')}';
`;
  await expect(text).toMatchFileSnapshot(join(ROOT, path.replace('.wat', '-module.ts')));
});

test('there are sources', () => {
  expect(SOURCES).toContain('src/numeric/simd.wat');
});

describe('macros', () => {
  test('are put where they are named, those before them within them', () => {
    const text = '(macro ONE (a (b))) (macro TWO-TWO (ONE) (c)) ;; (NONE)\n(f (TWO-TWO) (ONE))';
    expect(expandMacros(text).replace(/\s+/g, ' ').trim()).toBe('(f (a (b)) (c) (a (b)))');
  });

  test.each([
    ['(f (ONE))', 'no macro ONE'],
    ['(f (ONE)) (macro ONE (a))', 'no macro ONE'],
    ['(macro ONE (a)) (macro ONE (b))', 'two macros ONE'],
    ['(macro ONE (a)', 'not closed'],
  ])('%s is refused', (text, message) => {
    expect(() => expandMacros(text)).toThrow(message);
  });
});
