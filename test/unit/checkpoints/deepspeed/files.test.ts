import { describe, expect, test } from 'vitest';
import { chooseTag, findTags, parseShardName } from '../../../../src/checkpoints/deepspeed/files.js';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { sourceFailure } from '../../../../src/io/failures.js';
import { memoryTree } from '../../../../src/io/memory.js';
import type { FileTree } from '../../../../src/io/types.js';
import { small } from '../../../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';
import { detailOf, rejectionOf } from '../../../helpers/errors.js';
import { latin1 } from '../../../helpers/zip.js';

/** A folder with an empty model file in each of `tags`, and texts by path. */
function folderOf(tags: readonly string[], texts: Readonly<Record<string, string>> = {}) {
  const shards = tags.map((tag) => [`${tag}/mp_rank_00_model_states.pt`, new Uint8Array()] as const);
  const files = Object.entries(texts).map(([path, text]) => [path, latin1(text)] as const);
  return memoryTree(Object.fromEntries([...shards, ...files]));
}

async function chosen(tags: readonly string[], texts: Readonly<Record<string, string>>, wanted?: string) {
  const { tag, warnings } = chooseTag(await findTags(folderOf(tags, texts)), 'picked', wanted);
  return [tag.path, ...warnings.map(({ code }) => code)];
}

describe('names', () => {
  test.each([
    ['mp_rank_00_model_states.pt', { kind: 'model', mp: 0 }],
    ['zero_pp_rank_12_mp_rank_03_model_states.pt', { kind: 'model', mp: 3, dp: 12 }],
    ['zero_pp_rank_1_mp_rank_00_optim_states.pt', { kind: 'optim', mp: 0, dp: 1, prefix: 'zero_pp_rank_' }],
    ['zero_pp_rank_1_mp_rank_00optim_states.pt', { kind: 'optim', mp: 0, dp: 1, prefix: 'zero_pp_rank_' }],
    ['bf16_zero_pp_rank_9_mp_rank_01_optim_states.pt', { kind: 'optim', mp: 1, dp: 9, prefix: 'bf16_zero_pp_rank_' }],
    ['layer_01-model_00-model_states.pt', { kind: 'layer', layer: 1, tp: 0 }],
    ['layer_07-model_states.pt', { kind: 'layer', layer: 7 }],
    ['layer_01-expert_00-model_01-model_states.pt', { kind: 'layer', layer: 1, axes: '-expert_00-model_01' }],
    ['layer_0_expert_3_mp_rank_00_model_states.pt', { kind: 'expert', mp: 0, expert: 3, moeLayer: 0 }],
    ['expert_3_mp_rank_00_model_states.pt', { kind: 'expert', mp: 0, expert: 3 }],
    ['expp_rank_2_mp_rank_01_optim_states.pt', { kind: 'expert-optim', mp: 1, ep: 2 }],
  ])('%s', (name, parts) => {
    expect(parseShardName(name)).toEqual({ name, ...parts });
  });

  test.each([
    'pytorch_model.bin',
    'mp_rank_00_model_states.pt.tmp',
    'xmp_rank_00_model_states.pt',
    'bf16_zero_pp_rank_0_mp_rank_00_model_states.pt',
    'zero_pp_rank_-1_mp_rank_00_optim_states.pt',
    'zero_pp_rank_x_mp_rank_00_optim_states.pt',
    'latest',
  ])('%s is no part of a checkpoint', (name) => {
    expect(parseShardName(name)).toBeUndefined();
  });
});

