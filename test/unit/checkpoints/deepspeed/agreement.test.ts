import { describe, expect, test } from 'vitest';
import { inspectSpec, problemsIn } from '../../../helpers/deepspeed/check.js';
import {
  type Py,
  PyCall,
  PyFloat,
  type PyMap,
  type PyOrdered,
  PyRaw,
  PyTuple,
  tensorOf,
} from '../../../helpers/deepspeed/python.js';
import { MODEL, modelOf, optimOf, small } from '../../../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../../../helpers/deepspeed/spec.js';
import { encodeFloats } from '../../../helpers/naive-floats.js';
import { pickle } from '../../../helpers/pickle.js';

/** Changes the optimizer file of rank 2. */
function onRank2(stage: 1 | 2 | 3, edit: (root: PyMap, state: PyMap) => void, more: Partial<CheckpointSpec> = {}) {
  return small(stage, { ...more, editOptim: (root, state, rank) => (rank === 2 ? edit(root, state) : undefined) });
}

function mapAt(value: Py | undefined, ...keys: readonly (string | number)[]): PyMap {
  let found = value;
  for (const key of keys)
    found = found instanceof Map ? found.get(key) : Array.isArray(found) ? found[Number(key)] : undefined;
  if (!(found instanceof Map)) throw new Error(`no dict at ${keys.join('.')}`);
  return found;
}

/** State of the torch optimizer inside the ZeRO optimizer. */
const inner = (state: PyMap) => mapAt(state.get('base_optimizer_state') ?? state.get('optimizer_state_dict'));

describe.each([1, 2, 3] as const)('the ranks of stage %i', (stage) => {
  test('agree, and the check says in what', async () => {
    const { checks } = await inspectSpec(small(stage));
    const check = checks.find(({ id }) => id === 'ranks-agree');
    const shapes = stage === 3 ? ', param_shapes' : '';
    expect(check?.detail).toBe(
      `Model files: ${stage === 3 ? 3 : 1}, optimizer files: 3. They agree in ds_version, optimizer step, learning rate, loss scale${shapes}, ds_config.`,
    );
  });

  test('have made the same number of steps', async () => {
    const step = tensorOf('F32', [], encodeFloats('F32', [8]), 'moments');
    const spec = onRank2(stage, (_, state) => mapAt(inner(state), 'state', 0).set('step', step));
    expect(await problemsIn(spec)).toEqual([
      { code: 'optimizer-step-differs', facts: { file: optimOf(2), other: optimOf(0), expected: '7', found: '8' } },
    ]);
  });

  test('have made the same number of steps where it is a number', async () => {
    const count = (rank: number) => (rank === 1 ? 6 : 7);
    const editOptim = (_: PyMap, state: PyMap, rank: number) => {
      const { state: states, param_groups: groups } = Object.fromEntries(inner(state));
      for (const entry of states instanceof Map ? states.values() : []) mapAt(entry).delete('step');
      mapAt(groups, 0).set('step', count(rank));
    };
    expect(await problemsIn(small(stage, { editOptim }))).toMatchObject([
      { code: 'optimizer-step-differs', facts: { file: optimOf(1), expected: '7', found: '6' } },
    ]);
  });

  test('have the same learning rates', async () => {
    const spec = onRank2(stage, (_, state) => mapAt(inner(state), 'param_groups', 0).set('lr', new PyFloat(5e-4)));
    expect(await problemsIn(spec)).toEqual([
      {
        code: 'learning-rate-differs',
        facts: { file: optimOf(2), other: optimOf(0), expected: '0.001', found: '0.0005' },
      },
    ]);
  });

  test('have the same loss scale', async () => {
    const scaler = new PyCall('deepspeed.runtime.fp16.loss_scaler', 'LossScaler', [], new Map([['cur_scale', 2]]));
    const spec = onRank2(stage, (_, state) => void state.set('loss_scaler', scaler));
    expect(await problemsIn(spec)).toMatchObject([
      { code: 'loss-scale-differs', facts: { expected: '1', found: '2' } },
    ]);
  });

  test('were configured alike', async () => {
    const spec = onRank2(stage, (root) => mapAt(root.get('ds_config'), 'bf16').set('enabled', false));
    expect(await problemsIn(spec)).toEqual([
      {
        code: 'ds-config-differs',
        facts: { file: optimOf(2), other: stage === 3 ? modelOf(0) : MODEL, key: 'bf16.enabled' },
      },
    ]);
  });
});

