import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import { run } from '../../../src/engine/run.js';
import { type VerifiedTensor, type VerifyOptions, verify } from '../../../src/engine/verify.js';
import { memoryOutput, memoryTree } from '../../../src/io/memory.js';
import { plan } from '../../../src/plan/make.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { tensorOf } from '../../helpers/deepspeed/python.js';
import { bufferOf, randomSpec } from '../../helpers/deepspeed/random-spec.js';
import { optimOf, small } from '../../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../../helpers/deepspeed/spec.js';
import { saveZip } from '../../helpers/deepspeed/torch-save.js';
import { writeCheckpoint } from '../../helpers/deepspeed/write.js';
import { rejectionOf } from '../../helpers/errors.js';
import { checkpointFiles } from '../../helpers/fixtures.js';
import { decodeFloats, encodeFloats, type NaiveFloat } from '../../helpers/naive-floats.js';
import { recordingTree } from '../../helpers/recording-tree.js';
import { readTensors, type WrittenTensor, writeSafetensors } from '../../helpers/safetensors.js';

type Files = Readonly<Record<string, Uint8Array>>;

/** What Unshard itself writes of a checkpoint. */
async function convert(files: Files, options: PlanOptions): Promise<Record<string, Uint8Array>> {
  const input = memoryTree(files);
  const output = memoryOutput();
  await run(plan(await inspect(input), { overflow: 'inf', ...options }), { input, output });
  return Object.fromEntries(output.files);
}

const SPEC: CheckpointSpec = small(2, {
  frozen: [{ name: 'base.weight', shape: [4, 2] }],
  tied: [['tied.weight', 'embed.weight']],
  buffers: [bufferOf('ids', 'I64', [3], 5), bufferOf('empty', 'F32', [0, 2], 0), bufferOf('scalar', 'F16', [], 9)],
});
const WRITTEN = writeCheckpoint(SPEC);

/** The weights of `SPEC` in a dtype, made by arithmetic on doubles. */
function weights(dtype: NaiveFloat): Record<string, WrittenTensor> {
  const entries = [...WRITTEN.expected].map(([name, { dtype: stored, shape, bytes }]): [string, WrittenTensor] => {
    const isFloat = stored === 'F32' || stored === 'F16' || stored === 'BF16';
    if (!isFloat) return [name, { dtype: stored, shape, bytes }];
    return [name, { dtype, shape, bytes: encodeFloats(dtype, decodeFloats(stored, bytes)) }];
  });
  return Object.fromEntries(entries);
}

const check = (files: Files, options = {}) => verify(memoryTree(WRITTEN.files), memoryTree(files), options);

/** What is not as it should be. */
function faults(tensors: readonly VerifiedTensor[]): VerifiedTensor[] {
  return tensors.filter(({ status }) => status !== 'match' && status !== 'tied');
}

describe('what Unshard wrote', () => {
  test.each([1, 2, 3] as const)('matches any checkpoint of stage %i', async (stage) => {
    const options = fc.record({
      dtype: fc.constantFrom('fp32', 'fp16', 'bf16', 'keep'),
      format: fc.constantFrom('safetensors', 'bin'),
      duplicateTied: fc.boolean(),
      maxShardSize: fc.constantFrom(1000, 1e9),
    });
    await fc.assert(
      fc.asyncProperty(randomSpec(stage), options, async (spec, chosen) => {
        const { files } = writeCheckpoint(spec);
        const report = await verify(memoryTree(files), memoryTree(await convert(files, chosen)));
        expect(faults(report.tensors)).toEqual([]);
        expect(report.matches).toBe(true);
      }),
      { numRuns: 40 },
    );
  });
});

