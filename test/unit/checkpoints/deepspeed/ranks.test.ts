import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../../src/io/memory.js';
import { without } from '../../../helpers/deepspeed/check.js';
import { expectedOf, toSafetensors } from '../../../helpers/deepspeed/convert.js';
import { MODEL, modelOf, optimOf, small } from '../../../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';

const codesOf = (notices: readonly { code: string }[]) => notices.map(({ code }) => code);

describe('stage 3 needs one model file', () => {
  test('where nothing is frozen, that of rank 0 is enough', async () => {
    const written = writeCheckpoint(small(3));
    const files = without(written.files, modelOf(1), modelOf(2));
    const inventory = await inspect(memoryTree(files));
    expect({ problems: inventory.problems, warnings: codesOf(inventory.warnings) }).toEqual({
      problems: [],
      warnings: ['model-files-missing'],
    });
    expect(await toSafetensors(files)).toEqual(expectedOf(written, 'F32'));
  });

  test('without that of rank 0 tied names are not known, and that is told', async () => {
    const written = writeCheckpoint(small(3, { tied: [['lm_head.weight', 'embed.weight']] }));
    const files = without(written.files, modelOf(0));
    const { problems, warnings, aliases, skipped } = await inspect(memoryTree(files));
    expect({ problems, aliases }).toEqual({ problems: [], aliases: {} });
    expect(codesOf(warnings)).toEqual(['rank-0-model-missing', 'hollow-parameters']);
    expect(skipped.map(({ name }) => name)).toEqual(['lm_head.weight']);
    expect((await toSafetensors(files)).tensors).toEqual(expectedOf(written, 'F32').tensors);
  });

  test('with all of them there is nothing to tell', async () => {
    const files = writeCheckpoint(small(3, { tied: [['lm_head.weight', 'embed.weight']] })).files;
    const { warnings, skipped, aliases } = await inspect(memoryTree(files));
    expect({ warnings, skipped }).toEqual({ warnings: [], skipped: [] });
    expect(aliases).toEqual({ 'lm_head.weight': 'embed.weight' });
  });
});

describe('files of other runs', () => {
  test('a set of another prefix that is not whole is passed over, and that is told', async () => {
    const written = writeCheckpoint(small(2));
    const other = writeCheckpoint(small(2, { modelDtype: 'F16' }));
    const stray = 'global_step7/zero_pp_rank_1_mp_rank_00_optim_states.pt';
    const files = { ...written.files, [stray]: other.files[stray] ?? new Uint8Array() };
    const { problems, warnings } = await inspect(memoryTree(files));
    expect({ problems, codes: codesOf(warnings) }).toEqual({ problems: [], codes: ['other-optim-set'] });
    expect(await toSafetensors(files)).toEqual(expectedOf(written, 'F32'));
  });

  test('model files of another stage or of more ranks are passed over, and that is told', async () => {
    const written = writeCheckpoint(small(3));
    const larger = writeCheckpoint(small(3, { ranks: 5 })).files;
    const files = {
      ...written.files,
      [modelOf(4)]: larger[modelOf(4)] ?? new Uint8Array(),
      [MODEL]: writeCheckpoint(small(2)).files[MODEL] ?? new Uint8Array(),
    };
    const { problems, warnings } = await inspect(memoryTree(files));
    expect({ problems, codes: codesOf(warnings) }).toEqual({ problems: [], codes: ['other-model-files'] });
    expect(await toSafetensors(files)).toEqual(expectedOf(written, 'F32'));
  });
});

test('stage 1 and 2 give the weights of the model file where no optimizer file is left, and that is told', async () => {
  const written = writeCheckpoint(small(2));
  const files = without(written.files, optimOf(0), optimOf(1), optimOf(2));
  const { problems, warnings, tensors, layout } = await inspect(memoryTree(files));
  expect({ problems, layout, codes: codesOf(warnings) }).toEqual({
    problems: [],
    layout: 'deepspeed-zero2',
    codes: ['no-masters'],
  });
  expect(new Set(tensors.map(({ origin }) => origin))).toEqual(new Set(['copy']));
  expect(await toSafetensors(files, { dtype: 'bf16' })).toEqual(expectedOf(written, 'BF16'));
});
