import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { CLI, checkpointCopy, heldUnshard, temporaryFolder, unshard } from '../helpers/cli.js';
import { checkpointPath, expectedOf } from '../helpers/fixtures.js';
import { readSafetensors } from '../helpers/safetensors.js';

const ZERO3 = 'llama-tied-zero3-bf16-w3';
const TRAINER = 'hf-trainer-t5-zero3-bf16-w2';
const BUFFERS = 'conv-buffers-zero2-fp16-w2';

async function expectNothing(out: string): Promise<void> {
  expect(await readdir(out).catch(() => [])).toEqual([]);
}

describe('inspecting', () => {
  test('shows what is in a checkpoint', async () => {
    const { code, stdout } = await unshard(checkpointPath(ZERO3));
    expect(code).toBe(0);
    expect(stdout).toContain('deepspeed-zero3, tag global_step3 (latest)');
    expect(stdout).toContain('lm_head.weight = model.embed_tokens.weight');
    expect(stdout).toContain('model.norm.weight  [36]  F32  master');
  });

  test('gives the inventory as JSON', async () => {
    const { stdout } = await unshard(checkpointPath(ZERO3), '--json');
    const inventory = JSON.parse(stdout) as { tensors: { name: string }[]; facts: { elements: number } };
    const { tensors, elements } = expectedOf(ZERO3);
    expect(inventory.tensors.map(({ name }) => name).toSorted()).toEqual(Object.keys(tensors).toSorted());
    expect(inventory.facts.elements).toBe(elements);
  });

  test('a folder that is picked at the tag gives the same tensors and finds the configuration beside it', async () => {
    const out = await temporaryFolder();
    const { code } = await unshard(join(checkpointPath(TRAINER), 'global_step2'), out);
    expect(code).toBe(0);
    expect(await readdir(out)).toContain('config.json');
  });
});

test('--help loads the command line alone, so that it is there at once', async () => {
  const loaded = new Set([CLI]);
  let bytes = 0;
  for (const path of loaded) {
    const text = await readFile(path, 'utf8');
    bytes += text.length;
    for (const [, file] of text.matchAll(/(?:^|;)(?:import|export)\b[^;]*?from ?"(\.[^"]+)";/gm))
      loaded.add(join(path, '..', file ?? ''));
  }
  expect(loaded.size).toBeGreaterThan(1);
  expect(bytes).toBeLessThan(40_000);
  expect(await unshard('--help')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Usage: unshard CHECKPOINT OUT'),
  });
});

test('the built command line can be run by its path, as npx does', async () => {
  const { stdout } = await promisify(execFile)(CLI, ['--help']);
  expect(stdout).toContain('unshard CHECKPOINT OUT');
});

