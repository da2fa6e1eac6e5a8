import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { temporaryFolder, unshard } from '../helpers/cli.js';
import { checkpointPath, expectedOf, PRECISIONS } from '../helpers/fixtures.js';
import { readSafetensors, sha256 } from '../helpers/safetensors.js';

const WHOLE = ['lora-zero1-bf16-w2', 'lora-zero2-bf16-w2', 'lora-zero3-bf16-w2'];
const NO_FROZEN = 'lora-nofrozen-zero3-bf16-w2';

/** The runs have adapters of this rank; the value of alpha is ours. */
const [RANK, ALPHA] = [3, 16];

/** A copy of a checkpoint with the adapter_config.json that the run would have left beside it. */
async function loraRun(name: string, more: object = {}): Promise<string> {
  const folder = join(await temporaryFolder(), 'checkpoint');
  await cp(checkpointPath(name), folder, { recursive: true });
  const config = { peft_type: 'LORA', r: RANK, lora_alpha: ALPHA, bias: 'none', ...more };
  await writeFile(join(folder, 'adapter_config.json'), JSON.stringify(config));
  return folder;
}

/** Name, shape and hash of every tensor of a file. */
async function tensorsIn(file: string): Promise<Record<string, { shape: number[]; sha256: string }>> {
  const { tensors } = readSafetensors(await readFile(file));
  return Object.fromEntries([...tensors].map(([name, { shape, sha256: hash }]) => [name, { shape, sha256: hash }]));
}

/** The values of every fp32 tensor of a file. */
async function floatsIn(file: string): Promise<Map<string, Float32Array>> {
  const bytes = await readFile(file);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString('utf8')) as Record<
    string,
    { data_offsets: [number, number] }
  >;
  return new Map(
    Object.entries(header).flatMap(([name, { data_offsets: range }]) =>
      range === undefined
        ? []
        : [
            [
              name,
              new Float32Array(new Uint8Array(bytes.subarray(8 + length + range[0], 8 + length + range[1])).buffer),
            ],
          ],
    ),
  );
}

/** `W + scale * (B x A)`, every operation rounded to fp32. */
function merge(w: Float32Array, a: Float32Array, b: Float32Array): Float32Array<ArrayBuffer> {
  const [columns, scale] = [a.length / RANK, Math.fround(ALPHA / RANK)];
  return Float32Array.from(w, (value, at) => {
    const [i, j] = [Math.floor(at / columns), at % columns];
    let sum = 0;
    for (let k = 0; k < RANK; k++) {
      sum = Math.fround(sum + Math.fround((b[i * RANK + k] ?? 0) * (a[k * columns + j] ?? 0)));
    }
    return Math.fround(value + Math.fround(sum * scale));
  });
}

describe.each([...WHOLE, NO_FROZEN])('%s', (name) => {
  test.each(PRECISIONS)('--adapter-only writes the adapter in %s under the keys of PEFT', async (dtype) => {
    const [folder, out] = [await loraRun(name), await temporaryFolder()];
    const { code, stdout } = await unshard(folder, out, '--adapter-only', '--dtype', dtype);
    expect(code).toBe(0);
    expect((await readdir(out)).toSorted()).toEqual(['adapter_config.json', 'adapter_model.safetensors']);
    const adapter = Object.entries(expectedOf(name).tensors).filter(([tensor]) => tensor.includes('.lora_'));
    const keys = adapter.map(([tensor, { shape, sha256: hashes }]) => [
      tensor.replace('.default.', '.'),
      { shape, sha256: hashes[dtype] },
    ]);
    expect(adapter).toHaveLength(12);
    expect(await tensorsIn(join(out, 'adapter_model.safetensors'))).toEqual(Object.fromEntries(keys));
    expect(await readFile(join(out, 'adapter_config.json'))).toEqual(
      await readFile(join(folder, 'adapter_config.json')),
    );
    if (name !== NO_FROZEN) expect(stdout).toContain('Not written: 21 tensors (not part of the adapter)');
  });
});

