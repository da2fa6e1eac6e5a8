/**
 * The conversions of LoRA runs that `lora.py` compares with what peft makes of them: runs that it made itself, and the
 * checkpoints of DeepSpeed, which come without adapter_config.json and are given one.
 */

import { cpSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkpointPath } from '../helpers/fixtures.js';

/** Runs the built command line; false where it ends with an error. */
export type Convert = (checkpoint: string, out: string, ...options: string[]) => boolean;

/** Adapters of the runs that `lora.py make` writes; those of one have names of their own. */
const ADAPTERS: Readonly<Record<string, readonly string[]>> = { 'two-adapters': ['default', 'policy'] };

/** Runs whose adapter is more than plain LoRA: only peft can merge it. */
const NOT_MERGED: ReadonlySet<string> = new Set(['dora', 'lora-bias', 'tokens']);

const FIXTURES = ['lora-zero1-bf16-w2', 'lora-zero2-bf16-w2', 'lora-zero3-bf16-w2', 'lora-nofrozen-zero3-bf16-w2'];

/** What the runs of these checkpoints were configured with; alpha is not recorded in them and is ours. */
const FIXTURE_CONFIG = {
  peft_type: 'LORA',
  task_type: 'CAUSAL_LM',
  r: 3,
  lora_alpha: 16,
  bias: 'none',
  target_modules: ['q_proj', 'v_proj', 'down_proj'],
};

/** Converts every run below `runs`, and the checkpoints of DeepSpeed, into `work`. */
export function loraCases(runs: string, work: string, convert: Convert): object[] {
  const made = readdirSync(runs).flatMap((name) =>
    (ADAPTERS[name] ?? ['default']).flatMap((adapter) => runCases(runs, work, name, adapter, convert)),
  );
  return [...made, ...FIXTURES.map((name) => fixtureCase(work, name, convert))];
}

function runCases(runs: string, work: string, name: string, adapter: string, convert: Convert): object[] {
  const run = join(runs, name);
  const named = name in ADAPTERS ? ['--adapter-name', adapter] : [];
  const cases = (['safetensors', 'bin'] as const).map((format) => {
    const out = join(work, `${name}-${adapter}-${format}`);
    must(convert(join(run, 'checkpoint'), out, '--adapter-only', '--format', format, ...named), out);
    return { kind: 'adapter', name, adapter, run, format, out };
  });
  const out = join(work, `${name}-${adapter}-merged`);
  const merged = convert(join(run, 'checkpoint'), out, '--merge-adapter', ...named);
  must(merged !== NOT_MERGED.has(name), out);
  return merged ? [...cases, { kind: 'merged', name, adapter, out }] : cases;
}

function fixtureCase(work: string, name: string, convert: Convert): object {
  const checkpoint = join(work, `${name}-checkpoint`);
  rmSync(checkpoint, { recursive: true, force: true });
  cpSync(checkpointPath(name), checkpoint, { recursive: true });
  writeFileSync(join(checkpoint, 'adapter_config.json'), JSON.stringify(FIXTURE_CONFIG));
  const [modelOut, adapterOut, mergedOut] = ['model', 'adapter', 'merged'].map((kind) => join(work, `${name}-${kind}`));
  must(convert(checkpoint, modelOut ?? '', '--dtype', 'fp32'), name);
  must(convert(checkpoint, adapterOut ?? '', '--adapter-only'), name);
  const merged = convert(checkpoint, mergedOut ?? '', '--merge-adapter');
  must(merged !== name.includes('nofrozen'), name);
  return { kind: 'fixture', name, checkpoint, modelOut, adapterOut, mergedOut: merged ? mergedOut : null };
}

function must(condition: boolean, what: string): void {
  if (!condition) throw new Error(`${what}: the conversion did not end as it should`);
}
