import { describe, expect, test } from 'vitest';
import { problemsIn, problemsOf } from '../helpers/deepspeed/check.js';
import { MODEL, small } from '../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../helpers/deepspeed/write.js';

const FOLDER = 'global_step7';
const { files } = writeCheckpoint(small(2));

/** Every file as that of another model-parallel rank. */
function named(rank: string, from: Record<string, Uint8Array> = files): Record<string, Uint8Array> {
  return Object.fromEntries(Object.entries(from).map(([path, bytes]) => [path.replace('mp_rank_00', rank), bytes]));
}

const ofRank1 = named('mp_rank_01');
const MODEL_BYTES = files[MODEL] ?? new Uint8Array();
const DEGREES = new Map([
  ['pp_degree', 2 ** 30],
  ['tp_degree', 2 ** 20],
]);

test('a model that is not cut by more than ZeRO is read', async () => {
  expect(await problemsIn(small(2))).toEqual([]);
});

describe('a part of a model is never taken for the whole', () => {
  test('where the files of one model-parallel rank are there, and not those of the first', async () => {
    expect((await problemsOf(ofRank1))[0]).toEqual({
      code: 'missing-mp-rank',
      facts: { file: FOLDER, expected: 1, found: 0, missing: '0' },
    });
  });

  test('where the model file tells of a rank whose files are not there', async () => {
    expect(await problemsIn(small(2, { editModel: (root) => root.set('mp_world_size', 2) }))).toEqual([
      { code: 'missing-mp-rank', facts: { file: FOLDER, expected: 2, found: 1, missing: '1' } },
    ]);
  });

  test('where there are two ranks, and the model file tells of no tensor parallelism', async () => {
    expect(await problemsOf({ ...files, ...ofRank1 })).toEqual([
      { code: 'stale-mp-ranks', facts: { file: FOLDER, expected: 1, found: '1' } },
    ]);
  });

  test.each<[what: string, files: Record<string, Uint8Array>]>([
    [
      'the name of a file',
      named(
        'mp_rank_999999999999',
        writeCheckpoint(small(2, { editModel: (root) => root.delete('mp_world_size') })).files,
      ),
    ],
    [
      'its degrees',
      writeCheckpoint(small(2, { editModel: (root) => root.set('checkpoint_parallel_dimensions', DEGREES) })).files,
    ],
    ['the name of a layer', { ...files, [`${FOLDER}/layer_01-model_999999999999-model_states.pt`]: MODEL_BYTES }],
  ])('where there are more ranks than can be, by %s', async (_, many) => {
    expect((await problemsOf(many))[0]?.code).toBe('parallel-grid');
  });

  test('where a pipeline keeps its weights in the files of layers, and those are not there', async () => {
    const group = [
      { name: '0.weight', shape: [3, 2] },
      { name: '4.weight', shape: [5] },
    ];
    const withoutState = small(1, { groups: [group], editModel: (root) => root.set('module', null) });
    expect(await problemsIn(withoutState)).toEqual([
      { code: 'missing-layer', facts: { file: FOLDER, expected: 2, found: 0, missing: '0, 4' } },
    ]);
    expect(await problemsIn(small(1, { groups: [group] }))).toEqual([]);
  });
});