describe('the tag that is read', () => {
  test('is the one that "latest" names, also when there are later ones', async () => {
    expect(await chosen(['global_step9', 'global_step10'], { latest: 'global_step9' })).toEqual(['global_step9']);
  });

  test.each(['\n', '\r\n', ' \n'])('whatever follows its name (%j)', async (end) => {
    expect(await chosen(['global_step9', 'a'], { latest: `global_step9${end}` })).toEqual(['global_step9']);
  });

  test('is the only one where there is no "latest"', async () => {
    expect(await chosen(['global_step9'], {})).toEqual(['global_step9']);
  });

  test('is the last in natural order where there are several, and that is told', async () => {
    expect(await chosen(['global_step9', 'global_step10'], {})).toEqual(['global_step10', 'tag-chosen']);
  });

  test('is the one that is wanted, by name or by path', async () => {
    const tags = ['checkpoint-1/global_step1', 'checkpoint-2/global_step2'];
    const texts = { 'checkpoint-2/latest': 'global_step2' };
    expect(await chosen(tags, texts, 'global_step1')).toEqual(['checkpoint-1/global_step1']);
    expect(await chosen(tags, texts, 'checkpoint-1/global_step1')).toEqual(['checkpoint-1/global_step1']);
  });

  test('is found below the outer folder of a run', async () => {
    const tags = ['checkpoint-500/global_step500', 'checkpoint-1000/global_step1000'];
    const texts = { 'checkpoint-500/latest': 'global_step500', 'checkpoint-1000/latest': 'global_step1000' };
    expect(await chosen(tags, texts)).toEqual(['checkpoint-1000/global_step1000', 'tag-chosen']);
    expect((await findTags(folderOf(tags, texts))).tags).toEqual([
      { tag: 'global_step500', path: 'checkpoint-500/global_step500', latest: true },
      { tag: 'global_step1000', path: 'checkpoint-1000/global_step1000', latest: true },
    ]);
  });

  test('is that of the picked folder, whatever lies in the folders in it', async () => {
    const copies = ['old/global_step9', 'global_step3/copy'];
    const texts = { 'old/latest': 'global_step9' };
    expect(await chosen([...copies, 'global_step3'], { ...texts, latest: 'global_step3' })).toEqual(['global_step3']);
    expect(await chosen(copies, texts)).toEqual(['old/global_step9']);
    const files = { ...writeCheckpoint(small(2, { folder: '' })).files, 'copy/mp_rank_00_model_states.pt': latin1('') };
    const { tag, warnings } = await inspect(
      memoryTree({ ...files, 'old/latest': latin1('x'), 'old/x/mp_rank_00_model_states.pt': latin1('') }),
    );
    expect({ path: tag.path, warnings }).toEqual({ path: '', warnings: [] });
  });

  test('is not the older one without a word, where the newer one is not there', async () => {
    const texts = { 'checkpoint-1/latest': 'global_step1', 'checkpoint-2/latest': 'global_step2' };
    expect(await chosen(['checkpoint-1/global_step1'], texts)).toEqual([
      'checkpoint-1/global_step1',
      'latest-missing-tag',
    ]);
  });

  test('may be the picked folder itself', async () => {
    const { tag, tags, layout } = await inspect(memoryTree(writeCheckpoint(small(2, { folder: '' })).files));
    expect({ tag, tags, layout }).toEqual({
      tag: { tag: 'memory', path: '', latest: false },
      tags: [tag],
      layout: 'deepspeed-zero2',
    });
  });

  test('is not looked for more than two folders down', async () => {
    const found = await findTags(folderOf(['a/b/c']));
    expect(detailOf(() => chooseTag(found, 'picked'))).toMatchObject({ code: 'no-checkpoint', kind: 'not-checkpoint' });
    expect((await findTags(folderOf(['a/b']))).tags).toHaveLength(1);
  });
});

describe('a folder in it that may not be read', () => {
  const unreadable = (tree: FileTree, folder: string, code: 'source-not-allowed' | 'source-failed'): FileTree => ({
    ...tree,
    list: (path) => (path === folder ? Promise.reject(sourceFailure(code, path)) : tree.list(path)),
  });
  const tags = ['global_step9', 'lost+found/x'];

  test('is passed over, which is told', async () => {
    const found = await findTags(unreadable(folderOf(tags), 'lost+found', 'source-not-allowed'));
    const { tag, warnings } = chooseTag(found, 'picked');
    expect(tag.path).toBe('global_step9');
    expect(warnings).toEqual([
      { code: 'folder-unreadable', message: 'lost+found may not be read. No checkpoint was looked for in it.' },
    ]);
    expect(chooseTag(found, 'picked', 'global_step9').warnings).toEqual([]);
  });

  test('is named where there is nothing else', async () => {
    const found = await findTags(unreadable(folderOf(['lost+found/x']), 'lost+found', 'source-not-allowed'));
    expect(detailOf(() => chooseTag(found, 'picked'))).toMatchObject({
      code: 'source-not-allowed',
      facts: { file: 'lost+found' },
    });
  });

  test('is not passed over where the disk fails', async () => {
    const tree = unreadable(folderOf(tags), 'lost+found', 'source-failed');
    expect(await rejectionOf(findTags(tree))).toMatchObject({ code: 'source-failed' });
  });

  test('is not passed over where it is the picked one', async () => {
    const tree = unreadable(folderOf(tags), '', 'source-not-allowed');
    expect(await rejectionOf(findTags(tree))).toMatchObject({ code: 'source-not-allowed' });
  });
});

describe('a wish that cannot be fulfilled', () => {
  test('names the tags that there are', async () => {
    const found = await findTags(folderOf(['global_step1', 'global_step2']));
    expect(detailOf(() => chooseTag(found, 'picked', 'global_step3'))).toMatchObject({
      kind: 'usage',
      code: 'tag-not-found',
      facts: { file: 'picked', expected: 'global_step3', found: 'global_step1, global_step2' },
    });
  });

  test('is a name that two tags have', async () => {
    const found = await findTags(folderOf(['a/global_step1', 'b/global_step1']));
    expect(detailOf(() => chooseTag(found, 'picked', 'global_step1'))).toMatchObject({
      kind: 'usage',
      code: 'tag-ambiguous',
      facts: { file: 'picked', expected: 'global_step1', found: 'a/global_step1, b/global_step1' },
    });
    expect(chooseTag(found, 'picked', 'b/global_step1').tag.path).toBe('b/global_step1');
  });
});
