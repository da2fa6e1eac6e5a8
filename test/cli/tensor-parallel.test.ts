import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder, unshard } from '../helpers/cli.js';
import { type GridParam, writeGrid } from '../helpers/deepspeed/grid.js';
import { readSafetensors } from '../helpers/safetensors.js';

const PARAMS: readonly GridParam[] = [
  { name: 'layers.0.up.weight', shape: [7, 4], cut: { kind: 'parts', dim: 0, widths: [[4, 3]] } },
  { name: 'layers.0.down.weight', shape: [4, 7], cut: { kind: 'parts', dim: 1, widths: [[4, 3]] } },
  { name: 'layers.0.norm.weight', shape: [4], cut: { kind: 'whole' } },
];

const RULES = ['--tp-rule', '*.norm.*=replicated', '--tp-rule', '*.down.*=1', '--tp-rule', '*=0'];

/** A run over two tensor-parallel ranks that says nothing of how they are joined. */
async function ruleless(): Promise<string> {
  const folder = await temporaryFolder();
  const { files } = writeGrid({ version: '0.19.6', stage: 1, modelDtype: 'BF16', ranks: 2, tp: 2, params: PARAMS });
  for (const [path, bytes] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), bytes);
  }
  return folder;
}

async function shapesIn(out: string): Promise<Record<string, number[]>> {
  const { tensors } = readSafetensors(await readFile(join(out, 'model.safetensors')));
  return Object.fromEntries([...tensors].map(([name, { shape }]) => [name, [...shape]]));
}

describe('a tensor-parallel checkpoint without rules', () => {
  test('is described, and refused with the names that need one', async () => {
    const checkpoint = await ruleless();
    const inspected = await unshard(checkpoint);
    expect(inspected.code).toBe(7);
    expect(inspected.stdout).toContain('ranks           2 (2 tensor-parallel ranks)');
    expect(inspected.stdout).toContain('layers.*.down.weight [4, 4]: nothing says how they are joined');
    const { code, stderr } = await unshard(checkpoint, await temporaryFolder());
    expect(code).toBe(7);
    expect(stderr).toMatch(/^Error \(tp-rules-missing\): .*--tp-rule/s);
  });

  test('is joined as rules say', async () => {
    const [checkpoint, out] = [await ruleless(), await temporaryFolder()];
    const { code, stderr } = await unshard(checkpoint, out, ...RULES, '--overflow', 'inf');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(await shapesIn(out)).toEqual(Object.fromEntries(PARAMS.map(({ name, shape }) => [name, shape])));
    const verified = await unshard('verify', checkpoint, out, ...RULES);
    expect(verified.code).toBe(0);
    expect(verified.stdout).toContain('3 of 3 tensors match');
  });

  test('gives the shards of one rank, and says that they are not the whole', async () => {
    const [checkpoint, out] = [await ruleless(), await temporaryFolder()];
    const { code, stdout } = await unshard(checkpoint, out, '--tp-rank', '1', '--overflow', 'inf');
    expect(code).toBe(0);
    expect(stdout).toContain('Only the shards of tensor-parallel rank 1 of 2 are taken');
    expect(await shapesIn(out)).toEqual({
      'layers.0.up.weight': [3, 4],
      'layers.0.down.weight': [4, 3],
      'layers.0.norm.weight': [4],
    });
    expect((await unshard(checkpoint, out, '--tp-rank', '2')).code).toBe(2);
  });
});
