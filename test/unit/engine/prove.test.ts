import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bytesOf } from '../../../src/base/dtype.js';
import type { Inventory, TensorEntry } from '../../../src/checkpoints/inventory.js';
import { cpuBackend } from '../../../src/engine/cpu.js';
import { run } from '../../../src/engine/run.js';
import { memoryOutput, memoryTree } from '../../../src/io/memory.js';
import { plan } from '../../../src/plan/make.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { rejectionOf } from '../../helpers/errors.js';
import { inventoryOf } from '../../helpers/inventory.js';
import { decodeFloats, encodeFloats, type NaiveFloat } from '../../helpers/naive-floats.js';
import { PlacedFile, type Placement } from '../../helpers/placed.js';

/** A master and its copy, and how both lie in their files. */
interface Pair {
  readonly from: NaiveFloat;
  readonly copy: NaiveFloat;
  readonly values: readonly number[];
  readonly stored: Placement;
  readonly proof: Placement;
}

/** Values of every kind: what rounds, what overflows, what is no number. */
const value = fc.oneof(
  fc.double({ min: -1, max: 1, noNaN: true }),
  fc.double({ min: -1e38, max: 1e38, noNaN: true }),
  fc.constantFrom(
    0,
    -0,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    65504,
    65520,
    2 ** -25,
    1 + 2 ** -8,
  ),
);

const placement = fc.constantFrom<Placement>('run', 'runs', 'strided', 'cut');

const pair: fc.Arbitrary<Pair> = fc.record({
  from: fc.constantFrom('F32', 'F16', 'BF16'),
  copy: fc.constantFrom('F32', 'F16', 'BF16'),
  values: fc.array(value, { maxLength: 30 }),
  stored: placement,
  proof: placement,
});

const options: fc.Arbitrary<PlanOptions> = fc.record({
  dtype: fc.constantFrom('fp32', 'fp16', 'bf16', 'keep'),
  overflow: fc.constantFrom('inf', 'clamp'),
  format: fc.constantFrom('safetensors', 'bin'),
});

/** The files of pairs and their inventory. `edit` changes the bytes of one copy before it is put into its file. */
function checkpoint(pairs: readonly Pair[], edit?: (i: number, copy: Uint8Array) => void, check?: string) {
  const [masters, copies] = [new PlacedFile(0), new PlacedFile(1)];
  const made = pairs.map(({ from, copy, values, stored, proof }, i) => {
    const bits = encodeFloats(from, values);
    const rounded = encodeFloats(copy, decodeFloats(from, bits));
    edit?.(i, rounded);
    const name = `t${i}`;
    const entry = { name, shape: [values.length], origin: 'master' as const };
    return { entry, from, copy, pieces: masters.place(from, bits, stored), rounded, proof };
  });
  const tensors = made.map(({ entry, from, copy, pieces, rounded, proof }): TensorEntry => {
    const bits = { dtype: copy, pieces: copies.place(copy, rounded, proof, masters.partitions.length) };
    const other = check === undefined ? { copy: bits } : { proofs: [{ check, ...bits }] };
    return { ...entry, stored: { dtype: from, pieces }, ...other };
  });
  const files = { 'optim.pt': masters.bytes, 'model.pt': copies.bytes };
  const sources = Object.entries(files).map(([path, { length }]) => ({ path, size: length, modified: 0 }));
  const partitions = [...masters.partitions, ...copies.partitions];
  return { files, inventory: inventoryOf(tensors, { sources, partitions }) };
}

async function convert(files: Record<string, Uint8Array>, inventory: Inventory, chosen: PlanOptions, verify = true) {
  const output = memoryOutput();
  const made = plan(inventory, { overflow: 'inf', ...chosen });
  return { output, report: await run(made, { input: memoryTree(files), output, verify }) };
}

test('masters of any dtype and place equal their copies, whatever is written', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(pair, { minLength: 1, maxLength: 6 }), options, async (pairs, chosen) => {
      const { files, inventory } = checkpoint(pairs);
      const { report } = await convert(files, inventory, chosen);
      const compared = report.tensors.filter(({ proven }) => proven.includes('master-copy'));
      const others = report.tensors.filter(({ fromCopy }) => fromCopy);
      expect(compared.length + others.length).toBe(pairs.length);
      const line = report.checks.find(({ id }) => id === 'master-copy');
      expect(line?.status).toBe(compared.length > 0 ? 'passed' : 'not-checkable');
    }),
    { numRuns: 300 },
  );
});

