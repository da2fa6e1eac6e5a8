import { describe, expect, test } from 'vitest';
import { bytesOf } from '../../../src/base/dtype.js';
import { numelOf } from '../../../src/base/shape.js';
import { consolidateWeights, type NamedWeight } from '../../../src/engine/consolidate.js';
import { memoryTree } from '../../../src/io/memory.js';
import { openFolder } from '../../../src/io/node.js';
import { writeGrid } from '../../helpers/deepspeed/grid.js';
import type { TensorView } from '../../helpers/deepspeed/python.js';
import { small } from '../../helpers/deepspeed/small.js';
import { valuesOf } from '../../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../../helpers/deepspeed/write.js';
import { rejectionOf } from '../../helpers/errors.js';
import { checkpointPath, expectedOf, PRECISIONS } from '../../helpers/fixtures.js';
import { sha256 } from '../../helpers/safetensors.js';

const TIED = 'hf-trainer-t5-zero3-bf16-w2';
const BUFFERS = 'conv-buffers-zero2-fp16-w2';
const LORA = 'lora-zero3-bf16-w2';

async function weightsOf(name: string, options: Parameters<typeof consolidateWeights>[1] = {}) {
  return consolidateWeights(await openFolder(checkpointPath(name)), options);
}

describe.each([TIED, BUFFERS])('%s', (name) => {
  test.each(PRECISIONS)('gives the full weights in %s, one tensor at a time', async (dtype) => {
    const { tensors, aliases } = expectedOf(name);
    const seen: NamedWeight[] = [];
    for await (const weight of await weightsOf(name, { dtype, overflow: 'inf' })) seen.push(weight);
    const found = Object.fromEntries(
      seen.map((weight) => [weight.name, { shape: weight.shape, sha256: sha256(weight.data) }]),
    );
    expect(found).toEqual(
      Object.fromEntries(
        Object.entries(tensors).map(([key, entry]) => [key, { shape: entry.shape, sha256: entry.sha256[dtype] }]),
      ),
    );
    const names = seen.flatMap((weight) => weight.names);
    expect(names.toSorted()).toEqual([...Object.keys(tensors), ...Object.keys(aliases)].toSorted());
    for (const { data, shape, dtype: stored } of seen) expect(data.length).toBe(numelOf(shape) * bytesOf(stored));
  });
});

test('collect gives a map in which tied names hold the same object', async () => {
  const weights = await (await weightsOf(TIED)).collect();
  const shared = weights.get('shared.weight');
  expect(shared).toBeDefined();
  for (const alias of Object.keys(expectedOf(TIED).aliases)) expect(weights.get(alias)).toBe(shared);
  expect(weights.get('decoder.final_layer_norm.weight')).not.toBe(shared);
});

test('persistent buffers are included, and integers keep their dtype', async () => {
  const weights = await (await weightsOf(BUFFERS, { dtype: 'bf16' })).collect();
  expect(weights.get('ids')?.dtype).toBe('I64');
  expect(weights.get('mask')?.dtype).toBe('BOOL');
  expect(weights.get('bn1.running_mean')?.dtype).toBe('BF16');
  expect(weights.get('bn1.num_batches_tracked')).toMatchObject({ dtype: 'I64', shape: [] });
});

test('excluded names are left out, by pattern; a tied name stays where its owner is excluded', async () => {
  const weights = await (await weightsOf(TIED, { exclude: ['decoder.*', 'shared.weight'] })).collect();
  expect(weights.has('decoder.final_layer_norm.weight')).toBe(false);
  expect(weights.has('shared.weight')).toBe(false);
  expect(weights.get('lm_head.weight')).toBe(weights.get('encoder.embed_tokens.weight'));
  expect(weights.get('lm_head.weight')?.shape).toEqual(expectedOf(TIED).tensors['shared.weight']?.shape);
});

