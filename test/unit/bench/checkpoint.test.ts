import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { folderOutput, type InspectOptions, inspect, openFolder, plan, run } from '../../../src/node.js';
import { openCheckpoints } from '../../bench/checkpoint/cache.js';
import { type CheckpointOptions, RANKS, writeCheckpoint } from '../../bench/checkpoint/deepspeed.js';
import { PRECISIONS, type Precision, readExpected, verifyOutput } from '../../bench/checkpoint/expected.js';
import { evenParameters, giantAndTinyParameters, llamaParameters } from '../../bench/checkpoint/shapes.js';
import { fillValues } from '../../bench/checkpoint/values.js';

/** Too few for more than one layer. */
const ELEMENTS = 200_000;

const home = mkdtempSync(join(tmpdir(), 'unshard-bench-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe.each([2, 3] as const)('a generated checkpoint of stage %d', (stage) => {
  const folder = join(home, `zero${stage}`);
  mkdirSync(folder);
  writeCheckpoint(folder, { stage, parameters: llamaParameters(ELEMENTS) });

  test('is what it says, without a warning', async () => {
    const inventory = await inspect(await openFolder(folder));
    expect(inventory.layout).toBe(`deepspeed-zero${stage}`);
    expect([...inventory.problems, ...inventory.warnings, ...inventory.skipped]).toEqual([]);
  });

  test.each(Object.keys(PRECISIONS) as Precision[])(
    'gives what was expected when it was made, in %s',
    async (dtype) => {
      const input = await openFolder(folder);
      const out = join(folder, dtype);
      const report = await run(plan(await inspect(input), { dtype }), { input, output: folderOutput(out) });
      expect(report.checks.filter(({ status }) => status === 'failed')).toEqual([]);
      expect(await verifyOutput(out, readExpected(folder), dtype)).toEqual([]);
    },
  );
});

describe('a generated checkpoint of another kind', () => {
  const parameters = [
    { name: 'a', shape: [5, 16], elements: 80, first: 0 },
    { name: 'b', shape: [3, 8], elements: 24, first: 80 },
  ];

  test.each<[string, Omit<CheckpointOptions, 'parameters'>, InspectOptions]>([
    ['with many ranks', { stage: 3, ranks: 40 }, {}],
    [
      'with columns that are shared out',
      { stage: 2, ranks: 1, tensorParallel: 8 },
      { tpRules: [{ pattern: '*', merge: 1 }] },
    ],
    ['of zeros', { stage: 3, weights: 'zeros', moments: 'zeros' }, {}],
    ['of zeros at stage 2', { stage: 2, weights: 'zeros', moments: 'zeros' }, {}],
  ])('%s gives what was expected when it was made', async (_, options, reading) => {
    const folder = mkdtempSync(join(home, 'kind-'));
    writeCheckpoint(folder, { parameters, ...options });
    const input = await openFolder(folder);
    for (const dtype of Object.keys(PRECISIONS) as Precision[]) {
      const out = join(folder, dtype);
      const report = await run(plan(await inspect(input, reading), { dtype }), { input, output: folderOutput(out) });
      expect(report.checks.filter(({ status }) => status === 'failed')).toEqual([]);
      expect(await verifyOutput(out, readExpected(folder), dtype)).toEqual([]);
    }
  });

  test('takes no space for moments that are zeros', () => {
    const blocks = (moments: 'values' | 'zeros'): number => {
      const folder = mkdtempSync(join(home, 'kind-'));
      writeCheckpoint(folder, { stage: 3, ranks: 1, parameters: llamaParameters(ELEMENTS), moments });
      return statSync(join(folder, 'global_step1', 'bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt')).blocks;
    };
    expect(blocks('zeros')).toBeLessThan(0.4 * blocks('values'));
  });

  test('cannot share out columns at stage 3', () => {
    const options = { stage: 3, ranks: 1, tensorParallel: 8, parameters } as const;
    expect(() => writeCheckpoint(mkdtempSync(join(home, 'kind-')), options)).toThrow('stage 2');
  });
});

