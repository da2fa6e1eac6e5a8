import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../../src/io/memory.js';
import { expectedOf, toBin, toSafetensors } from '../../../helpers/deepspeed/convert.js';
import { randomSpec } from '../../../helpers/deepspeed/random-spec.js';
import { type CheckpointSpec, sizeOf } from '../../../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';

/** Checkpoints that are tried for each stage. */
const RUNS = { numRuns: 80 };

/** A property of the checkpoints of a stage. */
function forAny(stage: CheckpointSpec['stage'], check: (spec: CheckpointSpec) => Promise<void>): Promise<void> {
  return fc.assert(fc.asyncProperty(randomSpec(stage), check), RUNS);
}

describe.each([1, 2, 3] as const)('any checkpoint of stage %i', (stage) => {
  test('gives its masters, frozen parameters and buffers in fp32', () =>
    forAny(stage, async (spec) => {
      const written = writeCheckpoint(spec);
      expect(await toSafetensors(written.files)).toEqual(expectedOf(written, 'F32'));
    }));

  test.each([
    ['bf16', 'BF16'],
    ['fp16', 'F16'],
  ] as const)('gives them rounded to %s', (precision, dtype) =>
    forAny(stage, async (spec) => {
      const written = writeCheckpoint(spec);
      expect(await toBin(written.files, { dtype: precision })).toEqual(expectedOf(written, dtype));
    }),
  );

  test('gives every tensor as it is stored, and tells of every name that has none', () =>
    forAny(stage, async (spec) => {
      const written = writeCheckpoint(spec);
      expect(await toSafetensors(written.files, { dtype: 'keep' })).toEqual(expectedOf(written, 'keep'));
      const { skipped } = await inspect(memoryTree(written.files));
      expect(skipped.map(({ name }) => name)).toEqual(expect.arrayContaining([...written.lost]));
    }));
});

describe('any checkpoint of stage 0', () => {
  // Masters have no names there. A few elements are needed to tell whose they are.
  const large = (params: CheckpointSpec['groups'][number]) => params.filter((param) => sizeOf(param) > 3);
  const specs = fc.tuple(randomSpec(0), fc.constantFrom('flat', 'shaped', 'none')).map(([spec, masters]) => {
    const groups = spec.groups.map(large);
    const isLeft = (name: string) => groups.flat().some((param) => param.name === name);
    const tied = (spec.tied ?? []).filter(([, owner]) => isLeft(owner));
    return { ...spec, masters, groups, tied, frozen: large(spec.frozen ?? []) };
  });

  test.each([
    ['fp32', 'F32'],
    ['bf16', 'BF16'],
    ['keep', 'keep'],
  ] as const)('gives its masters, or the weights of the model, in %s', (precision, dtype) =>
    fc.assert(
      fc.asyncProperty(specs, async (spec) => {
        const written = writeCheckpoint(spec);
        expect(await toSafetensors(written.files, { dtype: precision })).toEqual(expectedOf(written, dtype));
      }),
      RUNS,
    ),
  );
});