describe('what others wrote', () => {
  test.each(['F32', 'F16', 'BF16'] as const)('matches in %s, in any order of tensors', async (dtype) => {
    const entries = Object.entries(weights(dtype)).reverse();
    const { matches, tensors } = await check({ 'weights.safetensors': writeSafetensors(Object.fromEntries(entries)) });
    expect(faults(tensors)).toEqual([]);
    expect(matches).toBe(true);
    expect(tensors.map(({ name, status }) => [name, status])).toContainEqual(['tied.weight', 'tied']);
  });

  test('matches with a dtype for each tensor', async () => {
    const [half, full] = [weights('BF16'), weights('F32')];
    const mixed = Object.fromEntries(
      Object.entries(half).map(([name, tensor], i) => [name, i % 2 === 0 ? tensor : (full[name] ?? tensor)]),
    );
    expect((await check({ 'model.safetensors': writeSafetensors(mixed) })).matches).toBe(true);
  });

  test('matches as a torch file, beside files that are none of weights', async () => {
    const dict = new Map(
      Object.entries(weights('F32')).map(([name, { dtype, shape, bytes }]) => [
        name,
        tensorOf(dtype as 'F32', shape, bytes, 'other'),
      ]),
    );
    const files = { 'pytorch_model.bin': saveZip(dict).bytes, 'training_args.bin': new Uint8Array(9) };
    expect((await check(files)).matches).toBe(true);
  });

  test('matches where the other one of two tied names is kept, or both', async () => {
    const { 'embed.weight': embed, ...others } = weights('F32');
    if (!embed) throw new Error('no embedding');
    const alone = await check({ 'a.safetensors': writeSafetensors({ ...others, 'tied.weight': embed }) });
    expect(alone.matches).toBe(true);
    expect(alone.tensors).toContainEqual(
      expect.objectContaining({ name: 'embed.weight', status: 'tied', expected: 'tied.weight' }),
    );
    const both = { ...others, 'embed.weight': embed, 'tied.weight': embed };
    expect((await check({ 'a.safetensors': writeSafetensors(both) })).matches).toBe(true);
    const odd = { ...both, 'tied.weight': { ...embed, bytes: embed.bytes.map((byte) => byte ^ 1) } };
    expect(faults((await check({ 'a.safetensors': writeSafetensors(odd) })).tensors)).toMatchObject([
      { name: 'tied.weight', status: 'differs', index: 0 },
    ]);
  });
});

describe('weights that are not those of the checkpoint', () => {
  const faultsOf = async (tensors: Record<string, WrittenTensor>) => {
    const report = await check({ 'model.safetensors': writeSafetensors(tensors) });
    expect(report.matches).toBe(false);
    expect(report.tensors.length).toBeGreaterThan(faults(report.tensors).length);
    return faults(report.tensors);
  };

  test.each(['F32', 'BF16'] as const)('differ in elements: the first is told in %s, and how many', async (dtype) => {
    const all = weights(dtype);
    const head = all['head.weight'];
    if (!head) throw new Error('no head');
    const values = decodeFloats(dtype, head.bytes);
    const odd = values.map((value, i) => (i === 4 || i === 11 ? 123 : value));
    const found = await faultsOf({ ...all, 'head.weight': { ...head, bytes: encodeFloats(dtype, odd) } });
    expect(found).toMatchObject([
      { name: 'head.weight', status: 'differs', dtype, shape: [3, 5], index: 4, count: 2, found: '123' },
    ]);
    expect(Number(found[0]?.expected)).toBeCloseTo(values[4] ?? 0, 2);
  });

  test('lack a tensor, or have one too many', async () => {
    const { 'norm.weight': norm, ...others } = weights('F32');
    if (!norm) throw new Error('no norm');
    expect(await faultsOf({ ...others, 'model.norm.weight': norm })).toEqual([
      { name: 'norm.weight', status: 'missing', dtype: 'F32', shape: [4] },
      { name: 'model.norm.weight', status: 'extra', dtype: 'F32', shape: [4] },
    ]);
  });

  test('have another shape', async () => {
    const all = weights('F32');
    const embed = all['embed.weight'];
    if (!embed) throw new Error('no embedding');
    expect(await faultsOf({ ...all, 'embed.weight': { ...embed, shape: [3, 5] } })).toEqual([
      { name: 'embed.weight', status: 'other-shape', dtype: 'F32', shape: [3, 5], expected: '[5, 3]', found: '[3, 5]' },
    ]);
  });

  test.each([
    ['F64', 8],
    ['I32', 4],
    ['F8_E4M3', 1],
  ] as const)('have a dtype that nothing rounds to: %s', async (dtype, size) => {
    const all = { ...weights('F32'), 'norm.weight': { dtype, shape: [4], bytes: new Uint8Array(4 * size) } };
    expect(await faultsOf(all)).toEqual([
      { name: 'norm.weight', status: 'other-dtype', dtype, shape: [4], expected: 'F32', found: dtype },
    ]);
  });

  test('have integers as floats', async () => {
    const all = { ...weights('F32'), ids: { dtype: 'F32', shape: [3], bytes: new Uint8Array(12) } };
    expect(await faultsOf(all)).toMatchObject([{ name: 'ids', status: 'other-dtype', expected: 'I64', found: 'F32' }]);
  });

  test('are of another checkpoint', async () => {
    const other = writeCheckpoint(small(2, { groups: [[{ name: 'elsewhere', shape: [3] }]] }));
    const report = await verify(memoryTree(WRITTEN.files), memoryTree(await convert(other.files, {})));
    expect(new Set(report.tensors.map(({ status }) => status))).toEqual(new Set(['missing', 'extra']));
  });

  test('were damaged in a torch file, which records a CRC-32', async () => {
    const files = await convert(WRITTEN.files, { format: 'bin' });
    const bytes = files['pytorch_model.bin']?.slice() ?? new Uint8Array();
    const at = Buffer.from(bytes).indexOf(WRITTEN.expected.get('head.weight')?.bytes ?? 'nothing');
    bytes[at + 5] = (bytes[at + 5] ?? 0) ^ 1;
    const detail = await rejectionOf(check({ 'pytorch_model.bin': bytes }));
    expect(detail).toMatchObject({ kind: 'bad-file', code: 'crc-mismatch', facts: { file: 'pytorch_model.bin' } });
  });
});

