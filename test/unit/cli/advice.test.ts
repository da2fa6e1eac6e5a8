import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import { errorText } from '../../../src/cli/advice.js';
import { OPTIONS } from '../../../src/cli/arguments.js';
import { memoryTree } from '../../../src/io/memory.js';
import { plan } from '../../../src/plan/make.js';
import { resolveOptions } from '../../../src/plan/options.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { inspectSpec, without } from '../../helpers/deepspeed/check.js';
import { optimOf, small } from '../../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../../helpers/deepspeed/write.js';
import { detailOf } from '../../helpers/errors.js';

describe('an error on the command line', () => {
  test.each([
    [{ maxShardSize: 5 }, '--max-shard-size must be a whole number of bytes from 1000; it is 5. Change the option.'],
    [{ dtype: 'fp8' }, '--dtype must be one of fp32, fp16, bf16, keep; it is fp8. Change the option.'],
    [
      { output: 'merged', lora: { alpha: 1, r: 0 } },
      '--lora-r must be a whole number from 1; it is 0. Change the option.',
    ],
    [
      { adapterName: 'x' },
      '--adapter-name must be absent where no adapter is written or merged; it is x. Change the option.',
    ],
  ])('names the option %j as it is written there', (options, text) => {
    expect(errorText(detailOf(() => resolveOptions(options as PlanOptions)))).toBe(text);
    expect(Object.keys(OPTIONS)).toContain(/^--([a-z0-9-]+)/.exec(text)?.[1]);
  });

  test('names the options that do what the advice says', async () => {
    const { files } = writeCheckpoint(small(2));
    const inventory = await inspect(memoryTree(without(files, optimOf(1))));
    const text = errorText(detailOf(() => plan(inventory)));
    expect(text).toMatch(/ask for a partial recovery\. --also FOLDER adds .* --partial does without them\.$/);
  });

  test('says no more than the library where there is no such option', async () => {
    const inventory = await inspectSpec(small(2));
    const detail = detailOf(() => plan(inventory, { stripPrefix: 'module.' }));
    expect(errorText(detail)).toBe(`${detail.message} ${detail.advice}`);
  });
});