test('one element of a copy that is another stops the run, whatever is written and wherever it lies', async () => {
  const cases = fc
    .array(
      pair.filter(({ values }) => values.length > 0),
      { minLength: 1, maxLength: 5 },
    )
    .chain((pairs) =>
      fc.record({
        pairs: fc.constant(pairs),
        chosen: options,
        tensor: fc.nat(pairs.length - 1),
        at: fc.nat(29),
      }),
    );
  await fc.assert(
    fc.asyncProperty(cases, async ({ pairs, chosen, tensor, at }) => {
      const index = at % (pairs[tensor]?.values.length ?? 1);
      const { files, inventory } = checkpoint(pairs, (i, copy) => {
        if (i !== tensor) return;
        const end = (index + 1) * bytesOf(pairs[i]?.copy ?? 'F32') - 1;
        // The sign and the exponent change, so that a NaN becomes a number.
        copy[end] = (copy[end] ?? 0) ^ 0xc0;
      });
      const written = plan(inventory, { overflow: 'inf', ...chosen }).tensors[tensor];
      fc.pre(written?.fromCopy === false);
      const output = memoryOutput();
      const made = plan(inventory, { overflow: 'inf', ...chosen });
      const detail = await rejectionOf(run(made, { input: memoryTree(files), output }));
      expect(detail).toMatchObject({
        kind: 'inconsistent',
        code: 'master-copy-differs',
        facts: { tensor: `t${tensor}`, file: 'optim.pt', other: 'model.pt', index, count: 1 },
      });
      expect(output.files.size).toBe(0);
    }),
    { numRuns: 300 },
  );
});

describe('a difference', () => {
  const values = Array.from({ length: 9 }, (_, i) => i / 8);
  const one: Pair = { from: 'F32', copy: 'BF16', values, stored: 'runs', proof: 'run' };
  const edit = (_: number, copy: Uint8Array) => copy.set(encodeFloats('BF16', [7, values[6] ?? 0, 8]), 10);

  test('is told with tensor, shape, index, both values, both files and the number of elements', async () => {
    const { files, inventory } = checkpoint([one], edit);
    const detail = await rejectionOf(convert(files, inventory, {}));
    expect(detail.facts).toEqual({
      tensor: 't0',
      file: 'optim.pt',
      other: 'model.pt',
      index: 5,
      expected: '7',
      found: '0.625',
      count: 2,
    });
    expect(detail.message).toBe(
      't0 [9]: element 5 is 0.625 as BF16 in optim.pt, and 7 in the copy in the model file (model.pt). Elements of this part of the tensor that differ: 2.',
    );
  });

  test('is not looked for where the user says so, and the report tells', async () => {
    const { files, inventory } = checkpoint([one], edit);
    const { report } = await convert(files, inventory, {}, false);
    expect(report.checks.map(({ id, status }) => [id, status])).toEqual([
      ['input-crc32', 'not-checkable'],
      ['master-copy', 'not-checkable'],
      ['read-back', 'not-checkable'],
    ]);
    expect(report.tensors[0]?.proven).toEqual([]);
    expect(report.bytesRead).toBe(values.length * 4);
  });

  test('has the code of its check, whichever that is', async () => {
    const { files, inventory } = checkpoint([one], edit, 'replicated');
    expect(await rejectionOf(convert(files, inventory, {}))).toMatchObject({ code: 'replicated-differs' });
    const right = checkpoint([one], undefined, 'replicated');
    const { report } = await convert(right.files, right.inventory, {});
    expect(report.checks.find(({ id }) => id === 'replicated')?.status).toBe('passed');
  });

  test('is found in a tensor of several tiles, at its index in the whole tensor', async () => {
    const count = 6_000_000;
    const masters = new Float32Array(count).map((_, i) => i % 1000);
    const copies = new Uint8Array(encodeFloats('BF16', [...masters.subarray(0, 1000)]));
    const copy = new Uint8Array(count * 2);
    for (let at = 0; at < copy.length; at += copies.length) copy.set(copies.subarray(0, copy.length - at), at);
    const files = { 'optim.pt': new Uint8Array(masters.buffer), 'model.pt': copy };
    const sources = Object.entries(files).map(([path, { length }]) => ({ path, size: length, modified: 0 }));
    const bits = (source: number, length: number) => [{ source, offset: 0, length, at: 0 }];
    const entry: TensorEntry = {
      name: 'w',
      shape: [count],
      origin: 'master',
      stored: { dtype: 'F32', pieces: bits(0, count * 4) },
      copy: { dtype: 'BF16', pieces: bits(1, count * 2) },
    };
    const found = inventoryOf([entry], { sources });
    await convert(files, found, {});
    const index = 5_000_123;
    copy[2 * index] = 0xff;
    for (const dtype of ['fp32', 'fp16'] as const) {
      const detail = await rejectionOf(convert(files, found, { dtype }));
      expect(detail.facts).toMatchObject({ tensor: 'w', index, count: 1 });
    }
  });
});

