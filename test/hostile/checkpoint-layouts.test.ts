import { describe, expect, test } from 'vitest';
import { inspect } from '../../src/checkpoints/inspect.js';
import { memoryTree } from '../../src/io/memory.js';
import { problemsIn } from '../helpers/deepspeed/check.js';
import { MODEL, small } from '../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../helpers/deepspeed/write.js';
import { rejectionOf } from '../helpers/errors.js';

const FOLDER = 'global_step7';
const { files } = writeCheckpoint(small(2));
const model = files[MODEL] ?? new Uint8Array();

/** Every file as that of model-parallel rank 1. */
const ofRank1 = Object.fromEntries(
  Object.entries(files).map(([path, bytes]) => [path.replace('mp_rank_00', 'mp_rank_01'), bytes]),
);

test('a model that is not cut is read', async () => {
  expect(await problemsIn(small(2))).toEqual([]);
});

describe('a model that is cut by more than ZeRO is never taken for a whole one', () => {
  test.each<[what: string, files: Record<string, Uint8Array>, code: string]>([
    ['two tensor-parallel ranks', { ...files, ...ofRank1 }, 'layout-tensor-parallel'],
    ['one of them, which is not the first', ofRank1, 'layout-tensor-parallel'],
    ['layers of a pipeline', { ...files, [`${FOLDER}/layer_01-model_00-model_states.pt`]: model }, 'layout-pipeline'],
    ['experts', { ...files, [`${FOLDER}/layer_0_expert_3_mp_rank_00_model_states.pt`]: model }, 'layout-moe'],
    [
      'experts of an older version',
      { ...files, [`${FOLDER}/expert_3_mp_rank_00_model_states.pt`]: model },
      'layout-moe',
    ],
    ['optimizers of experts', { ...files, [`${FOLDER}/expp_rank_0_mp_rank_00_optim_states.pt`]: model }, 'layout-moe'],
  ])('%s', async (_, cut, code) => {
    expect(await rejectionOf(inspect(memoryTree(cut)))).toMatchObject({
      kind: 'unsupported',
      code,
      facts: { file: FOLDER },
    });
  });

  test.each([
    ['mp_world_size', 2, 'layout-tensor-parallel'],
    ['module', null, 'layout-pipeline'],
  ] as const)('where only the model file tells: %s', async (field, value, code) => {
    const spec = small(2, { editModel: (root) => root.set(field, value) });
    expect(await rejectionOf(inspect(memoryTree(writeCheckpoint(spec).files)))).toMatchObject({
      kind: 'unsupported',
      code,
      facts: { file: FOLDER },
    });
  });
});
