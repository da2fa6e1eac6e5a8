import { describe, expect, test } from 'vitest';
import { parseCommand, parseSize } from '../../src/cli/arguments.js';
import { bytes } from '../../src/cli/print.js';
import { detailOf } from '../helpers/errors.js';

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
    const flags = ['--overwrite', '--no-verify', '--dry-run', '--json', '--quiet'];
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
        duplicateTied: true,
        dtypeFor: [
          { pattern: '*norm*', dtype: 'fp32' },
          { pattern: 'a=b', dtype: 'keep' },
        ],
      },
      overwrite: true,
      verify: false,
      dryRun: true,
      tag: 't',
      json: true,
      quiet: true,
    });
  });

  test.each([
    [[], 'arguments-missing'],
    [['a', 'b', 'c'], 'arguments-many'],
    [['a', '--nope'], 'option-unknown'],
    [['a', 'b', '--dtype'], 'option-unknown'],
    [['a', 'b', '--dtype-for', 'x'], 'dtype-for-bad'],
    [['a', 'b', '--dtype-for', '=fp32'], 'dtype-for-bad'],
    [['a', 'b', '--max-shard-size', 'big'], 'size-bad'],
  ])('refuses %j', (args, code) => {
    expect(detailOf(() => parseCommand(args))).toMatchObject({ kind: 'usage', code });
  });

  test('help and version need nothing else', () => {
    expect(parseCommand(['--help'])).toEqual({ kind: 'help' });
    expect(parseCommand(['-h'])).toEqual({ kind: 'help' });
    expect(parseCommand(['--version'])).toEqual({ kind: 'version' });
  });
});

test.each([
  ['5GB', 5e9],
  ['1.5 GB', 1.5e9],
  ['500mb', 5e8],
  ['20K', 20_000],
  ['123', 123],
  ['2TB', 2e12],
])('the size %s is %d bytes', (text, size) => {
  expect(parseSize(text)).toBe(size);
});

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1500, '1.5 kB'],
  [1.9e9, '1.9 GB'],
])('%d bytes are shown as %s', (size, text) => {
  expect(bytes(size)).toBe(text);
});
