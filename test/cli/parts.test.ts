import { mkdir, readdir, readFile, rename, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checkpointCopy, heldUnshard, temporaryFolder, unshard } from '../helpers/cli.js';
import { checkpointPath } from '../helpers/fixtures.js';

const NAME = 'llama-zero3-bf16-w4';
const OPTIONS = ['--dtype', 'fp16', '--max-shard-size', '6KB'];
const PARTS = 8;
const INDEX = 'model.safetensors.index.json';

/** A checkpoint planned in a folder of its own. */
async function planned(checkpoint = checkpointPath(NAME)) {
  const folder = await temporaryFolder();
  const [file, out] = [join(folder, 'plan.json'), join(folder, 'out')];
  expect(await unshard('plan', checkpoint, ...OPTIONS, '-o', file)).toMatchObject({ code: 0, stderr: '' });
  const part = (number: number, ...more: string[]) => ['run', file, out, '--part', `${number}/${PARTS}`, ...more];
  return { folder, file, out, part };
}

async function contents(folder: string): Promise<Map<string, string>> {
  const names = (await readdir(folder)).toSorted();
  return new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), 'hex')] as const)),
  );
}

/** What one process writes. */
async function whole(): Promise<Map<string, string>> {
  const out = join(await temporaryFolder(), 'out');
  expect((await unshard(checkpointPath(NAME), out, ...OPTIONS)).code).toBe(0);
  return contents(out);
}

test('eight parts, of which two are killed in the middle of a write and run again, make the files of one process', async () => {
  const { file, out, part } = await planned();
  const killed = await Promise.all([heldUnshard(...part(3)), heldUnshard(...part(6))]);
  const others = await Promise.all([1, 2, 4, 5, 7, 8].map((number) => unshard(...part(number))));
  for (const { kill } of killed) kill('SIGKILL');
  expect(await Promise.all(killed.map(({ ended }) => ended))).toEqual([
    { code: null, signal: 'SIGKILL' },
    { code: null, signal: 'SIGKILL' },
  ]);
  expect(others.map(({ code, stderr }) => ({ code, stderr }))).toEqual(others.map(() => ({ code: 0, stderr: '' })));
  const names = await readdir(out);
  expect(names.filter((name) => name.includes('.partial-')).length).toBeGreaterThanOrEqual(2);

  const early = await unshard('finish', file, out, '--json');
  expect(early.code).toBe(10);
  expect(JSON.parse(early.stderr)).toMatchObject({ error: { code: 'parts-missing', facts: { parts: '3/8, 6/8' } } });
  expect(await readdir(out)).not.toContain(INDEX);

  for (const number of [6, 3]) expect((await unshard(...part(number))).code).toBe(0);
  const finished = await unshard('finish', file, out, '--json', '--sha256');
  expect(finished.code).toBe(0);
  const report = JSON.parse(finished.stdout) as { checks: { id: string; status: string }[] };
  for (const id of ['input-crc32', 'master-gathered', 'read-back']) {
    expect(report.checks).toContainEqual(expect.objectContaining({ id, status: 'passed' }));
  }
  expect(await contents(out)).toEqual(await whole());
});

test('two processes that run the same part at the same time do no harm', async () => {
  const { file, out } = await planned();
  const all = ['run', file, out, '--part', '1/1'];
  const results = await Promise.all([unshard(...all), unshard(...all), unshard(...all)]);
  expect(results.map(({ code }) => code)).toEqual([0, 0, 0]);
  expect((await unshard('finish', file, out)).code).toBe(0);
  expect(await contents(out)).toEqual(await whole());
});

test('a part that is cancelled keeps what is complete, and says so', async () => {
  const { file, out, part } = await planned();
  const first = await heldUnshard('run', file, out, '--part', '1/1');
  first.kill('SIGINT');
  expect(await first.ended).toEqual({ code: 130, signal: null });
  for (let number = 1; number <= PARTS; number++) expect((await unshard(...part(number))).code).toBe(0);
  expect((await unshard('finish', file, out)).code).toBe(0);
  expect(await contents(out)).toEqual(await whole());
});

test('a plan without --part is run as a whole, with threads too', async () => {
  const { file, out } = await planned();
  const { code, stdout } = await unshard('run', file, out, '--json', '--threads', '2');
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ backend: { name: 'cpu', threads: 2 }, options: { dtype: 'fp16' } });
  expect(await contents(out)).toEqual(await whole());
});

test('a part with threads gives the same files', async () => {
  const { file, out } = await planned();
  const { code, stdout } = await unshard('run', file, out, '--part', '1/1', '--json', '--threads', '2');
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ part: '1/1', backend: { threads: 2 } });
  expect((await unshard('finish', file, out)).code).toBe(0);
  expect(await contents(out)).toEqual(await whole());
});

test('a plan is shown, and written as JSON for programs too', async () => {
  const shown = await unshard('plan', checkpointPath(NAME), ...OPTIONS);
  expect(shown.stdout).toContain(INDEX);
  const { file } = await planned();
  const { stdout } = await unshard('plan', checkpointPath(NAME), ...OPTIONS, '--json');
  expect(stdout).toBe(await readFile(file, 'utf8'));
  expect(JSON.parse(stdout)).toMatchObject({ unshard: 'plan', version: 1, folders: [checkpointPath(NAME)] });
});

test('a plan that is there is replaced only when asked', async () => {
  const { file } = await planned();
  const again = ['plan', checkpointPath(NAME), '--dtype', 'bf16', '-o', file];
  expect(await unshard(...again)).toMatchObject({ code: 10, stderr: expect.stringContaining('output-exists') });
  expect((await unshard(...again, '--overwrite')).code).toBe(0);
});