describe.each(WHOLE)('%s', (name) => {
  test('--merge-adapter writes the base model with the adapter in it', async () => {
    const [folder, plain, out] = [await loraRun(name), await temporaryFolder(), await temporaryFolder()];
    expect((await unshard(folder, plain)).code).toBe(0);
    const { code, stdout } = await unshard(folder, out, '--merge-adapter');
    expect(code).toBe(0);
    expect(stdout).toContain('Merged the adapter into 6 tensors');
    expect(stdout).toContain('Not written: 12 tensors (merged into its layer)');
    expect((await readdir(out)).toSorted()).toEqual(['config.json', 'model.safetensors']);

    const stored = await floatsIn(join(plain, 'model.safetensors'));
    const layers = [...stored.keys()].filter((tensor) => tensor.endsWith('.base_layer.weight'));
    expect(layers).toHaveLength(6);
    const { tensors } = expectedOf(name);
    const expected = Object.entries(tensors).flatMap(([tensor, { shape, sha256: hashes }]) => {
      if (tensor.includes('.lora_')) return [];
      const key = tensor.replace('base_model.model.', '').replace('.base_layer', '');
      if (!layers.includes(tensor)) return [[key, { shape, sha256: hashes.fp32 }]];
      const layer = tensor.replace('.base_layer.weight', '');
      const of = (part: string) => stored.get(`${layer}.${part}`) ?? new Float32Array();
      const merged = merge(of('base_layer.weight'), of('lora_A.default.weight'), of('lora_B.default.weight'));
      expect(sha256(new Uint8Array(merged.buffer))).not.toBe(hashes.fp32);
      return [[key, { shape, sha256: sha256(new Uint8Array(merged.buffer)) }]];
    });
    expect(await tensorsIn(join(out, 'model.safetensors'))).toEqual(Object.fromEntries(expected));
  });
});

test('--lora-alpha merges as adapter_config.json would, where there is none', async () => {
  const [name] = WHOLE;
  const [out, expected] = [await temporaryFolder(), await temporaryFolder()];
  await unshard(await loraRun(name ?? ''), expected, '--merge-adapter');
  const { code, stdout } = await unshard(
    checkpointPath(name ?? ''),
    out,
    ...['--merge-adapter', '--lora-alpha', String(ALPHA), '--lora-r', String(RANK)],
  );
  expect(code).toBe(0);
  expect(stdout).toContain(`each layer was merged with the scale ${ALPHA} / the rank, as asked`);
  const [ours, theirs] = [out, expected].map((folder) => readFile(join(folder, 'model.safetensors')));
  expect(sha256((await ours) ?? Buffer.alloc(0))).toBe(sha256((await theirs) ?? Buffer.alloc(1)));
});

test('inspecting a LoRA run tells its adapters', async () => {
  const { stdout } = await unshard(checkpointPath(NO_FROZEN));
  expect(stdout).toContain('LoRA adapters   default');
});

