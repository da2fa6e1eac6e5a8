import { describe, expect, test } from 'vitest';
import { plan } from '../../src/plan/make.js';
import { parsePlan } from '../../src/plan/parse.js';
import { detailOf } from '../helpers/errors.js';
import { inventoryOf, masterOf } from '../helpers/inventory.js';
import { linear, loraInventory } from '../helpers/lora.js';

/** Steps to a value in JSON, and what is put there. */
type Edit = readonly [path: readonly (string | number)[], value: unknown];

/** A plan as JSON with some values replaced; `undefined` takes one out. */
function edited(made: unknown, ...edits: readonly Edit[]): unknown {
  const copy: unknown = JSON.parse(JSON.stringify(made));
  for (const [path, value] of edits) {
    let at = copy as Record<string | number, unknown>;
    for (const step of path.slice(0, -1)) at = at[step] as typeof at;
    const last = path.at(-1) ?? '';
    if (value === undefined) delete at[last];
    else at[last] = value;
  }
  return copy;
}

const model = plan(
  inventoryOf([masterOf('a', 4, 0, true), masterOf('b', 2, 100)], {
    crcs: [{ source: 0, offset: 0, length: 1000, crc32: 1 }],
    companions: [{ source: 1, name: 'tokenizer.json' }],
  }),
  { maxShardSize: 2000 },
);
const bin = plan(inventoryOf([masterOf('a', 4, 0), masterOf('b', 2, 100)]), { format: 'bin' });
const BIN_LENGTH = bin.files[0]?.byteLength ?? 0;
const merged = plan(loraInventory(linear('base_model.model.q')), { output: 'merged' });

test('the plans of these tests are accepted as they are', () => {
  for (const made of [model, bin, merged]) expect(parsePlan(edited(made))).toEqual(made);
  expect(model.files.map(({ path }) => path)).toEqual(['model.safetensors', 'tokenizer.json']);
});

describe('a plan that would lead out of its folders is refused', () => {
  test.each(['..', '.', '../x', '/etc/passwd', 'a/b', 'a\\b', '', '\0', '.unshard'])('output %j', (path) => {
    const detail = detailOf(() => parsePlan(edited(model, [['files', 0, 'path'], path])));
    expect(detail).toMatchObject({ kind: 'usage', code: 'plan-invalid', facts: { found: path } });
  });

  test.each(['..', '../x', '/etc/passwd', 'a/../b', 'a\\b', 'a//b', '\0', ''])('source %j', (path) => {
    const detail = detailOf(() => parsePlan(edited(model, [['sources', 0, 'path'], path])));
    expect(detail).toMatchObject({ kind: 'usage', code: 'plan-invalid', facts: { found: path } });
  });
});

describe('a plan that is not what a plan is', () => {
  const part = ['files', 0, 'parts', 0] as const;
  const piece = ['tensors', 0, 'pieces', 0] as const;

  test.each<[string, unknown, readonly Edit[]]>([
    ['is no object', [], []],
    ['is of another version', model, [[['version'], 2]]],
    ['has no tensors', model, [[['tensors'], undefined]]],
    ['has a field that is not known', model, [[['tensors', 0, 'run'], 'rm']]],
    ['has an unknown dtype', model, [[['tensors', 0, 'from'], 'F4']]],
    ['has a dtype that cannot be rounded to', model, [[['tensors', 0, 'to'], 'I32']]],
    ['has a proof of another kind', model, [[['tensors', 0, 'proofs', 0, 'dtype'], 'I16']]],
    ['has an unknown origin', model, [[['tensors', 0, 'origin'], 'elsewhere']]],
    ['has a shape with half a row', model, [[['tensors', 0, 'shape', 0], 3.5]]],
    [
      'has a shape that numbers cannot hold',
      model,
      [
        [
          ['tensors', 0, 'shape'],
          [2 ** 40, 2 ** 40],
        ],
      ],
    ],
    ['reads beyond its source', model, [[[...piece, 'offset'], 990]]],
    ['reads before its source', model, [[[...piece, 'offset'], -4]]],
    ['reads from a source that is not there', model, [[[...piece, 'source'], 7]]],
    ['reads half an element', model, [[[...piece, 'length'], 15]]],
    ['repeats a run without end', model, [[[...piece, 'repeat'], [{ count: 2 ** 50, from: 0, to: 0 }]]]],
    [
      'repeats a run on the same place',
      model,
      [
        [[...piece, 'length'], 4],
        [[...piece, 'repeat'], [{ count: 4, from: 0, to: 0 }]],
      ],
    ],
    ['cuts over ranks that are not there', model, [[[...piece], { over: 5, offset: 0, share: 8, length: 16, at: 0 }]]],
    ['cuts into shares of nothing', model, [[[...piece], { over: 0, offset: 0, share: 0, length: 16, at: 0 }]]],
    ['has a CRC-32 beyond its source', model, [[['crcs', 0, 'length'], 1001]]],
    ['has a CRC-32 of no source', model, [[['crcs', 0, 'source'], 2]]],
    ['has a literal that is too short', model, [[[...part, 'base64'], 'AAAA']]],
    ['has a literal that is no base64', model, [[[...part, 'base64'], '!'.repeat(200)]]],
    ['has a part of a tensor that is not there', model, [[['files', 0, 'parts', 1, 'tensor'], 2]]],
    ['has a gap between its parts', model, [[['files', 0, 'parts', 1, 'at'], 1000]]],
    ['has a file longer than its parts', model, [[['files', 0, 'byteLength'], 2 ** 50]]],
    [
      'has a copy beyond its source',
      model,
      [
        [['files', 1, 'parts', 0, 'length'], 1001],
        [['files', 1, 'byteLength'], 1001],
      ],
    ],
    ['writes one file twice', model, [[['files', 1, 'path'], 'model.safetensors']]],
    ['has an index that is first or last', model, [[['files', 1, 'afterOthers'], false]]],
    ['counts other bytes', model, [[['totals', 'outputBytes'], 1]]],
    ['has a record of nothing', bin, [[['files', 0, 'zip', 'records', 1, 'at'], 1]]],
    ['has records in another order', bin, [[['files', 0, 'zip', 'records', 0, 'at'], 2 ** 40]]],
    ['has records of other lengths', bin, [[['files', 0, 'zip', 'records', 0, 'length'], 2 ** 40]]],
    ['has a record without a name', bin, [[['files', 0, 'zip', 'records', 0, 'name'], '']]],
    ['has a record of a long name', bin, [[['files', 0, 'zip', 'records', 0, 'name'], 'x'.repeat(70_000)]]],
    ['has no room for its end', bin, [[['files', 0, 'byteLength'], BIN_LENGTH - 1]]],
    ['computes in an unknown way', merged, [[['tensors', 0, 'compute', 'kind'], 'eval']]],
    ['merges an adapter of a huge rank', merged, [[['tensors', 0, 'compute', 'rank'], 2 ** 40]]],
  ])('%s', (_, made, edits) => {
    expect(detailOf(() => parsePlan(edited(made, ...edits)))).toMatchObject({ kind: 'usage', code: 'plan-invalid' });
  });

  test('the error names the place', () => {
    const { facts } = detailOf(() => parsePlan(edited(model, [[...piece, 'offset'], 'zero'])));
    expect(facts).toEqual({
      what: 'plan.tensors[0].pieces[0].offset',
      expected: 'a whole number from 0',
      found: '"zero"',
    });
  });
});
