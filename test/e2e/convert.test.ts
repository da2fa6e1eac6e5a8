import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkpointPath, expectedOf, FIXTURE_NAMES, PRECISIONS, type Precision } from '../helpers/fixtures.js';
import { type ReadFile, readSafetensors, sha256 } from '../helpers/safetensors.js';
import { convertInPage, type PageOptions } from './drive.js';
import { emptyFolder, useSession } from './session.js';

const session = useSession();

/** Converts a fixture into an empty folder of the disk, which is returned. */
async function convert(name: string, options: PageOptions): Promise<string> {
  const output = emptyFolder();
  await convertInPage(session.page, { checkpoint: checkpointPath(name), output, ...options });
  return output;
}

function readModel(folder: string, file = 'model.safetensors'): ReadFile {
  return readSafetensors(readFileSync(join(folder, file)));
}

function hashesOf(file: ReadFile): Record<string, string> {
  return Object.fromEntries([...file.tensors].map(([name, { sha256 }]) => [name, sha256]));
}

function expectedHashes(name: string, precision: Precision): Record<string, string> {
  const { tensors } = expectedOf(name);
  return Object.fromEntries(Object.entries(tensors).map(([tensor, { sha256 }]) => [tensor, sha256[precision]]));
}

describe.each(FIXTURE_NAMES)('%s, from the disk to the disk', (name) => {
  const cases = PRECISIONS.flatMap((dtype) => (['cpu', 'gpu'] as const).map((backend) => ({ dtype, backend })));

  it.each(cases)('to $dtype on the $backend has every bit of every tensor', async ({ dtype, backend }) => {
    const output = emptyFolder();
    const options = { checkpoint: checkpointPath(name), output, dtype, backend, overflow: 'inf' } as const;
    const report = await convertInPage(session.page, options);
    const expected = expectedOf(name);
    expect(report.backend.name).toBe(backend);
    if (backend === 'cpu') expect(report.backend.description).toBe('WebAssembly SIMD');
    expect(report.backend.jobsOnCpu).toBe(0);
    expect(hashesOf(readModel(output))).toEqual(expectedHashes(name, dtype));
    expect(report.aliases).toEqual(expected.aliases);
    expect(readdirSync(output).sort()).toEqual(report.files.map(({ path }) => path).sort());
    if (Object.keys(expected.aliases).length > 0) return;
    expect(sha256(readFileSync(join(output, 'model.safetensors')))).toBe(expected.safetensors_sha256[dtype]);
  });
});

describe('the controls', () => {
  it('split the model into files of the size that is typed', async () => {
    const name = 'llama-zero3-bf16-w4';
    const output = await convert(name, { maxShardSize: '30 kB' });
    const shards = readdirSync(output).filter((file) => /^model-.*\.safetensors$/.test(file));
    expect(shards.length).toBeGreaterThan(1);
    const merged = Object.assign({}, ...shards.map((file) => hashesOf(readModel(output, file)))) as object;
    expect(merged).toEqual(expectedHashes(name, 'fp32'));
    const index = JSON.parse(readFileSync(join(output, 'model.safetensors.index.json'), 'utf8')) as {
      weight_map: Record<string, string>;
    };
    expect(new Set(Object.values(index.weight_map))).toEqual(new Set(shards));
  });

  it('write a torch file', async () => {
    const output = await convert('llama-zero2-bf16-w1', { format: 'bin' });
    expect(readFileSync(join(output, 'pytorch_model.bin')).subarray(0, 4)).toEqual(Buffer.from('PK\x03\x04'));
  });

  it('leave out frozen parameters', async () => {
    const name = 'lora-zero2-bf16-w2';
    const { tensors } = expectedOf(name);
    const trained = Object.keys(tensors).filter((tensor) => tensors[tensor]?.source !== 'frozen');
    expect(trained.length).toBeLessThan(Object.keys(tensors).length);
    const output = await convert(name, { excludeFrozen: true });
    expect(Object.keys(hashesOf(readModel(output))).sort()).toEqual(trained.sort());
  });

  it('write a copy for each tied name', async () => {
    const name = 'llama-tied-zero2-bf16-w3';
    const { aliases } = expectedOf(name);
    const hashes = hashesOf(readModel(await convert(name, { duplicateTied: true })));
    expect(Object.keys(aliases)).not.toEqual([]);
    for (const [alias, owner] of Object.entries(aliases)) expect(hashes[alias]).toBe(hashes[owner]);
  });

  it('keep the stored precision', async () => {
    const name = 'conv-buffers-zero3-bf16-w2';
    const { tensors } = readModel(await convert(name, { dtype: 'keep' }));
    expect(tensors.get('bn1.num_batches_tracked')?.dtype).toBe('I64');
    expect(new Set([...tensors.values()].map(({ dtype }) => dtype))).toContain('F32');
  });
});
