import { readdir, readFile, rm, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checkpointCopy, temporaryFolder, unshard } from '../helpers/cli.js';
import { damageMasters } from '../helpers/damage.js';
import { expectedOf } from '../helpers/fixtures.js';
import { readSafetensors } from '../helpers/safetensors.js';

const NAME = 'llama-tied-zero2-bf16-w3';
const RANK_1 = 'global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt';

/** Tensors of an output by name, as SHA-256. */
async function hashesIn(out: string): Promise<Map<string, string>> {
  const { tensors } = readSafetensors(await readFile(join(out, 'model.safetensors')));
  return new Map([...tensors].map(([name, { sha256 }]) => [name, sha256]));
}

test.each([
  ['missing', (file: string) => rm(file), 4],
  ['truncated', (file: string) => truncate(file, 40_000), 5],
])('--partial writes copies of the model file in bf16 where an optimizer file is %s', async (_, damage, refused) => {
  const [folder, out] = [await checkpointCopy(NAME), await temporaryFolder()];
  await damage(join(folder, RANK_1));
  expect((await unshard(folder, out)).code).toBe(refused);
  expect(await readdir(out)).toEqual([]);
  const { code, stdout, stderr } = await unshard(folder, out, '--partial', '--dtype', 'bf16');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain('Note: This is a partial recovery');
  expect(stdout).toContain('Check failed (partial)');
  const expected = Object.entries(expectedOf(NAME).tensors).map(([name, { sha256 }]) => [name, sha256.bf16]);
  expect([...(await hashesIn(out))].sort()).toEqual(expected.sort());
});

test('--partial says what is missing where nothing can be recovered', async () => {
  const folder = await checkpointCopy('llama-tied-zero3-bf16-w3');
  await rm(join(folder, RANK_1));
  const { code, stderr } = await unshard(folder, await temporaryFolder(), '--partial');
  expect(code).toBe(4);
  expect(stderr).toContain('Missing: rank 1.');
});

test('a file that is damaged inside its tensors is done without when it is named', async () => {
  const [folder, out] = [await checkpointCopy(NAME), await temporaryFolder()];
  await damageMasters(folder, RANK_1);
  const failed = await unshard(folder, out, '--partial');
  expect(failed.code).toBe(5);
  expect(failed.stderr).toMatch(`Error (crc-mismatch): ${RANK_1} is damaged`);
  expect(failed.stderr).toContain('--ignore-file');
  const { code, stdout } = await unshard(folder, out, '--ignore-file', join(folder, RANK_1));
  expect(code).toBe(0);
  expect(stdout).toContain(`${RANK_1} is left out, as asked.`);
  const copied = [...stdout.matchAll(/^Note: {3}(\S+)$/gm)].map(([, name = '']) => name);
  const found = await hashesIn(out);
  const expected = Object.entries(expectedOf(NAME).tensors);
  const differing = expected.flatMap(([name, { sha256 }]) => (found.get(name) === sha256.fp32 ? [] : [name]));
  expect(differing.length).toBeGreaterThan(0);
  expect(differing.length).toBeLessThan(expected.length);
  expect(copied).toEqual(expect.arrayContaining(differing));
  expect(found.size).toBe(expected.length);
  const verified = await unshard('verify', folder, out, '--ignore-file', RANK_1);
  expect(verified.code).toBe(0);
});