test('a part that is run again with --recheck writes a damaged file anew', async () => {
  const { out, part } = await planned();
  await unshard(...part(1));
  const [name = ''] = (await readdir(out)).filter((entry) => entry.endsWith('.safetensors'));
  const good = await readFile(join(out, name));
  const bad = Buffer.from(good);
  bad[bad.length - 1] = (bad.at(-1) ?? 0) ^ 1;
  await writeFile(join(out, name), bad);
  await unshard(...part(1));
  expect(await readFile(join(out, name))).toEqual(bad);
  await unshard(...part(1, '--recheck'));
  expect(await readFile(join(out, name))).toEqual(good);
});

test('finish finds a damaged file, and its part writes it again', async () => {
  const { file, out, part } = await planned();
  for (let number = 1; number <= PARTS; number++) await unshard(...part(number));
  const [name = ''] = (await readdir(out)).filter((entry) => entry.startsWith('model-00002-of-'));
  const bytes = await readFile(join(out, name));
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  await writeFile(join(out, name), bytes);
  expect(await unshard('finish', file, out)).toMatchObject({ code: 10, stderr: expect.stringContaining(name) });
  for (let number = 1; number <= PARTS; number++) await unshard(...part(number));
  expect((await unshard('finish', file, out)).code).toBe(0);
  expect(await contents(out)).toEqual(await whole());
});

test('a checkpoint that has moved is named anew, whole or by its tag folder', async () => {
  const first = await checkpointCopy(NAME);
  const { file, out, part } = await planned(first);
  const moved = join(await temporaryFolder(), 'elsewhere');
  await rename(first, moved);
  expect(await unshard(...part(1))).toMatchObject({ code: 2, stderr: expect.stringContaining('--checkpoint') });
  expect((await unshard(...part(1, '--checkpoint', moved))).code).toBe(0);
  expect((await unshard(...part(2, '--checkpoint', join(moved, 'global_step3')))).code).toBe(0);
  expect((await readdir(out)).length).toBeGreaterThan(2);
  expect(file).toContain('plan.json');
});

test.each<[string, (path: string) => Promise<void>]>([
  ['grew', (path) => writeFile(path, 'x', { flag: 'a' })],
  ['was written again at another time', (path) => utimes(path, 1_000_000_000, 1_000_000_000)],
])('a source that %s since the plan was made is refused with both numbers', async (_, change) => {
  const checkpoint = await checkpointCopy(NAME);
  const { part } = await planned(checkpoint);
  const source = 'global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt';
  const before = await stat(join(checkpoint, source));
  await change(join(checkpoint, source));
  const after = await stat(join(checkpoint, source));
  const { code, stderr } = await unshard(...part(1, '--json'));
  expect(code).toBe(9);
  const isLonger = after.size !== before.size;
  const [expected, found] = isLonger ? [before.size, after.size] : [before.mtimeMs, after.mtimeMs];
  expect(JSON.parse(stderr)).toMatchObject({
    error: { code: 'source-changed', facts: { file: source, expected, found } },
  });
});

test('parts of another plan in the folder are refused with both hashes', async () => {
  const { folder, out, part } = await planned();
  await unshard(...part(1));
  const other = join(folder, 'other.json');
  await unshard('plan', checkpointPath(NAME), '-o', other);
  const { code, stderr } = await unshard('run', other, out, '--part', '1/2', '--json');
  expect(code).toBe(10);
  const hashOf = async (path: string) => (JSON.parse(await readFile(path, 'utf8')) as { hash: string }).hash;
  expect(JSON.parse(stderr)).toMatchObject({
    error: {
      code: 'parts-of-other-plan',
      facts: { expected: await hashOf(other), found: await hashOf(join(folder, 'plan.json')) },
    },
  });
});

test.each<[string, string, (text: string) => string]>([
  ['is no JSON', 'plan-file-bad', () => 'plan'],
  ['is other JSON', 'plan-file-bad', () => '{"unshard":"report"}'],
  ['was edited', 'plan-changed', (text) => text.replace('"fp16"', '"bf16"')],
  [
    'leads out of its folder',
    'plan-invalid',
    (text) => text.replace('"path":"config.json"', '"path":"../config.json"'),
  ],
  ['lacks a field', 'plan-invalid', (text) => text.replace('"aliases":{},', '')],
])('a plan that %s is refused', async (_, code, edit) => {
  const { file, out, part } = await planned();
  const text = await readFile(file, 'utf8');
  await writeFile(file, edit(text));
  expect(edit(text)).not.toBe(text);
  const refused = await unshard(...part(1, '--json'));
  expect(refused.code).toBe(2);
  expect(JSON.parse(refused.stderr)).toMatchObject({ error: { kind: 'usage', code } });
  expect(await readdir(out).catch(() => [])).toEqual([]);
});

test('a plan that is not there, and an output that is the checkpoint, are refused', async () => {
  const checkpoint = await checkpointCopy(NAME);
  const { folder, file, out } = await planned(checkpoint);
  const missing = await unshard('run', join(folder, 'none.json'), out, '--json');
  expect(JSON.parse(missing.stderr)).toMatchObject({
    error: { kind: 'usage', code: 'plan-file-bad', facts: { found: 'there is no such file' } },
  });
  const inside = await unshard('run', file, checkpoint, '--json');
  expect(JSON.parse(inside.stderr)).toMatchObject({ error: { kind: 'usage', code: 'output-is-input' } });
  await mkdir(out);
  await writeFile(join(out, 'config.json'), 'mine');
  const taken = await unshard('run', file, out, '--part', '1/1', '--json');
  expect(JSON.parse(taken.stderr)).toMatchObject({ error: { code: 'output-exists', facts: { file: 'config.json' } } });
  expect(await readFile(join(out, 'config.json'), 'utf8')).toBe('mine');
});
