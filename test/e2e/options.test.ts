import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkpointPath, expectedOf } from '../helpers/fixtures.js';
import { readSafetensors, sha256 } from '../helpers/safetensors.js';
import {
  chooseDestination,
  convertInPage,
  openCheckpoint,
  openPage,
  type PageOptions,
  pressStart,
  readReport,
  setOptions,
} from './drive.js';
import { emptyFolder, useSession } from './session.js';

const session = useSession();

const NAME = 'lora-zero2-bf16-w2';
const { tensors: EXPECTED } = expectedOf(NAME);

/** The run has adapters of this rank; the value of alpha is ours. */
const [RANK, ALPHA] = [3, 16];

/** A copy of the LoRA run with the adapter_config.json that it would have left beside it. */
function loraRun(): string {
  const folder = emptyFolder();
  cpSync(checkpointPath(NAME), folder, { recursive: true });
  const config = { peft_type: 'LORA', r: RANK, lora_alpha: ALPHA, bias: 'none' };
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify(config));
  return folder;
}

/** Converts the LoRA run into an empty folder, which is returned with the report. */
async function convert(options: PageOptions) {
  const output = emptyFolder();
  const report = await convertInPage(session.page, { checkpoint: loraRun(), output, ...options });
  return { output, report };
}

function hashesOf(folder: string, file = 'model.safetensors'): Record<string, string> {
  const { tensors } = readSafetensors(readFileSync(join(folder, file)));
  return Object.fromEntries([...tensors].map(([name, tensor]) => [name, tensor.sha256]));
}

/** Hashes of the expected tensors whose name passes, under the names that `rename` makes. */
function expected(passes: (name: string) => boolean, rename = (name: string) => name): Record<string, string> {
  const wanted = Object.entries(EXPECTED).filter(([name]) => passes(name));
  return Object.fromEntries(wanted.map(([name, tensor]) => [rename(name), tensor.sha256.fp32]));
}

/** The values of an fp32 tensor of a file. */
function floatsOf(bytes: Buffer, name: string): Float32Array {
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString('utf8')) as Record<
    string,
    { data_offsets: [number, number] }
  >;
  const [from = 0, to = 0] = header[name]?.data_offsets ?? [];
  return new Float32Array(new Uint8Array(bytes.subarray(8 + length + from, 8 + length + to)).buffer);
}

/** `W + scale * (B x A)`, every operation rounded to fp32. */
function merged(w: Float32Array, a: Float32Array, b: Float32Array): Uint8Array<ArrayBuffer> {
  const [columns, scale] = [a.length / RANK, Math.fround(ALPHA / RANK)];
  const sums = Float32Array.from(w, (value, at) => {
    let sum = 0;
    for (let k = 0; k < RANK; k++) {
      const left = b[Math.floor(at / columns) * RANK + k] ?? 0;
      sum = Math.fround(sum + Math.fround(left * (a[k * columns + (at % columns)] ?? 0)));
    }
    return Math.fround(value + Math.fround(sum * scale));
  });
  return new Uint8Array(sums.buffer);
}

describe('a LoRA run', () => {
  it('gives the adapter alone under the keys of PEFT', async () => {
    const { output } = await convert({ kind: 'adapter' });
    expect(readdirSync(output).sort()).toEqual(['adapter_config.json', 'adapter_model.safetensors']);
    const adapter = expected(
      (name) => name.includes('.lora_'),
      (name) => name.replace('.default.', '.'),
    );
    expect(Object.keys(adapter)).toHaveLength(12);
    expect(hashesOf(output, 'adapter_model.safetensors')).toEqual(adapter);
  });

  it('gives the base model with the adapter merged in, and the report says so', async () => {
    const whole = readFileSync(join((await convert({})).output, 'model.safetensors'));
    const { output, report } = await convert({ kind: 'merged' });
    const wanted = Object.entries(EXPECTED).flatMap(([name, tensor]) => {
      if (name.includes('.lora_')) return [];
      const key = name.replace('base_model.model.', '').replace('.base_layer', '');
      if (!name.endsWith('.base_layer.weight')) return [[key, tensor.sha256.fp32]];
      const part = (kind: string) => floatsOf(whole, name.replace('base_layer.weight', kind));
      const parts = [part('base_layer.weight'), part('lora_A.default.weight'), part('lora_B.default.weight')] as const;
      return [[key, sha256(merged(...parts))]];
    });
    expect(hashesOf(output)).toEqual(Object.fromEntries(wanted));
    expect(report.tensors.filter(({ computed }) => computed === 'lora')).toHaveLength(6);
    const facts = await session.page.locator('.facts').textContent();
    expect(facts).toContain('6 tensors with the adapter merged in');
  });

  it('without adapter_config.json asks for its lora_alpha, and merges with that', async () => {
    const { page, url } = session;
    const alpha = page.locator('input[name="lora-alpha"]');
    await openPage(page, url);
    await openCheckpoint(page, checkpointPath(NAME));
    expect(await alpha.count()).toBe(0);
    await setOptions(page, { kind: 'merged' });
    await alpha.fill('many');
    await page.locator('#obstacle', { hasText: 'lora_alpha' }).waitFor();
    await alpha.fill('');
    await page.locator('.notice.problem', { hasText: 'lora_alpha' }).waitFor();
    await alpha.fill(String(ALPHA));
    const output = emptyFolder();
    await chooseDestination(page, output);
    await pressStart(page, false);
    await readReport(page);
    expect(hashesOf(output)).toEqual(hashesOf((await convert({ kind: 'merged' })).output));
    expect(await alpha.count()).toBe(0);
  });

  it('offers the adapter, and a run without one does not', async () => {
    const { page, url } = session;
    await openPage(page, url);
    await openCheckpoint(page, loraRun());
    expect(await page.locator('input[name="output"]').count()).toBe(3);
    await openPage(page, url);
    await openCheckpoint(page, checkpointPath('llama-zero2-bf16-w1'));
    expect(await page.locator('input[name="output"]').count()).toBe(0);
  });
});

