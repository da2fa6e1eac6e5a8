import { describe, expect, test } from 'vitest';
import { expectWhole, inspectSpec, problemsIn } from '../../../helpers/deepspeed/check.js';
import { bufferOf } from '../../../helpers/deepspeed/random-spec.js';
import { type CheckpointSpec, since } from '../../../helpers/deepspeed/spec.js';

/** Each release of DeepSpeed that changed what it writes, and the last one before it where that is another line. */
const VERSIONS = [
  ...['0.3.0', '0.3.13', '0.3.14', '0.3.16', '0.4.0', '0.4.2', '0.4.3', '0.4.4', '0.5.0', '0.5.1', '0.5.2', '0.5.3'],
  ...['0.5.4', '0.5.5', '0.5.9', '0.5.10', '0.6.0', '0.6.1', '0.6.2', '0.6.5', '0.7.0', '0.7.3', '0.7.4', '0.9.0'],
  ...['0.9.1', '0.9.2', '0.9.4', '0.10.0', '0.10.1', '0.13.0', '0.14.5', '0.16.3', '0.16.4', '0.17.1', '0.18.3'],
  ...['0.18.5', '0.19.6'],
];

/** Two groups that need padding on three ranks and lie across each other in the model. */
const GROUPS = [
  [
    { name: 'embed.weight', shape: [7, 3] },
    { name: 'a.weight', shape: [4, 5] },
    { name: 'b.weight', shape: [21] },
  ],
  [
    { name: 'a.bias', shape: [5] },
    { name: 'b.bias', shape: [6] },
  ],
];

function run(stage: CheckpointSpec['stage'], version: string, more: Partial<CheckpointSpec> = {}): CheckpointSpec {
  return {
    ...{ stage, version, ranks: 3, groups: GROUPS },
    modelDtype: since(version, '0.6.2') ? 'BF16' : 'F16',
    namedOrder: stage === 3 ? GROUPS.flat().map(({ name }) => name) : ['embed', 'a', 'b'].flatMap(ofModule),
    tied: [['head.weight', 'embed.weight']],
    buffers: [bufferOf('ids', 'I64', [3], 5), bufferOf('mask', 'BOOL', [4], 1), bufferOf('scale', 'F32', [2], 9)],
    ...more,
  };
}

function ofModule(module: string): string[] {
  return GROUPS.flat().flatMap(({ name }) => (name.startsWith(`${module}.`) ? [name] : []));
}

describe.each(VERSIONS)('DeepSpeed %s', (version) => {
  const frozen = [{ name: 'base.weight', shape: [3, 7] }];
  const sharded = since(version, '0.3.14') ? ([0, 1, 2, 3] as const) : ([0, 1, 2] as const);

  test.each(sharded)('at stage %i gives every tensor, and tells of every name that has none', async (stage) => {
    // Before 0.4.3 stage 3 lists frozen parameters with the trained ones.
    const spec = run(stage, version, stage === 3 && !since(version, '0.4.3') ? {} : { frozen });
    const { lost, aliases } = await expectWhole(spec);
    const { skipped, tensors } = await inspectSpec(spec);
    expect(skipped.map(({ name }) => name).toSorted()).toEqual(lost.toSorted());
    expect(Object.keys(aliases)).toEqual(lost.includes('head.weight') ? [] : ['head.weight']);
    expect(tensors.filter(({ origin }) => origin === 'master')).toHaveLength(5);
  });

  test.each([1, 2] as const)(
    'at stage %i gives them on one rank, and on more ranks than a group has elements',
    async (stage) => {
      for (const ranks of [1, 13]) await expectWhole(run(stage, version, { ranks, frozen }));
    },
  );
});

describe.each(['0.4.0', '0.5.3', '0.5.4', '0.5.8'])('the first layout of stage 1 as an option of %s', (version) => {
  test.each([12, 23, 5e8])('is put together, %i elements at once', async (commElements) => {
    for (const elastic of [true, false]) {
      const spec = run(1, version, { dealt: true, commElements, elastic });
      await expectWhole(spec);
      expect((await inspectSpec(spec)).layout).toBe('deepspeed-zero1');
    }
  });
});

test('masters of 16 bits are told: there are none in fp32', async () => {
  const warnings = async (spec: CheckpointSpec) => (await inspectSpec(spec)).warnings.map(({ code }) => code);
  for (const stage of [1, 2, 3] as const) {
    expect(await warnings(run(stage, '0.18.3', { masterDtype: 'BF16' }))).toEqual(['low-precision-masters']);
    expect(await warnings(run(stage, '0.18.3'))).toEqual([]);
    expect(await problemsIn(run(stage, '0.18.3', { masterDtype: 'BF16' }))).toEqual([]);
  }
});
