import { describe, expect, test } from 'vitest';
import { inspect } from '../../src/checkpoints/inspect.js';
import { memoryTree } from '../../src/io/memory.js';
import { inspectSpec } from '../helpers/deepspeed/check.js';
import { type Py, PyCall, PyRaw, PySet, PyTuple, tensorOf } from '../helpers/deepspeed/python.js';
import { MODEL, optimOf, small } from '../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../helpers/deepspeed/write.js';
import { rejectionOf } from '../helpers/errors.js';
import { pickle, unicode } from '../helpers/pickle.js';
import { latin1 } from '../helpers/zip.js';

/** A run whose `client_state` put a value into the model file, as `save_checkpoint` lets everyone do. */
const withState = (value: Py): CheckpointSpec => small(2, { editModel: (root) => root.set('client_state', value) });

describe('objects that training code saved', () => {
  const numpy = new PyCall('numpy.core.multiarray', '_reconstruct', [
    new PyCall('numpy', 'ndarray'),
    new PyTuple([0]),
    '',
  ]);

  test.each<[what: string, value: Py]>([
    ['arguments', new PyCall('argparse', 'Namespace', [], new Map<string, Py>([['lr', 1]]))],
    ['a NumPy array', numpy],
    ['a class that nobody knows', new PyCall('my.project', 'Trainer', [1, 2], ['state'])],
    ['sets and tuples', new PySet([1, new PyTuple(['a', null])])],
    ['a tensor of its own', tensorOf('F32', [2], new Uint8Array(8), 'other')],
    [
      'a quantized tensor',
      new PyCall('torch._utils', '_rebuild_qtensor', [tensorOf('I8', [1], new Uint8Array(1), 'other')]),
    ],
  ])('stay inert: %s', async (_, value) => {
    const control = await inspectSpec(small(2));
    const { problems, warnings, tensors, facts } = await inspectSpec(withState(value));
    expect({ problems, warnings }).toEqual({ problems: [], warnings: [] });
    expect(tensors.map(({ name }) => name)).toEqual(control.tensors.map(({ name }) => name));
    expect(facts.dangerousGlobals).toEqual([]);
  });

  test('are counted where they are no plain values', async () => {
    const count = async (spec: CheckpointSpec) => (await inspectSpec(spec)).facts.uninterpretedObjects;
    const before = await count(small(2));
    expect(await count(withState(new PyCall('my.project', 'Trainer')))).toBe(before + 1);
    expect(await count(withState([1, 2, 3]))).toBe(before);
  });

  test('may be very many, and very deep', async () => {
    const wide = pickle('](', 'K\x01'.repeat(500_000), 'e');
    const deep = pickle(']'.repeat(5_000), 'a'.repeat(4_999));
    const long = unicode('x'.repeat(2 ** 20));
    for (const bytes of [wide, deep, long])
      expect((await inspectSpec(withState(new PyRaw(bytes)))).problems).toEqual([]);
  });

  test('may overwrite the number of steps, which then is not known', async () => {
    const spec = small(2, { editModel: (root) => root.set('global_steps', new PyCall('numpy', 'int64', [7])) });
    const { facts, problems } = await inspectSpec(spec);
    expect({ problems, steps: facts.globalSteps }).toEqual({ problems: [], steps: undefined });
    expect((await inspectSpec(small(2))).facts.globalSteps).toBe(7);
  });
});

describe('objects that would run commands', () => {
  const attack = new PyCall('os', 'system', ['touch /tmp/unshard-was-here']);

  test('are told and not run, in a model file', async () => {
    const { facts, problems } = await inspectSpec(withState(attack));
    expect(facts.dangerousGlobals).toEqual(['os.system']);
    expect(problems).toEqual([]);
  });

  test('are told and not run, in an optimizer file of any rank', async () => {
    const spec = small(3, {
      editOptim(root, _, rank) {
        if (rank === 2) root.set('hook', [attack, new PyCall('builtins', 'eval', ['1'])]);
      },
    });
    expect((await inspectSpec(spec)).facts.dangerousGlobals).toEqual(['builtins.eval', 'os.system']);
  });

  test('are none in an honest checkpoint', async () => {
    for (const stage of [0, 1, 2, 3] as const) {
      expect((await inspectSpec(small(stage, { ranks: 1 }))).facts.dangerousGlobals).toEqual([]);
    }
  });

  test('do not stand in for a tensor', async () => {
    const spec = small(2, {
      editOptim: (_, state) => state.set('single_partition_of_fp32_groups', [attack, attack]),
    });
    expect(await rejectionOf(inspectSpec(spec))).toMatchObject({
      code: 'bad-field',
      facts: { file: optimOf(0), found: 'an object of os.system' },
    });
  });
});

describe('files that are no torch files', () => {
  const { files } = writeCheckpoint(small(2));

  test.each<[what: string, bytes: Uint8Array, code: string]>([
    [
      'a Git LFS pointer',
      latin1('version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n'),
      'torch-foreign-format',
    ],
    ['an empty file', new Uint8Array(), 'torch-foreign-format'],
    ['a web page', latin1('<!DOCTYPE html><html>'), 'torch-foreign-format'],
    ['half of the file', (files[MODEL] ?? new Uint8Array()).subarray(0, 2000), 'zip-truncated'],
  ])('%s is named', async (_, bytes, code) => {
    const damaged = memoryTree({ ...files, [MODEL]: bytes });
    expect(await rejectionOf(inspect(damaged))).toMatchObject({ kind: 'bad-file', code, facts: { file: MODEL } });
  });
});