describe('weights that a conversion changed', () => {
  const LORA = 'lora-zero2-bf16-w2';
  const config = { peft_type: 'LORA', r: 3, lora_alpha: 16, bias: 'none' };
  const lora = {
    ...checkpointFiles(LORA),
    'adapter_config.json': new TextEncoder().encode(JSON.stringify(config)),
  };

  /** Compares a file of weights with the LoRA run. */
  async function compared(bytes: Uint8Array, options: VerifyOptions = {}) {
    const report = await verify(memoryTree(lora), memoryTree({ 'x.safetensors': bytes }), options);
    expect(report.matches).toBe(faults(report.tensors).length === 0);
    return report.tensors.map(({ name, status }) => `${status} ${name}`);
  }

  /** The adapter as the expected results of the run have it, under the keys of PEFT. */
  async function adapterFile(): Promise<Record<string, WrittenTensor>> {
    const whole = await convert(lora, {});
    const all = readTensors(whole['model.safetensors'] ?? new Uint8Array());
    const trained = Object.entries(all).filter(([name]) => name.includes('.lora_'));
    return Object.fromEntries(trained.map(([name, tensor]) => [name.replace('.default.', '.'), tensor]));
  }

  test('an adapter as PEFT saves it is known by its keys', async () => {
    const adapter = await adapterFile();
    const found = await compared(writeSafetensors(adapter));
    expect(found.toSorted()).toEqual(
      Object.keys(adapter)
        .map((name) => `match ${name}`)
        .toSorted(),
    );
    expect(found).toHaveLength(12);
    const [first = '', ...others] = Object.keys(adapter);
    const odd = { ...adapter, [first]: { ...adapter[first], bytes: adapter[first]?.bytes.map((byte) => byte ^ 1) } };
    const changed = await compared(writeSafetensors(odd as typeof adapter));
    expect(changed.toSorted()).toEqual([`differs ${first}`, ...others.map((name) => `match ${name}`)].toSorted());
  });

  test.each([
    ['the adapter', { output: 'adapter' }],
    ['the merged model', { output: 'merged' }],
    ['the adapter by its name', { output: 'adapter', adapterName: 'default' }],
    ['what was trained', { trainableOnly: true }],
    ['what was not frozen', { excludeFrozen: true }],
    ['some names', { include: ['*.layers.0.*'], exclude: ['*.lora_A.*'] }],
    ['names without a prefix', { stripPrefix: 'base_model.model.' }],
  ] as const)('are compared as %s, in every dtype', async (_, options) => {
    for (const dtype of ['fp32', 'bf16', 'fp16'] as const) {
      const files = await convert(lora, { ...options, dtype });
      const bytes = Object.entries(files).find(([path]) => path.endsWith('.safetensors'))?.[1] ?? new Uint8Array();
      expect((await compared(bytes, options)).filter((line) => !/^(match|tied) /.test(line))).toEqual([]);
      const [name = '', tensor] = Object.entries(readTensors(bytes))[0] ?? [];
      if (!tensor) throw new Error('nothing was written');
      const odd = { ...readTensors(bytes), [name]: { ...tensor, bytes: tensor.bytes.map((byte) => byte ^ 0x40) } };
      expect((await compared(writeSafetensors(odd), options)).filter((line) => !/^(match|tied) /.test(line))).toEqual([
        `differs ${name}`,
      ]);
    }
  });

  test('are not those of the checkpoint where that is not said', async () => {
    const { 'model.safetensors': merged = new Uint8Array() } = await convert(lora, { output: 'merged' });
    const statuses = new Set((await compared(merged)).map((line) => line.slice(0, line.indexOf(' '))));
    expect(statuses).toEqual(new Set(['missing', 'extra']));
  });

  test('lack the rows beyond the vocabulary, where that is said', async () => {
    const spec = small(2, { groups: [[{ name: 'model.embed_tokens.weight', shape: [5, 3] }]] });
    const config = new TextEncoder().encode('{"vocab_size": 3}');
    const input = { ...writeCheckpoint(spec).files, 'config.json': config };
    const output = memoryTree(await convert(input, { trimVocab: true }));
    expect((await verify(memoryTree(input), output, { trimVocab: true })).matches).toBe(true);
    expect((await verify(memoryTree(input), output)).tensors).toMatchObject([
      { status: 'other-shape', expected: '[5, 3]', found: '[3, 3]' },
    ]);
  });

  test('are refused with options that do not belong together', async () => {
    const detail = await rejectionOf(compared(writeSafetensors({}), { output: 'adapter', trimVocab: true }));
    expect(detail).toMatchObject({ kind: 'usage', code: 'option-bad' });
  });
});

