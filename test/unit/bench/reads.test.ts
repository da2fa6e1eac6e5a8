import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { writeCheckpoint } from '../../bench/checkpoint/deepspeed.js';
import { llamaParameters } from '../../bench/checkpoint/shapes.js';
import { joinRanges, transferOf } from '../../bench/reads.js';

const home = mkdtempSync(join(tmpdir(), 'unshard-reads-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

test('ranges that touch or overlap are one, those of other files and behind a gap are not', () => {
  const ranges = [
    { path: 'b', offset: 0, length: 10 },
    { path: 'a', offset: 8, length: 4 },
    { path: 'a', offset: 0, length: 8 },
    { path: 'a', offset: 2, length: 3 },
    { path: 'a', offset: 13, length: 1 },
  ];
  expect(joinRanges(ranges)).toEqual([
    { path: 'a', offset: 0, length: 12 },
    { path: 'a', offset: 13, length: 1 },
    { path: 'b', offset: 0, length: 10 },
  ]);
});

test('a conversion reads the masters, and compares the copies only with its checks on', async () => {
  const parameters = llamaParameters(200_000);
  const elements = parameters.reduce((sum, parameter) => sum + parameter.elements, 0);
  const folder = join(home, 'zero2');
  mkdirSync(folder);
  writeCheckpoint(folder, { stage: 2, parameters });
  const bytes = async (settings: Parameters<typeof transferOf>[1]): Promise<number> => {
    const { reads } = await transferOf(folder, settings);
    for (const { path, offset, length } of reads) {
      expect(offset + length).toBeLessThanOrEqual(statSync(join(folder, path)).size);
    }
    return reads.reduce((sum, { length }) => sum + length, 0);
  };
  expect(await bytes({ dtype: 'fp32', verify: false })).toBe(4 * elements);
  expect(await bytes({ dtype: 'fp32' })).toBe(6 * elements);
  expect(await bytes({ dtype: 'bf16' })).toBe(2 * elements);
  const { files } = await transferOf(folder, { dtype: 'bf16' });
  expect(files.map(({ path }) => path).sort()).toEqual(['config.json', 'model.safetensors']);
});