test('no parameter of a model divides by the number of ranks, so that every cut is padded', () => {
  for (const elements of [ELEMENTS, 30e6, 480e6]) {
    const even = llamaParameters(elements).filter((parameter) => parameter.elements % RANKS === 0);
    expect(even).toEqual([]);
  }
});

test('all dimensions of an even model are even', () => {
  for (const elements of [ELEMENTS, 30e6, 480e6]) {
    expect(evenParameters(elements).filter(({ shape }) => shape.some((size) => size % 2 === 1))).toEqual([]);
  }
});

test('a giant model has nearly as many elements as are asked for, in tensors of 2 GB and of 40 bytes', () => {
  const parameters = giantAndTinyParameters(3e9);
  expect(new Set(parameters.map(({ elements }) => 4 * elements))).toEqual(new Set([2 ** 31, 40]));
  const total = parameters.reduce((sum, { elements }) => sum + elements, 0);
  expect(Math.abs(total - 3e9)).toBeLessThan(0.1 * 3e9);
});

test('a model has about as many parameters as are asked for, one after the other', () => {
  const parameters = llamaParameters(480e6);
  let first = 0;
  for (const parameter of parameters) {
    expect(parameter.first).toBe(first);
    first += parameter.elements;
  }
  expect(first).toBe(477_950_067);
});

test('a part of a sequence is the same wherever it is started, and another seed gives others', () => {
  const [whole, part, other] = [new Uint32Array(100), new Uint32Array(40), new Uint32Array(100)];
  fillValues(whole, 1000, 1);
  fillValues(part, 1060, 1);
  fillValues(other, 1000, 2);
  expect(whole.subarray(60)).toEqual(part);
  expect(whole.filter((word, i) => word === other[i])).toEqual(new Uint32Array());
});

test('all values are normal in fp16 and differ in sign, size and mantissa', () => {
  const words = new Uint32Array(10_000);
  fillValues(words, 0, 1);
  const values = [...new Float32Array(words.buffer)];
  expect(values.every((value) => Math.abs(value) >= 2 ** -13 && Math.abs(value) < 2 ** -5)).toBe(true);
  expect(new Set(words).size).toBeGreaterThan(9_990);
  expect(values.filter((value) => value < 0).length).toBeGreaterThan(4_500);
  expect(values.filter((value) => value > 0).length).toBeGreaterThan(4_500);
});

describe('the cache', () => {
  const cache = join(home, 'cache');
  const logged: string[] = [];
  const open = (named: readonly string[] = []) =>
    openCheckpoints({ cache, elements: ELEMENTS, named, log: (text) => logged.push(text) });

  test('generates a checkpoint once, and leaves nothing unfinished', () => {
    const [first] = open().large();
    const made = logged.length;
    expect(made).toBeGreaterThan(0);
    const [again] = open().large();
    expect(logged.length).toBe(made);
    expect(again).toEqual(first);
    expect(open().missingBytes(['zero3'])).toBe(0);
    expect(existsSync(`${first?.path}.partial`)).toBe(false);
    expect(statSync(join(first?.path ?? '', 'latest')).isFile()).toBe(true);
  });

  test('makes no other one for the first', () => {
    const fresh = openCheckpoints({ cache: join(home, 'fresh'), elements: ELEMENTS, named: [], log: () => {} });
    expect(fresh.firstLarge().label).toBe(open().large()[0]?.label);
    expect([fresh.missingBytes(['zero3']), fresh.missingBytes(['zero2']) > 0]).toEqual([0, true]);
    const named = join(home, 'zero2');
    expect(open([named]).firstLarge().path).toBe(named);
  });

  test('counts what is not there yet, each checkpoint once', () => {
    const bytes = open().missingBytes(['small']);
    expect(bytes).toBeGreaterThan(0);
    expect(open().missingBytes(['small', 'zero3', 'small'])).toBe(bytes);
  });

  test('takes the folders that are named in place of its own', () => {
    const named = join(home, 'zero2');
    expect(
      open([named])
        .large()
        .map(({ path }) => path),
    ).toEqual([named]);
  });
});
