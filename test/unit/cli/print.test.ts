import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import { inventoryText, planText, reportText } from '../../../src/cli/print.js';
import { printable } from '../../../src/cli/printable.js';
import { run } from '../../../src/engine/run.js';
import { memoryOutput, memoryTree } from '../../../src/io/memory.js';
import { plan } from '../../../src/plan/make.js';
import { small } from '../../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../../helpers/deepspeed/write.js';

/** A name that clears the screen, goes on in another line, and turns the direction of text. */
const NAME = 'w\u001b[2J\r\nDone.\u009b\u202eweight';
const SHOWN = 'w\\u001b[2J\\u000d\\u000aDone.\\u009b\\u202eweight';

describe('names that a terminal would obey', () => {
  test.each([
    ['plain name_é_日本_😀', 'plain name_é_日本_😀'],
    [NAME, SHOWN],
    ['\u0000\u007f\u2028\u2029\u2066', '\\u0000\\u007f\\u2028\\u2029\\u2066'],
    ['\\u001b', '\\u001b'],
  ])('%j is shown as %j', (line, shown) => {
    expect(printable(line)).toBe(shown);
  });

  test('are shown in the texts of an inventory, a plan and a report, and never written raw', async () => {
    const { files } = writeCheckpoint(
      small(2, {
        groups: [
          [
            { name: NAME, shape: [5] },
            { name: 'v', shape: [4] },
          ],
        ],
      }),
    );
    const input = memoryTree(files);
    const inventory = await inspect(input);
    const made = plan(inventory, { overflow: 'inf', exclude: ['w*'] });
    const report = await run(made, { input, output: memoryOutput() });
    for (const text of [inventoryText(inventory), planText(made), reportText(report, 'out')]) {
      expect(text).toContain(SHOWN);
      expect(text).not.toMatch(/[^\P{Cc}\n]|\p{Bidi_Control}/u);
    }
  });
});

test.each([
  [0.0264, '26 ms'],
  [0.0996, '0.1 s'],
  [12.34, '12.3 s'],
])('a run of %d seconds took %s', async (seconds, took) => {
  const input = memoryTree(writeCheckpoint(small(2)).files);
  const report = await run(plan(await inspect(input)), { input, output: memoryOutput() });
  expect(reportText({ ...report, seconds }, 'out')).toContain(` to out in ${took} (`);
});