test('included names are given alone, frozen parameters are left out where asked, and nothing at all is an error', async () => {
  const weights = await (await weightsOf(BUFFERS, { include: ['bn1.*'] })).collect();
  expect([...weights.keys()].every((name) => name.startsWith('bn1.'))).toBe(true);
  expect(weights.has('bn1.running_mean')).toBe(true);
  const lora = await (await weightsOf(LORA, { excludeFrozen: true })).collect();
  expect(lora.size).toBe(12);
  const detail = await rejectionOf((await weightsOf(BUFFERS, { include: ['nothing'] })).collect());
  expect(detail).toMatchObject({ kind: 'usage', code: 'nothing-to-write' });
});

test('the adapter of a LoRA run comes under the names of PEFT', async () => {
  const weights = await (await weightsOf(LORA, { output: 'adapter', dtype: 'bf16' })).collect();
  const expected = Object.entries(expectedOf(LORA).tensors).filter(([name]) => name.includes('.lora_'));
  expect(weights.size).toBe(expected.length);
  for (const [name, { sha256: hashes }] of expected) {
    expect(sha256(weights.get(name.replace('.default.', '.'))?.data ?? new Uint8Array())).toBe(hashes.bf16);
  }
});

test('tensor-parallel shards are joined by rules, or given one rank at a time', async () => {
  const cut = { kind: 'parts', dim: 1, widths: [[2, 1]] } as const;
  const params = [{ name: 'w', shape: [2, 3], cut }];
  const { files } = writeGrid({ version: '0.16.3', stage: 1, modelDtype: 'BF16', ranks: 1, tp: 2, params });
  const tree = memoryTree(files);
  const options = { overflow: 'inf' } as const;
  const joined = await consolidateWeights(tree, { ...options, tpRules: [{ pattern: 'w', merge: 1 }] }).collect();
  expect(joined.get('w')).toEqual({ dtype: 'F32', shape: [2, 3], data: valuesOf({ name: 'w', shape: [2, 3] }, 'F32') });
  const alone = await consolidateWeights(tree, { ...options, tpRank: 1 }).collect();
  expect(alone.get('w')?.shape).toEqual([2, 1]);
  expect(await rejectionOf(consolidateWeights(tree, options).collect())).toMatchObject({ code: 'tp-rules-missing' });
});

test('a tag can be named, and one that is not there is an error', async () => {
  const weights = await (await weightsOf(BUFFERS, { tag: 'global_step3' })).collect();
  expect(weights.size).toBe(Object.keys(expectedOf(BUFFERS).tensors).length);
  const detail = await rejectionOf((await weightsOf(BUFFERS, { tag: 'global_step4' })).collect());
  expect(detail).toMatchObject({
    kind: 'usage',
    code: 'tag-not-found',
    facts: { expected: 'global_step4', found: 'global_step3' },
  });
});

test('progress counts tensors, and cancelling stops between them', async () => {
  const cancel = new AbortController();
  const steps: number[] = [];
  const options = {
    signal: cancel.signal,
    onProgress: ({ done, total }: { done: number; total: number }) => {
      expect(total).toBe(Object.keys(expectedOf(BUFFERS).tensors).length);
      steps.push(done);
      if (done === 3) cancel.abort();
    },
  };
  await expect((await weightsOf(BUFFERS, options)).collect()).rejects.toMatchObject({ name: 'AbortError' });
  expect(steps).toEqual([1, 2, 3]);
});

describe('a master that is not its copy', () => {
  const spec = small(2, {
    editOptim(_, state, rank) {
      const [view] = state.get('single_partition_of_fp32_groups') as TensorView[];
      if (rank === 0 && view) view.storage.bytes[2] = (view.storage.bytes[2] ?? 0) ^ 0x40;
    },
  });
  const tree = memoryTree(writeCheckpoint(spec).files);

  test('ends the iteration', async () => {
    const detail = await rejectionOf(consolidateWeights(tree, { overflow: 'inf' }).collect());
    expect(detail).toMatchObject({ code: 'master-copy-differs', facts: { tensor: 'embed.weight', index: 0 } });
  });

  test('is given where the caller wants no verification', async () => {
    const weights = await consolidateWeights(tree, { overflow: 'inf', verify: false }).collect();
    expect(weights.get('embed.weight')?.shape).toEqual([5, 3]);
  });
});
