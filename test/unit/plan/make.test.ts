import { describe, expect, test } from 'vitest';
import { fromBase64 } from '../../../src/base/base64.js';
import type { TensorEntry } from '../../../src/checkpoints/inventory.js';
import { checkPlan } from '../../../src/plan/check.js';
import { plan } from '../../../src/plan/make.js';
import type { Plan, PlanOptions } from '../../../src/plan/plan.js';
import { detailOf } from '../../helpers/errors.js';
import { inventoryOf, masterOf } from '../../helpers/inventory.js';

/** The JSON header of the planned safetensors file `path`. */
function headerOf(made: Plan, path: string): Record<string, unknown> {
  const first = made.files.find((file) => file.path === path)?.parts[0];
  if (first?.kind !== 'literal') throw new Error('the file does not start with a literal');
  return JSON.parse(new TextDecoder().decode(fromBase64(first.base64).subarray(8))) as Record<string, unknown>;
}

const ids: TensorEntry = {
  name: 'ids',
  shape: [2],
  origin: 'buffer',
  stored: { dtype: 'I64', pieces: [{ source: 0, offset: 500, length: 16, at: 0 }] },
};

describe('source of bits', () => {
  test('is the master, where the output dtype is not the one of the copy', () => {
    const [tensor] = plan(inventoryOf([masterOf('w', 4, 0, true)]), { dtype: 'fp16' }).tensors;
    expect(tensor).toMatchObject({ from: 'F32', to: 'F16', fromCopy: false, pieces: [{ source: 0 }] });
  });

  test('is the copy, where the output dtype is just that', () => {
    const [tensor] = plan(inventoryOf([masterOf('w', 4, 0, true)]), { dtype: 'bf16' }).tensors;
    expect(tensor).toMatchObject({ from: 'BF16', to: 'BF16', fromCopy: true, pieces: [{ source: 1 }] });
  });

  test('is the master with "keep", at its own dtype', () => {
    const [tensor] = plan(inventoryOf([masterOf('w', 4, 0, true)]), { dtype: 'keep' }).tensors;
    expect(tensor).toMatchObject({ from: 'F32', to: 'F32', fromCopy: false });
  });

  test('integers stay integers whatever the precision', () => {
    const made = plan(inventoryOf([ids]), { dtype: 'bf16' });
    expect(made.tensors[0]).toMatchObject({ from: 'I64', to: 'I64' });
  });

  test('a pattern decides for the tensors that it names', () => {
    const made = plan(inventoryOf([masterOf('norm', 4, 0, true), masterOf('fc', 4, 100, true)]), {
      dtype: 'bf16',
      dtypeFor: [{ pattern: 'norm', dtype: 'fp32' }],
    });
    expect(made.tensors.map(({ name, to }) => [name, to])).toEqual([
      ['norm', 'F32'],
      ['fc', 'BF16'],
    ]);
  });
});

