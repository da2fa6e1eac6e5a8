import { execFileSync } from 'node:child_process';
import { chmod, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { CLI, temporaryFolder, unshard } from '../helpers/cli.js';
import { checkpointPath } from '../helpers/fixtures.js';

const NAME = 'llama-zero3-bf16-w4';
const OPTIONS = ['--max-shard-size', '20KB'];

const scriptPath = fileURLToPath(new URL('../../src/cli/slurm.sh', import.meta.url));
const manifestPath = fileURLToPath(new URL('../../src/cli/kubernetes.yaml', import.meta.url));

/**
 * A Slurm of one node: runs each task of an array at once, as the scheduler would, and then what depends on it. It notes
 * how it was called.
 */
const SBATCH = `#!/bin/bash
set -e
echo "$*" >>"$SBATCH_LOG"
range=
while [[ "$1" == --* ]]; do
  case "$1" in --array=*) range=\${1#--array=} ;; esac
  shift
done
if [ -n "$range" ]; then
  for id in $(seq "\${range%-*}" "\${range#*-}"); do SLURM_ARRAY_TASK_ID=$id bash "$@" >/dev/null; done
else
  bash "$@" >/dev/null
fi
echo "42;cluster"
`;

async function withSlurm() {
  const folder = await temporaryFolder();
  await writeFile(join(folder, 'sbatch'), SBATCH);
  await chmod(join(folder, 'sbatch'), 0o755);
  const log = join(folder, 'log');
  const env = {
    ...process.env,
    PATH: `${folder}:${process.env['PATH']}`,
    SBATCH_LOG: log,
    UNSHARD: `${process.execPath} ${CLI}`,
  };
  return { env, calls: async () => (await readFile(log, 'utf8')).trim().split('\n') };
}

async function filesOf(folder: string): Promise<Map<string, string>> {
  const names = (await readdir(folder)).toSorted();
  return new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), 'hex')] as const)),
  );
}

describe('the script for Slurm', () => {
  test('is one that bash can read', () => {
    expect(execFileSync('bash', ['-n', scriptPath], { encoding: 'utf8' })).toBe('');
  });

  test('plans, submits the parts as an array and what finishes after them, and makes the files of one process', async () => {
    const { env, calls } = await withSlurm();
    const folder = await temporaryFolder();
    const [out, alone] = [join(folder, 'out of many'), join(folder, 'alone')];
    execFileSync(scriptPath, [checkpointPath(NAME), `${out}/`, '3', ...OPTIONS], { env });
    expect(await calls()).toEqual([
      `--parsable --array=1-3 ${scriptPath} part ${out}.plan.json ${out} 3`,
      `--dependency=afterok:42 --kill-on-invalid-dep=yes ${scriptPath} finish ${out}.plan.json ${out}`,
    ]);
    await unshard(checkpointPath(NAME), alone, ...OPTIONS);
    expect(await filesOf(out)).toEqual(await filesOf(alone));
  });

  test('says how it is called', () => {
    expect(() => execFileSync(scriptPath, ['checkpoint', 'out'], { stdio: 'pipe' })).toThrow('Usage: slurm.sh');
  });
});

/** The parts of a Job that matter here. */
interface Job {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly completionMode?: string;
    readonly completions?: number;
    readonly parallelism?: number;
    readonly suspend?: boolean;
    readonly template: {
      readonly spec: { readonly containers: readonly Container[]; readonly volumes: readonly Named[] };
    };
  };
}

interface Named {
  readonly name: string;
}

interface Container {
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly command: readonly string[];
  readonly args?: readonly string[];
  readonly volumeMounts: readonly Named[];
}

describe('the manifest for Kubernetes', async () => {
  const documents = parseAllDocuments(await readFile(manifestPath, 'utf8'));
  const [parts, finish] = documents.map((document) => document.toJS() as Job);

  test('is YAML without faults: a job for the parts, and one that waits to finish', () => {
    expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([]);
    expect(documents).toHaveLength(2);
    expect([parts?.kind, finish?.kind]).toEqual(['Job', 'Job']);
    expect(parts?.spec.completionMode).toBe('Indexed');
    expect(finish?.spec.suspend).toBe(true);
    for (const { spec } of [parts?.spec.template, finish?.spec.template].flatMap((template) => template ?? [])) {
      const volumes = spec.volumes.map(({ name }) => name);
      expect(spec.containers.flatMap(({ volumeMounts }) => volumeMounts.map(({ name }) => name))).toEqual(volumes);
    }
  });

  test('runs every part once, and then finishes', async () => {
    const [container] = parts?.spec.template.spec.containers ?? [];
    const count = container?.env?.find(({ name }) => name === 'PARTS')?.value;
    expect([parts?.spec.completions, parts?.spec.parallelism]).toEqual([Number(count), Number(count)]);
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'unshard'), `#!/bin/sh\necho "$@"\n`);
    await chmod(join(folder, 'unshard'), 0o755);
    const commands = [...Array(Number(count)).keys()].map((index) => {
      const env = { PATH: `${folder}:${process.env['PATH']}`, PARTS: count, JOB_COMPLETION_INDEX: String(index) };
      const [program = '', ...args] = [...(container?.command ?? []), ...(container?.args ?? [])];
      return execFileSync(program, args, { env, encoding: 'utf8' }).trim();
    });
    expect(commands).toEqual(commands.map((_, i) => `run /out/plan.json /out/weights --part ${i + 1}/${count}`));
    expect(finish?.spec.template.spec.containers[0]?.command).toEqual([
      'unshard',
      'finish',
      '/out/plan.json',
      '/out/weights',
    ]);
  });
});