describe('converting', () => {
  test('makes the folder, copies configuration and tokenizer, and leaves training files where they are', async () => {
    const out = join(await temporaryFolder(), 'new', 'folder');
    const { code } = await unshard(checkpointPath(TRAINER), out, '--dtype', 'fp16');
    expect(code).toBe(0);
    const companions = ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json'];
    expect((await readdir(out)).toSorted()).toEqual([...companions, 'model.safetensors'].toSorted());
    const config = JSON.parse(await readFile(join(out, 'config.json'), 'utf8')) as { dtype: string };
    expect(config.dtype).toBe('float16');
  });

  test('prints the report as JSON', async () => {
    const { stdout } = await unshard(checkpointPath(ZERO3), await temporaryFolder(), '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      version: 1,
      options: { dtype: 'fp32' },
      backend: { name: 'cpu', choice: { chosen: 'cpu', reason: expect.stringContaining('CPU') } },
      checks: expect.arrayContaining([expect.objectContaining({ id: 'input-crc32', status: 'passed' })]),
    });
  });

  test('--dry-run writes nothing', async () => {
    const out = await temporaryFolder();
    const { code, stdout } = await unshard(checkpointPath(ZERO3), out, '--dry-run', '--max-shard-size', '50KB');
    expect(code).toBe(0);
    expect(stdout).toContain('model-00001-of-00002.safetensors');
    await expectNothing(out);
  });

  test('--exclude-frozen leaves the base of a LoRA run out', async () => {
    const out = await temporaryFolder();
    await unshard(checkpointPath('lora-zero2-bf16-w2'), out, '--exclude-frozen');
    const { tensors } = readSafetensors(await readFile(join(out, 'model.safetensors')));
    expect([...tensors.keys()].every((name) => name.includes('lora_'))).toBe(true);
    expect(tensors.size).toBe(12);
  });

  test('files that are there are not replaced, unless asked', async () => {
    const out = await temporaryFolder();
    await writeFile(join(out, 'model.safetensors'), 'mine');
    const refused = await unshard(checkpointPath(BUFFERS), out);
    expect(refused).toMatchObject({ code: 10, stdout: '' });
    expect(refused.stderr).toContain('model.safetensors');
    expect(await readFile(join(out, 'model.safetensors'), 'utf8')).toBe('mine');
    expect((await unshard(checkpointPath(BUFFERS), out, '--overwrite')).code).toBe(0);
  });

  test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    '%s cancels a run in the middle: nothing is left, and the exit code says so',
    async (signal) => {
      const out = await temporaryFolder();
      const command = await heldUnshard(checkpointPath(ZERO3), out);
      expect(await readdir(out)).toContainEqual(expect.stringMatching(/^model\.safetensors\.partial-/));
      command.kill(signal);
      // The write that is held goes on with this one.
      if (signal !== 'SIGINT') command.kill('SIGINT');
      expect(await command.ended).toEqual({ code: 130, signal: null });
      await expectNothing(out);
    },
  );

  test('a run that was killed leaves nothing that looks like a model, and the same command again makes it', async () => {
    const out = await temporaryFolder();
    const command = await heldUnshard(checkpointPath(ZERO3), out);
    command.kill('SIGKILL');
    expect(await command.ended).toEqual({ code: null, signal: 'SIGKILL' });
    const left = await readdir(out);
    expect(left).toContainEqual(expect.stringMatching(/^model\.safetensors\.partial-/));
    expect(left.filter((name) => !name.includes('.partial-'))).toEqual([]);
    expect((await unshard(checkpointPath(ZERO3), out)).code).toBe(0);
    const whole = await temporaryFolder();
    expect((await unshard(checkpointPath(ZERO3), whole)).code).toBe(0);
    expect((await readdir(out)).toSorted()).toEqual(['config.json', 'model.safetensors']);
    for (const name of await readdir(out)) {
      expect(await readFile(join(out, name))).toEqual(await readFile(join(whole, name)));
    }
  });
});

describe('standard output', () => {
  /** Runs a command in a shell that says what becomes of its output. */
  const inShell = (script: string, ...args: string[]) =>
    new Promise<{ code: number | null; stderr: string }>((resolve) => {
      execFile('bash', ['-o', 'pipefail', '-c', script, process.execPath, CLI, ...args], (error, _, stderr) =>
        resolve({ code: error ? Number(error.code) : 0, stderr }),
      );
    });

  test.each(['--json', '--quiet'])('whose reader goes away early is no failure (%s)', async (option) => {
    const out = await temporaryFolder();
    // The reader is gone before Node has started.
    for (const args of [[checkpointPath(ZERO3)], [checkpointPath(ZERO3), out], ['--help']])
      expect(await inShell('"$0" "$@" | true', ...args, option)).toEqual({ code: 0, stderr: '' });
    expect((await readdir(out)).toSorted()).toEqual(['config.json', 'model.safetensors']);
  });

  test.runIf(existsSync('/dev/full'))('that cannot be written is one, told without a stack trace', async () => {
    const out = await temporaryFolder();
    for (const args of [[checkpointPath(ZERO3)], [checkpointPath(ZERO3), out, '--quiet']]) {
      const { code, stderr } = await inShell('"$0" "$@" > /dev/full', ...args);
      expect({ code, lines: stderr.trimEnd().split('\n') }).toEqual({
        code: 10,
        lines: [expect.stringMatching(/^Error \(sink-failed\): standard output could not be written\./)],
      });
    }
    expect((await readdir(out)).toSorted()).toEqual(['config.json', 'model.safetensors']);
  });
});