test('a checkpoint that contradicts itself is no measure', async () => {
  const files = { ...WRITTEN.files };
  delete files[optimOf(1)];
  const weightsFile = { 'model.safetensors': writeSafetensors(weights('F32')) };
  const detail = await rejectionOf(verify(memoryTree(files), memoryTree(weightsFile)));
  expect(detail.code).toBe('missing-optim-rank');
});

test('every file is closed, also when it fails, and progress ends at the total', async () => {
  const input = recordingTree(memoryTree(WRITTEN.files));
  const output = recordingTree(memoryTree({ 'model.safetensors': writeSafetensors(weights('F32')) }));
  const steps: [number, number][] = [];
  const onProgress = ({ compared, total }: { compared: number; total: number }) => void steps.push([compared, total]);
  await verify(input, output, { onProgress });
  expect(input.unclosed.size + output.unclosed.size).toBe(0);
  const [compared, total] = steps.at(-1) ?? [];
  expect(compared).toBe(total);
  const cancelled = verify(input, output, { signal: AbortSignal.abort() });
  await expect(cancelled).rejects.toMatchObject({ name: 'AbortError' });
  expect(input.unclosed.size + output.unclosed.size).toBe(0);
});

test('the report has the checks of the checkpoint and of what was read', async () => {
  const { checks, files } = await check({ 'model.safetensors': writeSafetensors(weights('F32')) });
  expect(checks.map(({ id }) => id)).toEqual(expect.arrayContaining(['ranks-agree', 'names-once', 'input-crc32']));
  expect(checks.filter(({ status }) => status === 'failed')).toEqual([]);
  expect(files.map(({ path }) => path)).toEqual(['model.safetensors']);
});