describe('errors of LoRA runs', () => {
  test('merging without the frozen weights names what is missing, and leaves nothing', async () => {
    const [folder, out] = [await loraRun(NO_FROZEN), await temporaryFolder()];
    const { code, stderr } = await unshard(folder, out, '--merge-adapter');
    expect(code).toBe(4);
    expect(stderr).toContain('merge-base-missing');
    expect(stderr).toContain('6 of 6 are missing');
    expect(await readdir(out)).toEqual([]);
  });

  test('merging without adapter_config.json names the file', async () => {
    const { code, stderr } = await unshard(
      checkpointPath('lora-zero2-bf16-w2'),
      await temporaryFolder(),
      '--merge-adapter',
    );
    expect(code).toBe(4);
    expect(stderr).toContain('adapter_config.json is not beside the checkpoint');
  });

  test('writing the adapter without it works, and says what is missing', async () => {
    const out = await temporaryFolder();
    const { code, stdout } = await unshard(checkpointPath('lora-zero2-bf16-w2'), out, '--adapter-only');
    expect(code).toBe(0);
    expect(stdout).toContain('Note: There is no adapter_config.json of default beside the checkpoint');
    expect(await readdir(out)).toEqual(['adapter_model.safetensors']);
  });

  test('merging DoRA is refused with the reason', async () => {
    const folder = await loraRun('lora-zero2-bf16-w2', { use_dora: true });
    const { code, stderr } = await unshard(folder, await temporaryFolder(), '--merge-adapter');
    expect(code).toBe(7);
    expect(stderr).toContain('DoRA (use_dora)');
  });

  test('a run without LoRA has no adapter to write', async () => {
    const { code, stderr } = await unshard(
      checkpointPath('llama-zero2-bf16-w1'),
      await temporaryFolder(),
      '--adapter-only',
    );
    expect(code).toBe(2);
    expect(stderr).toContain('adapter-absent');
  });
});

describe('choosing tensors', () => {
  test('--trainable-only writes the adapter of a LoRA run under its own names', async () => {
    const out = await temporaryFolder();
    expect((await unshard(checkpointPath('lora-zero2-bf16-w2'), out, '--trainable-only')).code).toBe(0);
    const names = Object.keys(await tensorsIn(join(out, 'model.safetensors')));
    expect(names).toHaveLength(12);
    expect(names.every((name) => name.includes('.lora_'))).toBe(true);
  });

  test('--include, --exclude and --strip-prefix together', async () => {
    const out = await temporaryFolder();
    const options = [
      '--strip-prefix',
      'model.',
      '--include',
      'layers.0.*',
      '--include',
      'lm_head.*',
      '--exclude',
      '*.mlp.*',
    ];
    expect((await unshard(checkpointPath('llama-zero2-bf16-w1'), out, ...options)).code).toBe(0);
    const expected = Object.entries(expectedOf('llama-zero2-bf16-w1').tensors).flatMap(
      ([name, { shape, sha256: hashes }]) =>
        /^(?:model\.layers\.0\.(?!mlp)|lm_head)/.test(name)
          ? [[name.replace(/^model\./, ''), { shape, sha256: hashes.fp32 }]]
          : [],
    );
    expect(expected.length).toBeGreaterThan(3);
    expect(await tensorsIn(join(out, 'model.safetensors'))).toEqual(Object.fromEntries(expected));
  });

  test('--trim-vocab leaves out the rows beyond vocab_size', async () => {
    const name = 'llama-zero2-bf16-w1';
    const folder = await loraRun(name);
    const config = JSON.parse(await readFile(join(folder, 'config.json'), 'utf8')) as { vocab_size: number };
    const rows = config.vocab_size - 7;
    await writeFile(join(folder, 'config.json'), JSON.stringify({ ...config, vocab_size: rows }));
    const [plain, out] = [await temporaryFolder(), await temporaryFolder()];
    const warned = await unshard(folder, plain);
    expect(warned.stdout).toContain(`vocab_size in config.json is ${rows}`);
    const { code, stdout } = await unshard(folder, out, '--trim-vocab');
    expect(code).toBe(0);
    expect(stdout).toContain(`model.embed_tokens.weight was trimmed from ${config.vocab_size} rows to the ${rows}`);
    const [whole, trimmed] = [join(plain, 'model.safetensors'), join(out, 'model.safetensors')];
    const [all, found] = [await floatsIn(whole), await floatsIn(trimmed)];
    for (const [tensor, values] of all) {
      const isTable = /embed_tokens|lm_head/.test(tensor);
      const kept = isTable ? values.subarray(0, (values.length / config.vocab_size) * rows) : values;
      expect(found.get(tensor)).toEqual(kept);
    }
    expect((await tensorsIn(trimmed))['lm_head.weight']?.shape[0]).toBe(rows);
  });
});
