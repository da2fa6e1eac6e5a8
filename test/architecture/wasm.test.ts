import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import wabt from 'wabt';
import { ROOT } from './modules.js';

const SOURCES = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.wat'))
  .map((name) => `src/${name}`);

// `npm run wasm` writes the modules anew: with it, a snapshot that differs is replaced.
test.each(SOURCES)('the module of %s has the bytes of its source', async (path) => {
  const source = path.replace(/^.*\//, '');
  const name = source.replace('.wat', '').replaceAll('-', '_').toUpperCase();
  const text = `/** \`${source}\`, assembled by \`npm run wasm\`: the bytes of the module in base64. */
export const ${name}_MODULE =
  '${Buffer.from(await assemble(path)).toString('base64')}';
`;
  await expect(text).toMatchFileSnapshot(join(ROOT, path.replace('.wat', '-module.ts')));
});

test('there are sources', () => {
  expect(SOURCES).toContain('src/numeric/simd.wat');
});

// SIMD of a fixed width gives the same bits everywhere; relaxed SIMD does not, and threads need headers of the host.
const FEATURES = { simd: true, relaxed_simd: false, threads: false };

async function assemble(path: string): Promise<Uint8Array> {
  const { parseWat } = await wabt();
  const module = parseWat(path, readFileSync(join(ROOT, path), 'utf8'), FEATURES);
  module.validate();
  return module.toBinary({}).buffer;
}