describe('a configuration', () => {
  const configured = (edit: (config: PyMap, rank: number) => void) =>
    small(2, { editOptim: (root, _, rank) => edit(mapAt(root.get('ds_config')), rank) });

  test('may have paths of each node: texts are not compared', async () => {
    expect(await problemsIn(configured((config, rank) => void config.set('path', `/nvme${rank}`)))).toEqual([]);
  });

  test('may be a text as a whole', async () => {
    const spec = small(2, { editOptim: (root) => void root.set('ds_config', 'ds_config.json') });
    expect(await problemsIn(spec)).toEqual([]);
  });

  test('has the same keys', async () => {
    const spec = configured((config, rank) => (rank === 1 ? void config.set('gradient_clipping', 1) : undefined));
    expect(await problemsIn(spec)).toMatchObject([{ code: 'ds-config-differs', facts: { key: 'gradient_clipping' } }]);
  });

  test('has lists of the same items', async () => {
    const spec = configured((config, rank) => void config.set('betas', [1, rank === 2 ? 3 : 2]));
    const both = (edit: CheckpointSpec) => ({
      ...edit,
      editModel: (root: PyMap) => mapAt(root.get('ds_config')).set('betas', [1, 2]),
    });
    expect(await problemsIn({ ...spec, editModel: both(spec).editModel })).toMatchObject([
      { facts: { key: 'betas.1' } },
    ]);
  });

  test('is never shown: it may hold secrets', async () => {
    const spec = configured((config, rank) => void config.set('wandb', new Map<string, Py>([['key', 90210 + rank]])));
    const { problems } = await inspectSpec(spec);
    expect(problems.map(({ code }) => code)).toEqual(['ds-config-differs']);
    expect(JSON.stringify(problems)).not.toContain('9021');
  });

  test('that shares its parts a million times over takes no time', async () => {
    // DUP and TUPLE2: thirty times a pair of the same.
    const deep = () => new Map<string, Py>([['deep', new PyRaw(pickle('K\x01', '2\x86'.repeat(30)))]]);
    const spec = small(2, {
      editOptim: (root) => void root.set('ds_config', deep()),
      editModel: (root) => void root.set('ds_config', deep()),
    });
    expect(await problemsIn(spec)).toEqual([]);
  });
});

describe('the model files of stage 3', () => {
  const reshaped = (edit: (shapes: PyMap) => void) =>
    small(3, {
      editModel(root, rank) {
        const [first] = (root.get('param_shapes') ?? []) as PyOrdered[];
        if (rank === 1 && first) edit(first.map);
      },
    });

  test('list the same shapes', async () => {
    const spec = reshaped((shapes) => void shapes.set('norm.weight', new PyTuple([2, 2])));
    expect(await problemsIn(spec)).toEqual([
      {
        code: 'param-shapes-differs',
        facts: {
          file: modelOf(1),
          other: modelOf(0),
          expected: 'norm.weight [4] in group 0',
          found: 'norm.weight [2, 2] in group 0',
        },
      },
    ]);
  });

  test('list the same parameters', async () => {
    const more = reshaped((shapes) => void shapes.set('another', new PyTuple([1])));
    expect(await problemsIn(more)).toMatchObject([{ code: 'param-shapes-differs' }]);
    const fewer = reshaped((shapes) => void shapes.delete('norm.weight'));
    expect(await problemsIn(fewer)).toMatchObject([{ code: 'param-shapes-differs' }]);
  });
});

test('a model file of another version than the optimizer files is of another run', async () => {
  const spec = small(2, { editModel: (root) => void root.set('ds_version', '0.18.0') });
  expect(await problemsIn(spec)).toEqual([
    { code: 'ds-version-differs', facts: { file: optimOf(0), other: MODEL, expected: '0.18.0', found: '0.17.0' } },
  ]);
});

test('what an optimizer does not record is not compared', async () => {
  const editOptim = (root: PyMap, state: PyMap) => {
    state.set('base_optimizer_state', new Map());
    state.delete('loss_scaler');
    root.delete('ds_config');
  };
  const { checks, problems } = await inspectSpec(small(2, { editOptim }));
  expect(problems).toEqual([]);
  expect(checks.find(({ id }) => id === 'ranks-agree')?.detail).toMatch(/They agree in ds_version\.$/);
});
