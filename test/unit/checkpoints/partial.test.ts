import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import type { Inventory, StoredBits } from '../../../src/checkpoints/inventory.js';
import { memoryTree } from '../../../src/io/memory.js';
import { MODEL, modelOf, optimOf, small } from '../../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../../helpers/deepspeed/write.js';
import { rejectionOf } from '../../helpers/errors.js';

type Files = Record<string, Uint8Array>;

const WHOLE: Files = { ...writeCheckpoint(small(2)).files };

function without(files: Files, path: string): Files {
  expect(Object.keys(files)).toContain(path);
  return Object.fromEntries(Object.entries(files).filter(([name]) => name !== path));
}

function cut(files: Files, path: string): Files {
  return { ...without(files, path), [path]: (files[path] ?? new Uint8Array()).slice(0, 100) };
}

/** Which bytes of which files hold a tensor. */
function placesOf({ sources }: Inventory, bits: StoredBits | undefined): unknown[] {
  return (bits?.pieces ?? []).map((piece) =>
    'source' in piece ? { ...piece, source: sources[piece.source]?.path } : piece,
  );
}

const read = (files: Files, partial = true) => inspect(memoryTree(files), { partial });

describe('partial recovery', () => {
  test.each([
    ['a missing rank', without(WHOLE, optimOf(1)), /Missing: rank 1\./],
    ['all ranks but one missing', without(without(WHOLE, optimOf(1)), optimOf(0)), /Missing: rank 0, 1\./],
    ['a truncated file', cut(WHOLE, optimOf(1)), /rank_1_mp_rank_00_optim_states\.pt/],
    ['an empty file', { ...WHOLE, [optimOf(2)]: new Uint8Array() }, /rank_2_mp_rank_00_optim_states\.pt/],
    [
      'a file of another run',
      { ...WHOLE, [optimOf(2)]: writeCheckpoint(small(2, { ranks: 4 })).files[optimOf(2)] ?? new Uint8Array() },
      /partition_count/,
    ],
  ])('takes the copies of the model file for %s, and gives the reason', async (_, files, reason) => {
    const whole = await inspect(memoryTree(WHOLE));
    const inventory = await read(files);
    const { problems, tensors, warnings, checks } = inventory;
    expect(problems).toEqual([]);
    const names = (all: typeof tensors) => all.map(({ name, shape }) => ({ name, shape }));
    expect(names(tensors)).toEqual(names(whole.tensors));
    const copies = whole.tensors.map(({ copy }) => placesOf(whole, copy));
    expect(copies.every((places) => places.length > 0)).toBe(true);
    expect(tensors.map(({ stored }) => placesOf(inventory, stored))).toEqual(copies);
    expect(warnings.find(({ code }) => code === 'partial')?.message).toMatch(reason);
    expect(warnings.map(({ code }) => code)).not.toContain('no-masters');
    const check = checks.find(({ id }) => id === 'partial');
    expect(check?.status).toBe('failed');
    expect(check?.detail).toMatch(reason);
  });

  test('changes nothing where it is not asked for', async () => {
    expect((await read(without(WHOLE, optimOf(1)), false)).problems).toMatchObject([{ code: 'missing-optim-rank' }]);
    expect(await rejectionOf(read(cut(WHOLE, optimOf(1)), false))).toMatchObject({ kind: 'bad-file' });
  });

  test('changes nothing for a whole checkpoint', async () => {
    expect(await read(WHOLE)).toEqual(await read(WHOLE, false));
  });

  test('does not help where the model file is missing or damaged', async () => {
    expect((await read(without(WHOLE, MODEL))).problems).toMatchObject([{ code: 'missing-model-rank' }]);
    const broken = await rejectionOf(read(cut(WHOLE, MODEL)));
    expect(broken).toMatchObject({ kind: 'bad-file', facts: { file: MODEL } });
  });

  test('does not help at stage 3, whose model files have no copies', async () => {
    const files: Files = { ...writeCheckpoint(small(3)).files };
    const [problem] = (await read(without(files, optimOf(1)))).problems;
    expect(problem).toMatchObject({ code: 'missing-optim-rank', facts: { missing: '1' } });
    expect(Object.keys(files)).toContain(modelOf(1));
  });
});
