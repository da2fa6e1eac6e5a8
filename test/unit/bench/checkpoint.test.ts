import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { folderOutput, inspect, openFolder, plan, run } from '../../../src/node.js';
import { openCheckpoints } from '../../bench/checkpoint/cache.js';
import { WORLD, writeCheckpoint } from '../../bench/checkpoint/deepspeed.js';
import { PRECISIONS, type Precision, readExpected, verifyOutput } from '../../bench/checkpoint/expected.js';
import { llamaParameters } from '../../bench/checkpoint/shapes.js';
import { fillValues } from '../../bench/checkpoint/values.js';

/** Too few for more than one layer. */
const ELEMENTS = 200_000;

const home = mkdtempSync(join(tmpdir(), 'unshard-bench-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe.each([2, 3] as const)('a generated checkpoint of stage %d', (stage) => {
  const folder = join(home, `zero${stage}`);
  mkdirSync(folder);
  writeCheckpoint(folder, { stage, elements: ELEMENTS });

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
      expect(verifyOutput(join(out, 'model.safetensors'), readExpected(folder), dtype)).toEqual([]);
    },
  );
});

test('no parameter of a model divides by the number of ranks, so that every cut is padded', () => {
  for (const elements of [ELEMENTS, 30e6, 480e6]) {
    const even = llamaParameters(elements).filter((parameter) => parameter.elements % WORLD === 0);
    expect(even).toEqual([]);
  }
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
    expect(existsSync(`${first?.path}.partial`)).toBe(false);
    expect(statSync(join(first?.path ?? '', 'latest')).isFile()).toBe(true);
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
