import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder, unshard } from '../helpers/cli.js';
import { checkpointPath, expectedOf } from '../helpers/fixtures.js';
import { readSafetensors } from '../helpers/safetensors.js';

const NAME = 'llama-tied-zero3-bf16-w3';
const TAG = 'global_step3';

/** The checkpoint as each rank's node has it: its own shards, and the small files that are on every node. */
async function nodes(): Promise<string[]> {
  const home = await temporaryFolder();
  return Promise.all(
    [0, 1, 2].map(async (rank) => {
      const folder = join(home, `node${rank}`);
      await cp(checkpointPath(NAME), folder, { recursive: true });
      for (const file of await readdir(join(folder, TAG))) {
        if (!file.includes(`zero_pp_rank_${rank}_`)) await rm(join(folder, TAG, file));
      }
      return folder;
    }),
  );
}

test('--also adds the shards of other folders, which may be tag folders, until the set is whole', async () => {
  const [first = '', second = '', third = ''] = await nodes();
  const out = await temporaryFolder();
  const alone = await unshard(first, out);
  expect(alone.code).toBe(4);
  expect(alone.stderr).toContain('Missing: rank 1, 2.');
  const two = await unshard(first, out, '--also', join(second, TAG));
  expect(two.code).toBe(4);
  expect(two.stderr).toContain('Missing: rank 2.');
  expect(await readdir(out)).toEqual([]);

  const { code, stderr } = await unshard(join(first, TAG), out, '--also', join(second, TAG), '--also', third);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const { tensors } = readSafetensors(await readFile(join(out, 'model.safetensors')));
  const expected = Object.entries(expectedOf(NAME).tensors).map(([name, { sha256 }]) => [name, sha256.fp32]);
  expect([...tensors].map(([name, { sha256 }]) => [name, sha256]).sort()).toEqual(expected.sort());
});

test('folders that contradict each other are refused with both names', async () => {
  const [first = '', second = ''] = await nodes();
  await writeFile(join(second, 'config.json'), '{"model_type": "other"}');
  const { code, stderr } = await unshard(first, '--also', second);
  expect(code).toBe(6);
  expect(stderr).toContain('(folders-differ)');
  expect(stderr).toContain('config.json is in two of the folders, node0 and node1');
});

test('no folder below the one that is named is written to where files are read from it', async () => {
  const outer = await temporaryFolder();
  await cp(checkpointPath(NAME), join(outer, 'run'), { recursive: true });
  for (const out of ['run', join('run', TAG)]) {
    const { code, stderr } = await unshard(outer, join(outer, out), '--overwrite');
    expect({ out, code, stderr }).toMatchObject({ out, code: 2, stderr: expect.stringContaining('(output-is-input)') });
  }
  expect((await unshard(outer, join(outer, 'run', 'new'))).code).toBe(0);
});

test('none of the folders is written to', async () => {
  const [first = '', second = '', third = ''] = await nodes();
  for (const out of [second, join(second, TAG)]) {
    const { code, stderr } = await unshard(first, out, '--also', second, '--also', third);
    expect(code).toBe(2);
    expect(stderr).toContain('(output-is-input)');
  }
  await mkdir(join(second, 'inside'));
  expect((await unshard(first, join(second, 'inside'), '--also', second)).code).toBe(4);
});
