import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import { run } from '../../../src/engine/run.js';
import { memoryOutput, memoryTree } from '../../../src/io/memory.js';
import { plan } from '../../../src/plan/make.js';
import { tensorOf } from '../../helpers/deepspeed/python.js';
import { small } from '../../helpers/deepspeed/small.js';
import { saveZip } from '../../helpers/deepspeed/torch-save.js';
import { writeCheckpoint } from '../../helpers/deepspeed/write.js';
import { rejectionOf } from '../../helpers/errors.js';
import { decodeFloats, encodeFloats } from '../../helpers/naive-floats.js';
import { type WrittenTensor, writeSafetensors } from '../../helpers/safetensors.js';

const SPEC = small(3, { frozen: [{ name: 'base.weight', shape: [3, 3] }] });
const WRITTEN = writeCheckpoint(SPEC);

/** The gathered weights of the run at its dtype, as `save_16bit_model` leaves them. */
function gathered(): Record<string, WrittenTensor> {
  const entries = [...WRITTEN.expected].map(([name, { dtype, shape, bytes }]) => {
    const values = decodeFloats(dtype === 'F32' ? 'F32' : 'BF16', bytes);
    return [name, { dtype: 'BF16', shape, bytes: encodeFloats('BF16', values) }] as const;
  });
  return Object.fromEntries(entries);
}

const asTorch = (tensors: Record<string, WrittenTensor>) =>
  saveZip(
    new Map(Object.entries(tensors).map(([name, { shape, bytes }]) => [name, tensorOf('BF16', shape, bytes, 'other')])),
  ).bytes;

async function convert(beside: Record<string, Uint8Array>, files = WRITTEN.files) {
  const input = memoryTree({ ...files, ...beside });
  const inventory = await inspect(input);
  return { inventory, report: await run(plan(inventory), { input, output: memoryOutput() }) };
}

describe('gathered weights beside a ZeRO-3 checkpoint', () => {
  test.each([
    ['model.safetensors', writeSafetensors(gathered())],
    ['pytorch_model.bin', asTorch(gathered())],
  ])('are a proof of its masters and frozen parameters: %s', async (name, bytes) => {
    const { inventory, report } = await convert({ [name]: bytes });
    expect(inventory.warnings).toEqual([]);
    expect(report.tensors.map(({ proven }) => proven)).toEqual(report.tensors.map(() => ['master-gathered']));
    const line = report.checks.find(({ id }) => id === 'master-gathered');
    expect(line).toMatchObject({
      status: 'passed',
      detail: expect.stringMatching(/^Equal to .*: 5 tensors of 48 elements\.$/),
    });
    expect(report.checks.some(({ id }) => id === 'master-copy')).toBe(false);
  });

  test('that differ stop the run, with advice that fits', async () => {
    const tensors = gathered();
    const norm = tensors['norm.weight'];
    if (!norm) throw new Error('no norm');
    const odd = { ...tensors, 'norm.weight': { ...norm, bytes: encodeFloats('BF16', [9, 9, 9, 9]) } };
    const detail = await rejectionOf(convert({ 'model.safetensors': writeSafetensors(odd) }));
    expect(detail).toMatchObject({
      kind: 'inconsistent',
      code: 'master-gathered-differs',
      facts: { tensor: 'norm.weight', other: 'model.safetensors', expected: '9' },
    });
    expect(detail.advice).toContain('moved away');
  });

  test('in several files prove together', async () => {
    const [first, ...others] = Object.entries(gathered());
    if (!first) throw new Error('no tensor');
    const { report } = await convert({
      'model-00001-of-00002.safetensors': writeSafetensors(Object.fromEntries([first])),
      'model-00002-of-00002.safetensors': writeSafetensors(Object.fromEntries(others)),
    });
    expect(report.tensors.every(({ proven }) => proven.length === 1)).toBe(true);
  });

  test('prove what they hold in the same shape, and nothing else', async () => {
    const { 'norm.weight': norm, 'head.bias': bias, ...others } = gathered();
    if (!norm || !bias) throw new Error('no norm');
    const tensors = { ...others, 'norm.weight': { ...norm, shape: [2, 2] }, 'another.weight': bias };
    const { report } = await convert({ 'model.safetensors': writeSafetensors(tensors) });
    const proven = report.tensors.filter((tensor) => tensor.proven.length > 0).map(({ name }) => name);
    expect(proven.toSorted()).toEqual(['base.weight', 'embed.weight', 'head.weight']);
    expect(report.checks.find(({ id }) => id === 'master-copy')).toMatchObject({
      status: 'not-checkable',
      detail: expect.stringContaining(
        'Without a second copy in the checkpoint to compare their masters with: 2 tensors of 9 elements.',
      ),
    });
  });

  test('prove nothing where they are hollow, and that is told', async () => {
    const { 'norm.weight': norm, ...others } = gathered();
    if (!norm) throw new Error('no norm');
    const hollow = { ...others, 'norm.weight': { ...norm, shape: [0], bytes: new Uint8Array() } };
    const { inventory, report } = await convert({ 'model.safetensors': writeSafetensors(hollow) });
    expect(inventory.warnings.map(({ code }) => code)).toEqual(['hollow-weights']);
    expect(report.tensors.every(({ proven }) => proven.length === 0)).toBe(true);
  });

  test('are not hollow where a parameter has no elements anyway', async () => {
    const none: WrittenTensor = { dtype: 'BF16', shape: [0, 3], bytes: new Uint8Array() };
    const { files } = writeCheckpoint({ ...SPEC, groups: [...SPEC.groups, [{ name: 'none.weight', shape: [0, 3] }]] });
    const beside = { 'model.safetensors': writeSafetensors({ ...gathered(), 'none.weight': none }) };
    const { inventory, report } = await convert(beside, files);
    expect(inventory.warnings).toEqual([]);
    expect(report.checks.find(({ id }) => id === 'master-gathered')?.status).toBe('passed');
    const hollow = { ...gathered(), 'norm.weight': { ...none, shape: [0] }, 'none.weight': none };
    const told = await convert({ 'model.safetensors': writeSafetensors(hollow) }, files);
    expect(told.inventory.warnings.map(({ message }) => message)).toEqual([
      expect.stringContaining('model.safetensors is hollow: 1 of its tensors'),
    ]);
  });

  test('prove nothing where several tags lie beside them: nothing tells whose they are', async () => {
    const more = writeCheckpoint({ ...SPEC, folder: 'global_step9' });
    const files = { ...WRITTEN.files, ...more.files, latest: new TextEncoder().encode('global_step7') };
    const { report } = await convert({ 'model.safetensors': writeSafetensors(gathered()) }, files);
    expect(report.tensors.every(({ proven }) => proven.length === 0)).toBe(true);
  });

  test('are passed over where no reader can read them', async () => {
    const { inventory } = await convert({
      'model.safetensors': new Uint8Array(5),
      'pytorch_model.bin': new Uint8Array(50),
    });
    expect({ problems: inventory.problems, warnings: inventory.warnings }).toEqual({ problems: [], warnings: [] });
  });
});

test('a copy in the model file is proof enough at stage 2', async () => {
  const written = writeCheckpoint(small(2));
  const { report } = await convert({ 'model.safetensors': writeSafetensors(gathered()) }, written.files);
  expect(report.tensors.map(({ proven }) => proven)).toEqual(report.tensors.map(() => ['master-copy']));
});
