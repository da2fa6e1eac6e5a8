import { spawn } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { checkpointPath } from '../helpers/fixtures.js';
import { emptyFolder } from './session.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs the command in a process of its own. */
function browser(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--import', 'tsx', 'test/e2e/convert.ts', ...args], { cwd: ROOT });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk) => {
      stdout += chunk;
    });
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
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