test('a computed tensor is compared as it is written', async () => {
  const [a, b, mean] = [
    [1, 2, 3],
    [3, 5, 9],
    [2, 3.5, 6],
  ].map((values) => encodeFloats('F32', values));
  const entry = (found: Uint8Array | undefined) => {
    const files = {
      'a.pt': a ?? new Uint8Array(),
      'b.pt': b ?? new Uint8Array(),
      'mean.pt': found ?? new Uint8Array(),
    };
    const sources = Object.keys(files).map((path) => ({ path, size: 12, modified: 0 }));
    const [first, second, third] = [0, 1, 2].map((source) => ({
      dtype: 'F32' as const,
      pieces: [{ source, offset: 0, length: 12, at: 0 }],
    }));
    if (!first || !second || !third) throw new Error('three files');
    const tensor: TensorEntry = { name: 'w', shape: [3], origin: 'master', stored: first, meanOf: [first, second] };
    const made = plan(inventoryOf([tensor], { sources, partitions: [] }));
    const tensors = made.tensors.map((planned) => ({ ...planned, proofs: [{ check: 'weights', ...third }] }));
    return run({ ...made, tensors }, { input: memoryTree(files), output: memoryOutput() });
  };
  expect((await entry(mean)).checks.find(({ id }) => id === 'weights')?.status).toBe('passed');
  const detail = await rejectionOf(entry(encodeFloats('F32', [2, 3, 6])));
  expect(detail).toMatchObject({ code: 'weights-differs', facts: { index: 1, expected: '3', found: '3.5' } });
});

test('what the backend converts wrongly is found', async () => {
  const one: Pair = { from: 'F32', copy: 'BF16', values: [1, 2, 3], stored: 'run', proof: 'run' };
  const { files, inventory } = checkpoint([one]);
  const cpu = cpuBackend();
  const wrong = {
    ...cpu,
    convert: async (job: Parameters<typeof cpu.convert>[0]) => {
      const stats = await cpu.convert(job);
      job.output[2] = (job.output[2] ?? 0) ^ 1;
      return stats;
    },
  };
  const made = plan(inventory);
  const input = memoryTree(files);
  await run(made, { input, output: memoryOutput(), backend: cpu });
  const detail = await rejectionOf(run(made, { input, output: memoryOutput(), backend: wrong }));
  expect(detail.facts).toMatchObject({ index: 1, expected: '2' });
});

describe('masters without a second copy', () => {
  const one: Pair = { from: 'F32', copy: 'BF16', values: [1, 2, 3], stored: 'run', proof: 'run' };
  const { files, inventory } = checkpoint([one, one]);
  const lineOf = async (found: Inventory, chosen: PlanOptions) => {
    const { report } = await convert(files, found, chosen);
    return report.checks.filter(({ id }) => id === 'master-copy');
  };
  const without = (count: number) =>
    inventory.tensors.map(({ copy, ...entry }, i) => (i < count || !copy ? entry : { ...entry, copy }));

  test('are told, with the reason', async () => {
    const detail = 'Without a second copy in the checkpoint to compare their masters with: 2 tensors of 6 elements.';
    expect(await lineOf({ ...inventory, tensors: without(2) }, {})).toEqual([
      { id: 'master-copy', status: 'not-checkable', detail },
    ]);
  });

  test('are told beside those that were compared', async () => {
    const [line, ...others] = await lineOf({ ...inventory, tensors: without(1) }, {});
    expect(others).toEqual([]);
    expect(line?.status).toBe('passed');
    expect(line?.detail).toBe(
      'Equal to the copy in the model file bit for bit, once rounded to its dtype: 1 tensor of 3 elements. Without a second copy in the checkpoint to compare their masters with: 1 tensor of 3 elements.',
    );
  });

  test('need none where the copy itself is written', async () => {
    const detail = 'Taken from the 16-bit copy itself, without reading the masters: 2 tensors of 6 elements.';
    expect(await lineOf(inventory, { dtype: 'bf16' })).toEqual([
      { id: 'master-copy', status: 'not-checkable', detail },
    ]);
  });

  test('are none where there are no masters', async () => {
    const tensors = inventory.tensors.map((entry) => ({ ...entry, origin: 'module' as const, copy: undefined }));
    const plain = tensors.map(({ copy: _, ...entry }) => entry);
    expect(await lineOf({ ...inventory, tensors: plain }, {})).toEqual([
      { id: 'master-copy', status: 'not-checkable', detail: 'No master weights were read.' },
    ]);
  });
});

test('a proof of more precision than what is read proves nothing and is left out', () => {
  const one: Pair = { from: 'F32', copy: 'F32', values: [1.0000001], stored: 'run', proof: 'run' };
  const { inventory } = checkpoint([one], undefined, 'replicated');
  const copy = { dtype: 'BF16', pieces: [{ source: 1, offset: 0, length: 2, at: 0 }] } as const;
  const tensors = inventory.tensors.map((entry) => ({ ...entry, copy }));
  expect(plan({ ...inventory, tensors }, { dtype: 'bf16' }).tensors[0]?.proofs).toBeUndefined();
  expect(plan({ ...inventory, tensors }, { dtype: 'fp16' }).tensors[0]?.proofs?.map(({ check }) => check)).toEqual([
    'master-copy',
    'replicated',
  ]);
});
