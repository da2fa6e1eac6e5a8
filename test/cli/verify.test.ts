import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { VerifyReport } from '../../src/engine/verify.js';
import { temporaryFolder, unshard } from '../helpers/cli.js';
import { checkpointPath, expectedOf, FIXTURE_NAMES } from '../helpers/fixtures.js';

const TIED = 'llama-tied-zero2-bf16-w3';
const GATHERED = 'llama-zero3-bf16-w4';

describe('unshard verify', () => {
  test.each(FIXTURE_NAMES)('%s: what was written matches', async (name) => {
    const out = await temporaryFolder();
    await unshard(checkpointPath(name), out, '--dtype', 'fp16', '--overflow', 'inf');
    const { code, stderr, stdout } = await unshard('verify', checkpointPath(name), out, '--json');
    const report = JSON.parse(stdout || 'null') as VerifyReport | null;
    const faults = report?.tensors.filter(({ status }) => status !== 'match' && status !== 'tied');
    expect({ code, stderr, faults }).toEqual({ code: 0, stderr: '', faults: [] });
    expect(report?.tensors.filter(({ status }) => status === 'match')).toHaveLength(
      Object.keys(expectedOf(name).tensors).length,
    );
  });

  test('shows every tensor and ends with 0 where all match', async () => {
    const out = await temporaryFolder();
    await unshard(checkpointPath(TIED), out, '--dtype', 'bf16', '--format', 'bin', '--max-shard-size', '20KB');
    const { code, stdout } = await unshard('verify', checkpointPath(TIED), out);
    expect(code).toBe(0);
    expect(stdout).toContain('  =  model.norm.weight  [36]  BF16\n');
    expect(stdout).toMatch(/The weights are those of the checkpoint: (\d+) of \1 tensors match\.\n$/);
  });

  test('takes weights that others wrote: those that the run gathered', async () => {
    const weights = join(checkpointPath(GATHERED), 'pytorch_model.bin');
    const { code, stdout } = await unshard('verify', checkpointPath(GATHERED), weights);
    expect({ code, count: stdout.match(/^ {2}= /gm)?.length }).toEqual({ code: 0, count: 21 });
  });

  test('ends with the code of contradicting files where one element is another, and shows it', async () => {
    const out = await temporaryFolder();
    await unshard(checkpointPath(TIED), out);
    const file = join(out, 'model.safetensors');
    const bytes = await readFile(file);
    bytes[bytes.length - 1] = (bytes[bytes.length - 1] ?? 0) ^ 0x80;
    await writeFile(file, bytes);
    const { code, stdout } = await unshard('verify', checkpointPath(TIED), file);
    expect(code).toBe(6);
    expect(stdout).toMatch(
      / {2}≠ {2}model\.norm\.weight {2}\[36\] {2}F32 {2}elements that differ: 1; the first, 35, is -\S+ and should be \d/,
    );
    expect(stdout).toContain('The weights are not those of the checkpoint');
  });

  test('ends with the code of contradicting files where the checkpoint is another', async () => {
    const weights = await temporaryFolder();
    await unshard(checkpointPath('bert-groups-zero3-bf16-w3'), weights);
    const { code, stdout } = await unshard('verify', checkpointPath(TIED), weights);
    expect(code).toBe(6);
    expect(stdout).toMatch(/ {2}- {2}model\.norm\.weight .* missing/);
    expect(stdout).toMatch(/ {2}\+ {2}\S+ .* not in the checkpoint/);
  });

  test('knows an adapter by its keys, and takes the options that other weights were written with', async () => {
    const lora = 'lora-zero3-bf16-w2';
    const [adapter, stripped] = [await temporaryFolder(), await temporaryFolder()];
    await unshard(checkpointPath(lora), adapter, '--adapter-only', '--dtype', 'bf16');
    const found = await unshard('verify', checkpointPath(lora), adapter);
    expect({ code: found.code, count: found.stdout.match(/^ {2}= .*lora_/gm)?.length }).toEqual({ code: 0, count: 12 });
    const options = ['--strip-prefix', 'base_model.model.', '--exclude', '*.lora_*'];
    await unshard(checkpointPath(lora), stripped, ...options);
    expect((await unshard('verify', checkpointPath(lora), stripped, ...options)).code).toBe(0);
    expect((await unshard('verify', checkpointPath(lora), stripped)).code).toBe(6);
  });

  test('refuses what it cannot compare', async () => {
    expect(await unshard('verify', checkpointPath(TIED))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('WEIGHTS is missing'),
    });
    expect(await unshard('verify', checkpointPath(TIED), await temporaryFolder())).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('weights-missing'),
    });
    expect(await unshard('verify', checkpointPath(TIED), '/nowhere')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/folder-missing.*Name the file of the weights/),
    });
    expect(await unshard('verify', '/nowhere', await temporaryFolder())).toMatchObject({ code: 2 });
  });
});