describe('safetensors', () => {
  test('the header has the tensors by dtype and name, and the parts follow it', () => {
    const made = plan(inventoryOf([masterOf('b', 3, 0), ids, masterOf('a', 1, 100)]));
    expect(headerOf(made, 'model.safetensors')).toEqual({
      __metadata__: { format: 'pt' },
      ids: { dtype: 'I64', shape: [2], data_offsets: [0, 16] },
      a: { dtype: 'F32', shape: [1], data_offsets: [16, 20] },
      b: { dtype: 'F32', shape: [3], data_offsets: [20, 32] },
    });
    const parts = made.files[0]?.parts ?? [];
    const start = parts[0]?.length ?? 0;
    expect(parts.slice(1)).toEqual([
      { kind: 'tensor', at: start, length: 16, tensor: 1 },
      { kind: 'tensor', at: start + 16, length: 4, tensor: 2 },
      { kind: 'tensor', at: start + 20, length: 12, tensor: 0 },
    ]);
    expect(made.files[0]?.byteLength).toBe(start + 32);
  });

  test('a tied name is recorded in the metadata and written once', () => {
    const made = plan(inventoryOf([masterOf('owner', 4, 0)], { aliases: { alias: 'owner' } }));
    expect(headerOf(made, 'model.safetensors')).toMatchObject({ __metadata__: { format: 'pt', alias: 'owner' } });
    expect(made.tensors).toHaveLength(1);
    expect(made.aliases).toEqual({ alias: 'owner' });
  });

  test('a tied name is told of where config.json says that it is not tied', () => {
    const tensors = [masterOf('model.embed_tokens.weight', 4, 0)];
    const aliases = { 'lm_head.weight': 'model.embed_tokens.weight' };
    const codes = (text: string, options: PlanOptions = {}) => {
      const companions = [{ source: 1, name: 'config.json', text }];
      return plan(inventoryOf(tensors, { aliases, companions }), options).warnings.map(({ code }) => code);
    };
    const [untied, tied] = ['{"tie_word_embeddings": false}', '{"tie_word_embeddings": true}'];
    expect(codes(untied)).toEqual(['tied-by-no-config']);
    for (const text of [tied, '{}', 'no JSON']) expect(codes(text)).toEqual([]);
    expect(codes(untied, { duplicateTied: true })).toEqual([]);
    expect(codes(untied, { format: 'bin' })).toEqual([]);
  });

  test.each([
    ['a rule for a tied name', [['alias', 'bf16']], 'BF16'],
    [
      'the first of several rules, whichever name it is for',
      [
        ['alias', 'fp16'],
        ['own*', 'bf16'],
      ],
      'F16',
    ],
    [
      'a rule for its own name',
      [
        ['own*', 'bf16'],
        ['alias', 'fp16'],
      ],
      'BF16',
    ],
    ['no rule for another', [['a', 'bf16']], 'F32'],
  ] as const)('a tied weight has one precision under all its names: %s', (_, rules, dtype) => {
    const inventory = inventoryOf([masterOf('owner', 4, 0)], { aliases: { alias: 'owner' } });
    const dtypeFor = rules.map(([pattern, dtype]) => ({ pattern, dtype }));
    for (const options of [{}, { duplicateTied: true }, { format: 'bin' }] as const) {
      const { tensors } = plan(inventory, { ...options, dtypeFor });
      expect(new Set(tensors.map(({ to }) => to))).toEqual(new Set([dtype]));
    }
  });

  test('a tied name is written as a copy where asked', () => {
    const made = plan(inventoryOf([masterOf('owner', 4, 0)], { aliases: { alias: 'owner' } }), { duplicateTied: true });
    expect(Object.keys(headerOf(made, 'model.safetensors'))).toEqual(['__metadata__', 'alias', 'owner']);
    expect(made.aliases).toEqual({});
  });

  test('a tied name that is called "format" does not hide the format', () => {
    const made = plan(inventoryOf([masterOf('owner', 4, 0)], { aliases: { format: 'owner' } }));
    expect(headerOf(made, 'model.safetensors')).toMatchObject({ __metadata__: { format: 'pt' } });
  });

  test('shards come with an index, which is last and waits for them', () => {
    const big = { sources: [{ path: 'rank0.pt', size: 1e6, modified: 1 }] };
    const made = plan(inventoryOf([masterOf('a', 300, 0), masterOf('b', 300, 1200)], big), { maxShardSize: 1200 });
    expect(made.files.map(({ path, afterOthers }) => [path, afterOthers ?? false])).toEqual([
      ['model-00001-of-00002.safetensors', false],
      ['model-00002-of-00002.safetensors', false],
      ['model.safetensors.index.json', true],
    ]);
  });

  test.each(['__metadata__', '', '\ud800'])('refuses the name %j', (name) => {
    expect(detailOf(() => plan(inventoryOf([masterOf(name, 4, 0)])))).toMatchObject({ code: 'name-bad' });
  });
});

describe('bin', () => {
  test('tied names share one storage, and every byte but the CRCs is planned', () => {
    const inventory = inventoryOf([masterOf('owner', 4, 0)], { aliases: { alias: 'owner' } });
    const [file] = plan(inventory, { format: 'bin' }).files;
    expect(file?.path).toBe('pytorch_model.bin');
    expect(file?.parts.filter((part) => part.kind === 'tensor')).toHaveLength(1);
    expect(file?.zip?.records.map(({ name }) => name)).toEqual([
      'pytorch_model/data.pkl',
      'pytorch_model/.format_version',
      'pytorch_model/.storage_alignment',
      'pytorch_model/byteorder',
      'pytorch_model/data/0',
      'pytorch_model/version',
    ]);
  });
});

describe('what is left out', () => {
  const frozen: TensorEntry = { ...masterOf('base', 4, 0), origin: 'frozen' };

  test('frozen parameters and the names tied to them, with the reason', () => {
    const made = plan(inventoryOf([frozen, masterOf('lora', 4, 100)], { aliases: { head: 'base' } }), {
      excludeFrozen: true,
    });
    expect(made.tensors.map(({ name }) => name)).toEqual(['lora']);
    expect(made.skipped).toEqual([
      { name: 'base', reason: 'frozen parameter, left out as asked' },
      { name: 'head', reason: 'frozen parameter, left out as asked' },
    ]);
  });

  test('is an error where nothing is left', () => {
    const detail = detailOf(() => plan(inventoryOf([frozen]), { excludeFrozen: true }));
    expect(detail).toMatchObject({ kind: 'usage', code: 'nothing-to-write', facts: { found: 1 } });
  });
});

