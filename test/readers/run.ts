/**
 * `npm run test:readers`: converts checkpoints with the built command line, and lets torch, safetensors,
 * huggingface_hub, transformers and peft read the results. Makes the Python environment that it needs.
 */

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CLI } from '../helpers/cli.js';
import { checkpointPath, FIXTURE_NAMES, FIXTURES, PRECISIONS } from '../helpers/fixtures.js';
import { type Convert, loraCases } from './lora.js';

const here = fileURLToPath(new URL('.', import.meta.url));
const project = join(here, '../..');

/** One conversion and how it is to be read. */
interface Case {
  readonly name: string;
  readonly dtype: string;
  readonly format: string;
  readonly maxShardSize?: string;
  readonly out: string;
}

if (!existsSync(CLI)) run('npm', ['run', 'build']);
const python = readersPython();
const work = mkdtempSync(join(tmpdir(), 'unshard-readers-'));
try {
  const cases = allCases();
  for (const { name, dtype, format, maxShardSize, out } of cases) {
    const size = maxShardSize === undefined ? [] : ['--max-shard-size', maxShardSize];
    run(
      process.execPath,
      [CLI, checkpointPath(name), out, '--dtype', dtype, '--format', format, ...size, '--overflow', 'inf', '--json'],
      true,
    );
  }
  writeFileSync(join(work, 'cases.json'), JSON.stringify({ fixtures: FIXTURES, cases }));
  run(python, [join(here, 'check.py'), join(work, 'cases.json')]);
  checkLora();
} finally {
  rmSync(work, { recursive: true, force: true });
}

/** LoRA runs, compared with what peft makes of them. */
function checkLora(): void {
  const runs = join(work, 'lora-runs');
  const list = join(work, 'lora.json');
  run(python, [join(here, 'lora.py'), 'make', runs]);
  const convert: Convert = (checkpoint, out, ...options) =>
    spawnSync(process.execPath, [CLI, checkpoint, out, ...options, '--json'], { stdio: 'ignore' }).status === 0;
  writeFileSync(list, JSON.stringify(loraCases(runs, join(work, 'lora-results'), convert)));
  run(python, [join(here, 'lora.py'), 'check', list]);
}

/** Every checkpoint in every precision and format; split where a split makes several files. */
function allCases(): Case[] {
  const variants = PRECISIONS.flatMap((dtype) => [
    { dtype, format: 'safetensors' },
    { dtype, format: 'bin' },
    { dtype, format: 'safetensors', maxShardSize: '20KB' },
    { dtype, format: 'bin', maxShardSize: '20KB' },
  ]);
  return FIXTURE_NAMES.flatMap((name) =>
    variants.map((variant, i) => ({ name, ...variant, out: join(work, `${name}-${i}`) })),
  );
}

/** A Python with the readers, made once for each list of requirements. */
function readersPython(): string {
  const requirements = join(here, 'requirements.txt');
  const id = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 12);
  const venv = join(project, '.cache', `readers-${id}`);
  const interpreter = join(venv, 'bin', 'python');
  const complete = join(venv, 'complete');
  if (existsSync(complete)) return interpreter;
  rmSync(venv, { recursive: true, force: true });
  mkdirSync(join(project, '.cache'), { recursive: true });
  run('python3', ['-m', 'venv', venv]);
  run(interpreter, ['-m', 'pip', 'install', '--quiet', '--retries', '0', '-r', requirements]);
  writeFileSync(complete, '');
  return interpreter;
}

function run(command: string, args: readonly string[], quiet = false): void {
  const { status, stderr } = spawnSync(command, args, {
    cwd: project,
    stdio: ['ignore', quiet ? 'ignore' : 'inherit', quiet ? 'pipe' : 'inherit'],
  });
  if (status === 0) return;
  process.stderr.write(`${command} ${args.join(' ')} ended with ${status}\n${stderr ?? ''}\n`);
  process.exit(1);
}