describe('more options', () => {
  it('choose tensors by patterns', async () => {
    const { output } = await convert({ include: ['*.layers.0.*', '*lm_head*'], exclude: ['*.lora_*', '*norm*'] });
    const wanted = expected(
      (name) => /\.layers\.0\.|lm_head/.test(name) && !name.includes('.lora_') && !name.includes('norm'),
    );
    expect(Object.keys(wanted).length).toBeGreaterThan(3);
    expect(hashesOf(output)).toEqual(wanted);
  });

  it('write what was trained only', async () => {
    const { output } = await convert({ trainableOnly: true });
    expect(hashesOf(output)).toEqual(expected((name) => EXPECTED[name]?.source === 'master'));
  });

  it('convert names to a precision of their own, the first rule first', async () => {
    const { output } = await convert({ dtype: 'bf16', dtypeFor: ['*.lora_A.*=keep', '*.lora_*=fp16'] });
    const { tensors } = readSafetensors(readFileSync(join(output, 'model.safetensors')));
    const dtypes = (part: string) =>
      new Set([...tensors].flatMap(([name, { dtype }]) => (name.includes(part) ? [dtype] : [])));
    expect(dtypes('.lora_A.')).toEqual(new Set(['F32']));
    expect(dtypes('.lora_B.')).toEqual(new Set(['F16']));
    expect(dtypes('.base_layer.')).toEqual(new Set(['BF16']));
  });

  it('strip a prefix, and show before what becomes of the names', async () => {
    const { page, url } = session;
    const prefix = 'base_model.model.';
    const { output } = await convert({ stripPrefix: prefix });
    expect(hashesOf(output)).toEqual(
      expected(
        () => true,
        (name) => name.replace(prefix, ''),
      ),
    );
    await openPage(page, url);
    await openCheckpoint(page, loraRun());
    await setOptions(page, { stripPrefix: prefix });
    const preview = page.getByTestId('prefix-preview');
    const { length } = Object.keys(EXPECTED);
    const renamed = new RegExp(`^${prefix}model\\..* becomes model\\..*: ${length} of`);
    await expect.poll(() => preview.textContent()).toMatch(renamed);
    await setOptions(page, { stripPrefix: 'wrong.' });
    await expect.poll(() => page.locator('.output .notice.problem').textContent()).toContain('starts with wrong.');
    await expect(pressStart(page, false)).rejects.toThrow('These options cannot be carried out.');
  });

  it('leave out the checks, which are made otherwise', async () => {
    const passed = (ids: Awaited<ReturnType<typeof convert>>) =>
      ids.report.checks.filter(({ status }) => status === 'passed').map(({ id }) => id);
    const checked = passed(await convert({}));
    const unchecked = passed(await convert({ verify: false }));
    expect(checked).toEqual(expect.arrayContaining(unchecked));
    expect(checked.length).toBeGreaterThan(unchecked.length);
  });

  it('take the SHA-256 of every file, and show it', async () => {
    const { output, report } = await convert({ sha256: true });
    expect(report.files.length).toBeGreaterThan(1);
    const digests = report.files.map(({ path }) => [path, sha256(readFileSync(join(output, path)))]);
    expect(report.files.map((file) => [file.path, file.sha256])).toEqual(digests);
    const shown = await session.page.getByTestId('sha256').locator('li').allTextContents();
    expect(shown).toEqual(digests.map(([path, digest]) => `${path} ${digest}`));
  });

  it('trim an embedding that is larger than the vocabulary, where one is', async () => {
    const checkpoint = loraRun();
    const { page, url } = session;
    await openPage(page, url);
    await openCheckpoint(page, checkpoint);
    await page.getByTestId('planned-files').waitFor();
    expect(await page.locator('input[name="trim-vocab"]').count()).toBe(0);
    const config = JSON.parse(readFileSync(join(checkpoint, 'config.json'), 'utf8')) as { vocab_size: number };
    const rows = config.vocab_size - 1;
    writeFileSync(join(checkpoint, 'config.json'), JSON.stringify({ ...config, vocab_size: rows }));
    const output = emptyFolder();
    await convertInPage(page, { checkpoint, output, trimVocab: true });
    const { tensors } = readSafetensors(readFileSync(join(output, 'model.safetensors')));
    expect(tensors.get('base_model.model.model.embed_tokens.weight')?.shape[0]).toBe(rows);
  });
});
