import { describe, expect, test } from 'vitest';
import { OPTIONS, parseCommand } from '../../../src/cli/arguments.js';
import { HELP } from '../../../src/cli/help.js';
import { bytes } from '../../../src/cli/print.js';
import { detailOf } from '../../helpers/errors.js';

describe('parseCommand', () => {
  test('one folder is inspected, two are a conversion', () => {
    expect(parseCommand(['in'])).toMatchObject({ kind: 'inspect', checkpoint: 'in' });
    expect(parseCommand(['in', 'out'])).toMatchObject({ kind: 'convert', checkpoint: 'in', out: 'out', verify: true });
  });

  test('takes every option', () => {
    const args = [
      'in',
      'out',
      '--dtype',
      'bf16',
      '--dtype-for',
      '*norm*=fp32',
      '--dtype-for',
      'a=b=keep',
      '--format',
      'bin',
    ];
    const more = [
      '--max-shard-size',
      '5GB',
      '--exclude-frozen',
      '--duplicate-tied',
      '--overflow',
      'clamp',
      '--tag',
      't',
    ];
    const flags = ['--threads', '3', '--sha256', '--overwrite', '--no-verify', '--dry-run', '--json', '--quiet'];
    expect(parseCommand([...args, ...more, ...flags])).toEqual({
      kind: 'convert',
      checkpoint: 'in',
      out: 'out',
      plan: {
        dtype: 'bf16',
        format: 'bin',
        overflow: 'clamp',
        maxShardSize: 5e9,
        excludeFrozen: true,
        trainableOnly: false,
        trimVocab: false,
        duplicateTied: true,
        dtypeFor: [
          { pattern: '*norm*', dtype: 'fp32' },
          { pattern: 'a=b', dtype: 'keep' },
        ],
      },
      overwrite: true,
      verify: false,
      dryRun: true,
      threads: 3,
      sha256: true,
      also: [],
      partial: false,
      tag: 't',
      reading: {},
      json: true,
      quiet: true,
    });
  });

  test('takes no number of threads that is none', () => {
    for (const number of ['-1', 'two', '1.5', '100']) {
      expect(() => parseCommand(['in', 'out', `--threads=${number}`])).toThrow(number);
    }
  });

  test('takes the options that choose and name tensors', () => {
    const patterns = ['--include', 'model.*', '--include', 'lm_head.*', '--exclude', '*.bias'];
    const args = ['in', 'out', ...patterns, '--strip-prefix', 'module.', '--trainable-only', '--trim-vocab'];
    expect(parseCommand(args)).toMatchObject({
      plan: {
        include: ['model.*', 'lm_head.*'],
        exclude: ['*.bias'],
        stripPrefix: 'module.',
        trainableOnly: true,
        trimVocab: true,
      },
    });
  });

  test('takes how tensor-parallel shards are joined', () => {
    const rules = ['--tp-rule', '*.down_proj.*=1', '--tp-rule', '*norm*=replicated', '--tp-rule', 'a=b=average'];
    expect(parseCommand(['in', ...rules, '--tp-rank', '3'])).toMatchObject({
      kind: 'inspect',
      reading: {
        tpRules: [
          { pattern: '*.down_proj.*', merge: 1 },
          { pattern: '*norm*', merge: 'replicated' },
          { pattern: 'a=b', merge: 'average' },
        ],
        tpRank: 3,
      },
    });
  });

  test('takes further folders', () => {
    expect(parseCommand(['in', '--also', 'a', '--also', 'b'])).toMatchObject({ kind: 'inspect', also: ['a', 'b'] });
    expect(parseCommand(['verify', 'in', 'weights'])).toMatchObject({ kind: 'verify', also: [] });
    expect(parseCommand(['verify', 'in', 'weights', '--merge-adapter', '--trim-vocab'])).toMatchObject({
      plan: { output: 'merged', trimVocab: true },
    });
  });

  test('takes the wish for a partial recovery, and files to do without', () => {
    expect(parseCommand(['in', 'out', '--partial'])).toMatchObject({ kind: 'convert', partial: true, reading: {} });
    expect(parseCommand(['in', 'out', '--ignore-file', 'a.pt', '--ignore-file', '*_7_*'])).toMatchObject({
      kind: 'convert',
      reading: { lost: ['a.pt', '*_7_*'] },
    });
    expect(parseCommand(['verify', 'in', 'weights', '--partial'])).toMatchObject({ kind: 'verify', partial: true });
  });

  test('takes what to make of an adapter', () => {
    expect(parseCommand(['in', 'out', '--adapter-only'])).toMatchObject({ plan: { output: 'adapter' } });
    const merge = ['in', 'out', '--merge-adapter', '--adapter-name', 'policy'];
    expect(parseCommand(merge)).toMatchObject({ plan: { output: 'merged', adapterName: 'policy' } });
    const scale = ['in', 'out', '--merge-adapter', '--lora-alpha', '16', '--lora-r', '8', '--lora-rslora'];
    expect(parseCommand(scale)).toMatchObject({ plan: { lora: { alpha: 16, r: 8, rslora: true } } });
    const rank = ['in', 'out', '--merge-adapter', '--lora-r', '8'];
    expect(detailOf(() => parseCommand(rank))).toMatchObject({ code: 'options-contradict' });
  });

  test('takes a plan to be made, run in parts, and finished', () => {
    expect(parseCommand(['plan', 'in', '-o', 'plan.json', '--dtype', 'bf16', '--also', 'more'])).toMatchObject({
      ...{
        kind: 'plan',
        checkpoint: 'in',
        file: 'plan.json',
        plan: { dtype: 'bf16' },
        also: ['more'],
        overwrite: false,
      },
    });
    expect(parseCommand(['plan', 'in'])).toMatchObject({ kind: 'plan', file: undefined });
    const planned = {
      file: 'plan.json',
      out: 'out',
      overwrite: false,
      verify: true,
      sha256: false,
      json: false,
      quiet: false,
    };
    expect(parseCommand(['run', 'plan.json', 'out'])).toEqual({
      ...{ kind: 'run', part: undefined, recheck: false, threads: undefined, folders: undefined },
      ...planned,
    });
    const moved = ['--checkpoint', 'there', '--also', 'more'];
    const part = [
      '--part',
      '3/8',
      '--recheck',
      '--threads',
      '2',
      '--no-verify',
      '--sha256',
      '--overwrite',
      '--json',
      '--quiet',
    ];
    expect(parseCommand(['run', 'plan.json', 'out', ...moved, ...part])).toEqual({
      ...{ kind: 'run', part: { index: 2, count: 8 }, recheck: true, threads: 2, folders: ['there', 'more'] },
      ...{ file: 'plan.json', out: 'out', overwrite: true, verify: false, sha256: true, json: true, quiet: true },
    });
    expect(parseCommand(['finish', 'plan.json', 'out', '--checkpoint', 'there'])).toEqual({
      ...{ kind: 'finish', folders: ['there'] },
      ...planned,
    });
  });

  test('a folder with the name of a command can be given with a path', () => {
    for (const name of ['plan', 'run', 'finish', 'verify']) {
      expect(parseCommand([`./${name}`])).toMatchObject({ kind: 'inspect', checkpoint: `./${name}` });
    }
  });

  test.each([
    [['plan'], 'arguments-missing'],
    [['plan', 'in', 'out'], 'arguments-many'],
    [['plan', 'in', '--part', '1/2'], 'option-foreign'],
    [['plan', 'in', '--no-verify'], 'option-foreign'],
    [['plan', 'in', '--sha256'], 'option-foreign'],
    [['plan', 'in', '--threads', '2'], 'option-foreign'],
    [['plan', 'in', '--dry-run'], 'option-foreign'],
    [['in', 'out', '-o', 'plan.json'], 'option-foreign'],
    [['in', 'out', '--recheck'], 'option-foreign'],
    [['in', '--dtype', 'bf16'], 'arguments-missing'],
    [['in', '--overwrite'], 'arguments-missing'],
    [['in', '--dry-run'], 'arguments-missing'],
    [['in', '--include', '*'], 'arguments-missing'],
    [['verify', 'in', 'weights', '--dtype', 'bf16'], 'option-foreign'],
    [['verify', 'in', 'weights', '--sha256'], 'option-foreign'],
    [['verify', 'in', 'weights', '--overwrite'], 'option-foreign'],
    [['verify', 'in', 'weights', '--checkpoint', 'there'], 'option-foreign'],
    [['run', 'plan.json'], 'arguments-missing'],
    [['run', 'plan.json', 'out', '--dtype', 'bf16'], 'option-foreign'],
    [['run', 'plan.json', 'out', '--partial'], 'option-foreign'],
    [['run', 'plan.json', 'out', '--also', 'more'], 'options-contradict'],
    [['run', 'plan.json', 'out', '--recheck'], 'options-contradict'],
    [['finish', 'plan.json'], 'arguments-missing'],
    [['finish', 'plan.json', 'out', 'more'], 'arguments-many'],
    [['finish', 'plan.json', 'out', '--part', '1/2'], 'option-foreign'],
    [['finish', 'plan.json', 'out', '--threads', '2'], 'option-foreign'],
    ...['0/4', '5/4', '1/0', '1', '1/', '-1/4', '1/2/3', '1.5/2', '1234567/12345678'].map(
      (part) => [['run', 'plan.json', 'out', `--part=${part}`], 'part-bad'] as [string[], string],
    ),
  ])('refuses %j', (args, code) => {
    expect(detailOf(() => parseCommand(args))).toMatchObject({ kind: 'usage', code });
  });

  test('the help names every option, and no other', () => {
    const named = new Set(HELP.match(/--[a-z][\w-]*|-o\b/g)?.map((name) => (name === '-o' ? 'output' : name.slice(2))));
    expect([...named].toSorted()).toEqual(Object.keys(OPTIONS).toSorted());
  });

  test.each([
    [[], 'arguments-missing'],
    [['a', 'b', 'c'], 'arguments-many'],
    [['a', '--nope'], 'option-unknown'],
    [['a', 'b', '--dtype'], 'option-value-bad'],
    [['a', 'b', '--overwrite=yes'], 'option-value-bad'],
    [['', 'b'], 'arguments-missing'],
    [['a', ''], 'arguments-missing'],
    [['verify', 'a', ''], 'arguments-missing'],
    [['run', 'plan.json', ''], 'arguments-missing'],
    [['a', 'b', '--lora-alpha', '16'], 'options-contradict'],
    [['a', 'b', '--merge-adapter', '--lora-alpha', 'x'], 'number-bad'],
    [['a', 'b', '--merge-adapter', '--lora-alpha', '16', '--lora-r', 'x'], 'number-bad'],
    [['a', 'b', '--dtype-for', 'x'], 'dtype-for-bad'],
    [['a', 'b', '--dtype-for', '=fp32'], 'dtype-for-bad'],
    [['a', 'b', '--max-shard-size', 'big'], 'size-bad'],
    [['a', '--tp-rule', 'x'], 'tp-rule-bad'],
    [['a', '--tp-rule', '=1'], 'tp-rule-bad'],
    [['a', '--tp-rule', 'x=column'], 'tp-rule-bad'],
    [['a', '--tp-rule', 'x=-1'], 'tp-rule-bad'],
    [['a', '--tp-rank', 'first'], 'tp-rank-bad'],
    [['a', '--tp-rank', '-1'], 'option-value-bad'],
    [['a', 'b', '--adapter-only', '--merge-adapter'], 'options-contradict'],
  ])('refuses %j', (args, code) => {
    expect(detailOf(() => parseCommand(args))).toMatchObject({ kind: 'usage', code });
  });

  test.each([
    [['a', '--nope'], "Unknown option '--nope'."],
    [['a', 'b', '--dtype'], "Option '--dtype <value>' argument missing."],
    [['a', 'b', '--lora-alpha', '-8'], '--lora-alpha has no value; one that begins with a dash follows after =.'],
    [['plan', 'a', '-o', '--json'], '-o has no value; one that begins with a dash follows at once.'],
    [['a', ''], 'OUT is empty.'],
    [['verify', 'a', ''], 'WEIGHTS is empty.'],
    [['plan', ''], 'CHECKPOINT is empty.'],
    [['finish', ''], 'PLAN is empty.'],
  ])('says of %j in one sentence what is wrong', (args, message) => {
    expect(detailOf(() => parseCommand(args)).message).toBe(message);
  });

  test('help and version need nothing else', () => {
    expect(parseCommand(['--help'])).toEqual({ kind: 'help' });
    expect(parseCommand(['-h'])).toEqual({ kind: 'help' });
    expect(parseCommand(['--version'])).toEqual({ kind: 'version' });
  });
});

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1500, '1.5 kB'],
  [1.9e9, '1.9 GB'],
])('%d bytes are shown as %s', (size, text) => {
  expect(bytes(size)).toBe(text);
});