describe('errors end with the exit code of their kind, name file and numbers, and leave no output', () => {
  test('usage', async () => {
    expect(await unshard()).toMatchObject({ code: 2 });
    const folder = checkpointPath(BUFFERS);
    expect(await unshard(folder, folder)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('(output-is-input)'),
    });
    expect(await unshard('/nowhere', '/tmp/x')).toMatchObject({
      code: expect.toSatisfy((code) => code === 2 || code === 3),
    });
  });

  test('a folder without a checkpoint', async () => {
    const [folder, out] = [await temporaryFolder(), await temporaryFolder()];
    const { code, stderr } = await unshard(folder, out);
    expect(code).toBe(3);
    expect(stderr).toContain('no-checkpoint');
    await expectNothing(out);
  });

  test('a missing rank', async () => {
    const [folder, out] = [await checkpointCopy(ZERO3), await temporaryFolder()];
    await rm(join(folder, 'global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt'));
    const { code, stderr } = await unshard(folder, out);
    expect(code).toBe(4);
    expect(stderr).toContain('should hold 3 *_optim_states.pt files, one per rank; 2 are there. Missing: rank 1.');
    expect(stderr).toContain('--partial');
    await expectNothing(out);
    const shown = await unshard(folder);
    expect(shown.code).toBe(4);
    expect(shown.stdout).toMatch(/PROBLEM .*Missing: rank 1\. .*--partial/);
  });

  test('a truncated shard', async () => {
    const [folder, out] = [await checkpointCopy(ZERO3), await temporaryFolder()];
    const file = 'global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt';
    await truncate(join(folder, file), 50_000);
    const { code, stderr } = await unshard(folder, out);
    expect(code).toBe(5);
    expect(stderr).toContain(file);
    expect(stderr).toContain('50000');
    await expectNothing(out);
  });

  test('a flipped bit in the weights, which torch.load does not see', async () => {
    const [folder, out] = [await checkpointCopy(ZERO3), await temporaryFolder()];
    const file = join(folder, 'global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt');
    const bytes = await readFile(file);
    const inventory = JSON.parse((await unshard(folder, '--json')).stdout) as { partitions: { offset: number }[][] };
    const at = (inventory.partitions[0]?.[1]?.offset ?? 0) + 100;
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    await writeFile(file, bytes);
    const { code, stderr } = await unshard(folder, out);
    expect(code).toBe(5);
    expect(stderr).toContain('crc-mismatch');
    await expectNothing(out);
  });

  test('counts that disagree', async () => {
    const [folder, out] = [await checkpointCopy(ZERO3), await temporaryFolder()];
    const other = checkpointPath('llama-zero3-bf16-w4');
    const file = 'global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt';
    await cp(join(other, file), join(folder, file));
    const { code, stderr } = await unshard(folder, out);
    expect(code).toBe(6);
    expect(stderr).toContain('partition_count');
    await expectNothing(out);
  });

  test('a layout that is not read', async () => {
    const [folder, out] = [await checkpointCopy(ZERO3), await temporaryFolder()];
    const file = (name: string) => join(folder, 'global_step3', `${name}_mp_rank_00_model_states.pt`);
    await cp(file('zero_pp_rank_0'), file('layer_0_expert_0'));
    const { code, stderr } = await unshard(folder, out);
    expect(code).toBe(7);
    expect(stderr).toContain('moe-zero3');
    await expectNothing(out);
  });

  test('as JSON where asked', async () => {
    const { code, stderr } = await unshard(await temporaryFolder(), await temporaryFolder(), '--json');
    expect(code).toBe(3);
    expect(JSON.parse(stderr)).toMatchObject({ error: { kind: 'not-checkpoint', code: 'no-checkpoint' } });
  });
});