test('an inventory with problems is refused with the first of them', () => {
  const problem = {
    kind: 'missing-shard',
    code: 'missing-optim-rank',
    message: 'gone.',
    advice: '',
    facts: {},
  } as const;
  const detail = detailOf(() => plan(inventoryOf([masterOf('w', 4, 0)], { problems: [problem] })));
  expect(detail).toEqual(problem);
});

test('only the recorded CRCs of what is read are kept', () => {
  const crcs = [
    { source: 0, offset: 0, length: 16, crc32: 1 },
    { source: 0, offset: 64, length: 16, crc32: 2 },
    { source: 1, offset: 200, length: 50, crc32: 3 },
    { source: 1, offset: 300, length: 50, crc32: 4 },
  ];
  const cut: TensorEntry = {
    name: 'cut',
    shape: [4],
    origin: 'master',
    stored: { dtype: 'F32', pieces: [{ over: 0, offset: 0, share: 8, length: 16, at: 0 }] },
  };
  const made = plan(inventoryOf([masterOf('w', 4, 0), cut], { crcs }));
  expect(made.crcs.map((crc) => crc.crc32)).toEqual([1, 3]);
});

describe('companions', () => {
  const sources = [
    { path: 'rank0.pt', size: 1000, modified: 1 },
    { path: 'config.json', size: 20, modified: 1 },
    { path: 'tokenizer.json', size: 30, modified: 1 },
  ];
  const companions = [
    { source: 1, name: 'config.json', text: '{"dtype": "float32"}' },
    { source: 2, name: 'tokenizer.json' },
  ];

  test('config.json is rewritten for the precision, the others are copied', () => {
    const made = plan(inventoryOf([masterOf('w', 4, 0)], { sources, companions }), { dtype: 'bf16' });
    const [, config, tokenizer] = made.files;
    expect(config?.parts).toMatchObject([{ kind: 'literal', base64: btoa('{"dtype": "bfloat16"}') }]);
    expect(tokenizer).toEqual({
      path: 'tokenizer.json',
      byteLength: 30,
      parts: [{ kind: 'copy', at: 0, length: 30, source: 2 }],
    });
  });

  test('config.json is copied where it says the right dtype', () => {
    const made = plan(inventoryOf([masterOf('w', 4, 0)], { sources, companions }), { dtype: 'fp32' });
    expect(made.files[1]?.parts).toEqual([{ kind: 'copy', at: 0, length: 20, source: 1 }]);
  });
});

describe('checkPlan', () => {
  const good = plan(inventoryOf([masterOf('w', 4, 0)]));

  test('accepts a plan, also after a trip through JSON', () => {
    expect(() => checkPlan(JSON.parse(JSON.stringify(good)) as Plan)).not.toThrow();
  });

  test.each<[string, (plan: Plan) => object]>([
    ['another version', () => ({ version: 2 })],
    ['a file name that leads out of the folder', () => ({ files: [{ ...good.files[0], path: '../x' }] })],
    ['a file name with a backslash', () => ({ files: [{ ...good.files[0], path: 'a\\b' }] })],
    ['a length that the parts do not fill', () => ({ files: [{ ...good.files[0], byteLength: 5 }] })],
    [
      'parts that overlap',
      () => ({ files: [{ ...good.files[0], parts: [...(good.files[0]?.parts ?? []), good.files[0]?.parts[1]] }] }),
    ],
    ['a source that is too short', () => ({ sources: [{ path: 'a', size: 15, modified: 1 }] })],
    ['a source that is not there', () => ({ sources: [] })],
    ['pieces that do not fill the tensor', () => ({ tensors: [{ ...good.tensors[0], shape: [5] }] })],
    [
      'a piece of half an element',
      () => ({
        tensors: [
          {
            ...good.tensors[0],
            pieces: [
              { source: 0, offset: 0, length: 14, at: 0 },
              { source: 0, offset: 0, length: 2, at: 14 },
            ],
          },
        ],
      }),
    ],
    [
      'a negative offset',
      () => ({ tensors: [{ ...good.tensors[0], pieces: [{ source: 0, offset: -4, length: 16, at: 0 }] }] }),
    ],
  ])('refuses %s', (_, change) => {
    expect(detailOf(() => checkPlan({ ...good, ...change(good) } as Plan))).toMatchObject({ code: 'plan-invalid' });
  });
});
