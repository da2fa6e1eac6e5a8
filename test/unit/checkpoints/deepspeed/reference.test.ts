import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { run } from '../../../../src/engine/run.js';
import { memoryOutput, memoryTree } from '../../../../src/io/memory.js';
import { plan } from '../../../../src/plan/make.js';
import type { Precision } from '../../../../src/plan/plan.js';
import { randomSpec } from '../../../helpers/deepspeed/random-spec.js';
import { type CheckpointSpec, sizeOf } from '../../../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';
import { checkpointFiles, expectedOf } from '../../../helpers/fixtures.js';
import { naiveSafetensors } from '../../../helpers/naive-converter.js';
import { readSafetensors } from '../../../helpers/safetensors.js';

const DTYPES = { fp32: 'F32', fp16: 'F16', bf16: 'BF16' } as const;

async function converted(files: Readonly<Record<string, Uint8Array>>, dtype: Precision): Promise<Uint8Array> {
  const input = memoryTree(files);
  const output = memoryOutput();
  await run(plan(await inspect(input), { dtype, overflow: 'inf' }), { input, output });
  return output.files.get('model.safetensors') ?? new Uint8Array();
}

/** A spec at any version that lists the parameters of each group, and with the state dict in any order. */
function anySpec(stage: CheckpointSpec['stage']): fc.Arbitrary<CheckpointSpec> {
  const older = fc.constantFrom(undefined, undefined, '0.5.4', '0.5.9', '0.5.10');
  return fc.tuple(randomSpec(stage), older, fc.infiniteStream(fc.nat())).map(([spec, version, numbers]) => {
    const names = spec.groups.flat().map(({ name }) => ({ name, at: numbers.next().value ?? 0 }));
    const namedOrder = names.toSorted((a, b) => a.at - b.at).map(({ name }) => name);
    const old = { ...spec, version: version ?? spec.version, bf16Optimizer: false, masterDtype: 'F32' as const };
    // Before the version that has them there were neither bf16 nor a way to leave frozen parameters out.
    const early = { ...old, modelDtype: 'F16' as const, excludeFrozen: false };
    return { ...(version === undefined ? spec : early), ...(stage === 0 ? {} : { namedOrder }) };
  });
}

async function expectSame(spec: CheckpointSpec, dtype: keyof typeof DTYPES): Promise<void> {
  const { files } = writeCheckpoint(spec);
  const reference = await naiveSafetensors(files, DTYPES[dtype]);
  const result = await converted(files, dtype);
  expect(Buffer.from(result).equals(reference)).toBe(true);
}

const ANY_DTYPE = fc.constantFrom('fp32', 'fp16', 'bf16');

describe.each([1, 2, 3] as const)('any layout of stage %i', (stage) => {
  test('gives the file of plain loops, byte for byte', () =>
    fc.assert(fc.asyncProperty(anySpec(stage), ANY_DTYPE, expectSame), { numRuns: 60 }));
});

test('any layout of stage 0 gives the file of plain loops, byte for byte', () => {
  // Masters have no names there. A few elements are needed to tell whose they are.
  const large = (params: CheckpointSpec['groups'][number]) => params.filter((param) => sizeOf(param) > 3);
  const specs = fc
    .tuple(anySpec(0), fc.constantFrom('flat', 'shaped', 'none'))
    .map(([spec, masters]): CheckpointSpec => {
      const groups = spec.groups.map(large);
      return { ...spec, masters, groups, tied: [], frozen: large(spec.frozen ?? []) };
    });
  return fc.assert(fc.asyncProperty(specs, ANY_DTYPE, expectSame), { numRuns: 60 });
});

describe('the plain loops', () => {
  const names = [
    'conv-buffers-zero2-fp16-w2',
    'gpt2-roundrobin-zero2-bf16-w3',
    'gpt2-lowprecision-zero3-bf16-w2',
    'gpt2-bf16optimizer-zero1-w3',
    'gpt2-zero0-fp16-w2',
    'lora-zero1-bf16-w2',
    'lora-zero3-bf16-w2',
    'llama-tied-zero3-bf16-w3',
    'mixtral-zero3-bf16-w3',
  ];
  test.each(names)('give what torch made of %s', async (name) => {
    const { tensors: expected, aliases } = expectedOf(name);
    for (const [precision, dtype] of [
      ['fp32', 'F32'],
      ['bf16', 'BF16'],
    ] as const) {
      const { tensors, metadata } = readSafetensors(Buffer.from(await naiveSafetensors(checkpointFiles(name), dtype)));
      const hashes = [...tensors].map(([key, { sha256, shape }]) => [key, { sha256, shape }]);
      const wanted = Object.entries(expected).map(([key, { sha256, shape }]) => [
        key,
        { sha256: sha256[precision], shape },
      ]);
      expect(Object.fromEntries(hashes)).toEqual(Object.fromEntries(wanted));
      expect(metadata).toEqual({ format: 'pt', ...aliases });
    }
  });
});
