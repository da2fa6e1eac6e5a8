import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type CommandResult, runNode, unshard } from '../helpers/cli.js';
import { checkpointPath, expectedOf } from '../helpers/fixtures.js';
import { readSafetensors } from '../helpers/safetensors.js';
import { emptyFolder } from './session.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs the command in a process of its own. */
function browser(...args: string[]): Promise<CommandResult> {
  return runNode(['--import', 'tsx', 'test/e2e/convert.ts', ...args], ROOT);
}

describe('npm run browser', () => {
  it('makes the folder, converts with the options, takes pictures, and prints one line of JSON', async () => {
    const home = emptyFolder();
    const output = join(home, 'new', 'model');
    const pictures = join(home, 'pictures');
    const options = ['--dtype', 'bf16', '--format', 'bin', '--backend', 'gpu', '--screenshots', pictures];
    const { code, stdout, stderr } = await browser(checkpointPath('gpt2-zero1-fp16-w2'), output, ...options);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { files, backend, seconds, peakMemory } = JSON.parse(stdout);
    expect(stdout.trim().split('\n')).toHaveLength(1);
    expect(backend.name).toBe('gpu');
    expect([typeof seconds, typeof peakMemory]).toEqual(['number', 'number']);
    expect(readdirSync(output).sort()).toEqual(files.map(({ path }: { path: string }) => path).sort());
    expect(readdirSync(output)).toContain('pytorch_model.bin');
    expect(readdirSync(pictures)).toContain('1-pick.png');
  });

  it('takes the options of the command line that say what is written', async () => {
    const output = emptyFolder();
    const choice = ['--adapter-only', '--include', '*.lora_A.*', '--exclude', '*.layers.0.*', '--dtype-for', '*=fp16'];
    const { code, stderr } = await browser(checkpointPath('lora-zero2-bf16-w2'), output, ...choice, '--no-verify');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { tensors } = readSafetensors(readFileSync(join(output, 'adapter_model.safetensors')));
    const expected = Object.entries(expectedOf('lora-zero2-bf16-w2').tensors).flatMap(([name, { sha256 }]) =>
      name.includes('.lora_A.') && !name.includes('.layers.0.')
        ? [[name.replace('.default.', '.'), sha256.fp16] as const]
        : [],
    );
    expect(expected.length).toBeGreaterThan(1);
    expect(new Map([...tensors].map(([name, { sha256 }]) => [name, sha256]))).toEqual(new Map(expected));
  });

  it.each([[[]], [['--lora-r', '3', '--lora-rslora']]])(
    'merges an adapter by the lora_alpha that is given and %j, as the command line does',
    async (scale) => {
      const [output, expected] = [emptyFolder(), emptyFolder()];
      const checkpoint = checkpointPath('lora-zero2-bf16-w2');
      const options = ['--merge-adapter', '--lora-alpha', '16', ...scale];
      expect(await browser(checkpoint, output, ...options)).toMatchObject({ code: 0, stderr: '' });
      expect(await unshard(checkpoint, expected, ...options, '--quiet')).toMatchObject({ code: 0 });
      const weightsIn = (folder: string) => readFileSync(join(folder, 'model.safetensors'));
      expect(weightsIn(output).equals(weightsIn(expected))).toBe(true);
    },
  );

  it('takes the rules of tensor-parallel ranks', async () => {
    const output = emptyFolder();
    const checkpoint = checkpointPath('llama-autotp2-zero1-bf16');
    const { code, stdout, stderr } = await browser(checkpoint, output, '--tp-rank', '1');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('Only the shards of tensor-parallel rank 1 of 2 are taken');
    const whole = emptyFolder();
    const rules = ['--tp-rule', '*norm*=replicated'];
    expect(await browser(checkpoint, whole, ...rules)).toMatchObject({ code: 0, stderr: '' });
    const tensorsIn = (folder: string) => readSafetensors(readFileSync(join(folder, 'model.safetensors'))).tensors;
    const expected = Object.entries(expectedOf('llama-autotp2-zero1-bf16').tensors);
    expect([...tensorsIn(whole)].map(([name, { sha256 }]) => [name, sha256]).sort()).toEqual(
      expected.map(([name, { sha256 }]) => [name, sha256.fp32]).sort(),
    );
    const [[name = ''] = []] = expected.filter(([, { shape }]) => shape.length === 2);
    expect(tensorsIn(output).get(name)?.shape).not.toEqual(tensorsIn(whole).get(name)?.shape);
  });

  it('lets the browser download the files', async () => {
    const output = emptyFolder();
    const { code, stdout, stderr } = await browser(checkpointPath('gpt2-zero1-fp16-w2'), output, '--download');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { files } = JSON.parse(stdout) as { files: { path: string; byteLength: number }[] };
    const found = readdirSync(output)
      .sort()
      .map((path) => ({ path, byteLength: statSync(join(output, path)).size }));
    const written = files.toSorted((a, b) => (a.path < b.path ? -1 : 1));
    expect(found).toEqual(written.map(({ path, byteLength }) => ({ path, byteLength })));
  });

  it('fails with the words of the page', async () => {
    const folder = emptyFolder();
    writeFileSync(join(folder, 'notes.txt'), 'no checkpoint');
    const { code, stdout, stderr } = await browser(folder, join(folder, 'out'));
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(/^.+checkpoint.+ \(no-checkpoint\)\n$/);
  });

  it('explains itself', async () => {
    const { code, stderr } = await browser();
    expect(code).toBe(1);
    expect(stderr).toMatch(/^Usage: npm run browser -- CHECKPOINT OUT/);
  });
});
