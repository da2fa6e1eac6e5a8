import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import type { Inventory } from '../../../src/checkpoints/inventory.js';
import type { InspectOptions } from '../../../src/checkpoints/options.js';
import { consolidateWeights } from '../../../src/engine/consolidate.js';
import { run } from '../../../src/engine/run.js';
import { verify } from '../../../src/engine/verify.js';
import { memoryOutput, memoryTree } from '../../../src/io/memory.js';
import { plan } from '../../../src/plan/make.js';
import { without } from '../../helpers/deepspeed/check.js';
import { expectedOf, toSafetensors } from '../../helpers/deepspeed/convert.js';
import {
  frozenHeldBy,
  heldBy,
  heldByAny,
  modelPath,
  optimPath,
  withCopies,
  withoutTensors,
} from '../../helpers/deepspeed/lost.js';
import { bufferOf } from '../../helpers/deepspeed/random-spec.js';
import { MODEL, optimOf, small } from '../../helpers/deepspeed/small.js';
import type { CheckpointSpec, Param } from '../../helpers/deepspeed/spec.js';
import { writeCheckpoint } from '../../helpers/deepspeed/write.js';
import { rejectionOf } from '../../helpers/errors.js';
import { sha256 } from '../../helpers/safetensors.js';

type Files = Record<string, Uint8Array>;

const PARTIAL: InspectOptions = { partial: true };

const read = (files: Files, options: InspectOptions = PARTIAL) => inspect(memoryTree(files), options);

/** Twelve small tensors in two groups: most lie wholly in one rank, some across two or more. */
const GROUPS: readonly (readonly Param[])[] = [
  [3, 5, 2, 7, 1, 11].map((size, i) => ({ name: `layers.${i}.weight`, shape: [size] })),
  [4, 1, 6, 9, 2, 3].map((size, i) => ({ name: `layers.${i}.bias`, shape: [size] })),
];

function spread(stage: CheckpointSpec['stage'], more: Partial<CheckpointSpec> = {}): CheckpointSpec {
  return small(stage, { ranks: 4, groups: GROUPS, buffers: [bufferOf('steps', 'I64', [3], 5)], ...more });
}

/** Ways in which a file can be lost. */
const DAMAGES: readonly (readonly [
  string,
  (files: Files, path: string) => { files: Files; options: InspectOptions },
])[] = [
  ['missing', (files, path) => ({ files: without(files, path), options: PARTIAL })],
  [
    'truncated',
    (files, path) => ({ files: { ...files, [path]: bytesOf(files, path).slice(0, -40) }, options: PARTIAL }),
  ],
  ['empty', (files, path) => ({ files: { ...files, [path]: new Uint8Array() }, options: PARTIAL })],
  ['garbage', (files, path) => ({ files: { ...files, [path]: new Uint8Array(4096).fill(0x5a) }, options: PARTIAL })],
  [
    'damaged inside its pickle',
    (files, path) => ({ files: { ...files, [path]: renamed(files, path) }, options: PARTIAL }),
  ],
  ['named as lost', (files, path) => ({ files, options: { lost: [path] } })],
];

function bytesOf(files: Files, path: string): Uint8Array {
  const bytes = files[path];
  if (!bytes) throw new Error(`${path} was not written`);
  return bytes;
}

/** The file with its first entries under other names: the checksum of its pickle no longer fits. */
function renamed(files: Files, path: string): Uint8Array {
  const text = Buffer.from(bytesOf(files, path)).toString('latin1');
  const changed = text.replaceAll('optimizer_state_dict', 'optimizer_state_tict').replaceAll('module', 'modvle');
  return Uint8Array.from(Buffer.from(changed, 'latin1'));
}

const codesOf = ({ warnings }: Inventory) => warnings.map(({ code }) => code);

describe.each([
  ['ZeRO-1', spread(1)],
  ['ZeRO-2', spread(2)],
  ['ZeRO-2 with round robin', spread(2, { roundRobin: true })],
  ['ZeRO-2 before 0.16.4, which strips the last rank alone', spread(2, { version: '0.12.0' })],
  ['ZeRO-2 of 0.6.5, which leaves padding', spread(2, { version: '0.6.5' })],
  ['ZeRO-1 of 0.5.10, with shapes in the optimizer files', spread(1, { version: '0.5.10' })],
  ['BF16_Optimizer, which keeps padding', spread(1, { bf16Optimizer: true })],
  ['legacy files', spread(2, { container: 'legacy' })],
])('%s without one optimizer file', (_, spec) => {
  const written = writeCheckpoint(spec);

  test.each([0, 1, 2, 3])(
    'of rank %i: what touches it is the copy, all else the master, in every precision',
    async (rank) => {
      const lost = heldBy(spec, rank);
      expect(lost.size).toBeGreaterThan(0);
      expect(lost.size).toBeLessThan(GROUPS.flat().length);
      const files = without(written.files, optimPath(spec, rank));
      const expected = withCopies(spec, written, lost);
      for (const [dtype, name] of [
        ['fp32', 'F32'],
        ['bf16', 'BF16'],
        ['fp16', 'F16'],
        ['keep', 'keep'],
      ] as const) {
        expect(await toSafetensors(files, { dtype }, PARTIAL)).toEqual(expectedOf(expected, name));
      }
      const inventory = await read(files);
      const { tensors, problems, skipped, warnings } = inventory;
      expect({ problems, skipped }).toEqual({ problems: [], skipped: [] });
      const copied = tensors.filter(({ origin }) => origin === 'copy').map(({ name }) => name);
      expect(new Set(copied)).toEqual(lost);
      expect(codesOf(inventory)).toEqual(expect.arrayContaining(['partial', 'copies-taken']));
      expect(new Set(warnings.find(({ code }) => code === 'copies-taken')?.tensors)).toEqual(lost);
    },
  );

  test.each(DAMAGES)('that is %s: all else is byte for byte as ever', async (_kind, damage) => {
    const { files, options } = damage(written.files, optimPath(spec, 1));
    const result = await toSafetensors(files, {}, options);
    expect(result).toEqual(expectedOf(withCopies(spec, written, heldBy(spec, 1)), 'F32'));
    const whole = await toSafetensors(written.files);
    for (const [name, tensor] of Object.entries(whole.tensors)) {
      if (!heldBy(spec, 1).has(name)) expect(result.tensors[name]).toEqual(tensor);
    }
  });

  test('and without a second one', async () => {
    const files = without(written.files, optimPath(spec, 0), optimPath(spec, 3));
    const expected = withCopies(spec, written, heldByAny(spec, [0, 3]));
    expect(await toSafetensors(files, {}, PARTIAL)).toEqual(expectedOf(expected, 'F32'));
  });

  test('nor any other: all are the copies', async () => {
    const files = without(written.files, ...[0, 1, 2, 3].map((rank) => optimPath(spec, rank)));
    const all = new Set(GROUPS.flat().map(({ name }) => name));
    const result = await toSafetensors(files, {}, PARTIAL);
    expect(result).toEqual(expectedOf(withCopies(spec, written, all), 'F32'));
  });
});

describe('ZeRO-3 has no copies', () => {
  const frozen = [
    { name: 'base.scale', shape: [1] },
    { name: 'base.bias', shape: [2] },
    { name: 'base.weight', shape: [3, 5] },
  ];
  const spec = spread(3, { frozen, tied: [['head.weight', 'layers.3.weight']], subGroupSize: 6 });
  const written = writeCheckpoint(spec);

  test.each([1, 2, 3])(
    'without the optimizer file of rank %i, what touches it is skipped, with the reason',
    async (rank) => {
      const lost = heldBy(spec, rank);
      expect(lost.size).toBeGreaterThan(0);
      const files = without(written.files, optimPath(spec, rank));
      for (const [dtype, name] of [
        ['fp32', 'F32'],
        ['bf16', 'BF16'],
        ['fp16', 'F16'],
        ['keep', 'keep'],
      ] as const) {
        expect(await toSafetensors(files, { dtype }, PARTIAL)).toEqual(expectedOf(withoutTensors(written, lost), name));
      }
      const { skipped } = await read(files);
      const reason = `a part of it was in ${optimPath(spec, rank)}, which is lost`;
      expect(skipped).toEqual(expect.arrayContaining([...lost].map((name) => ({ name, reason }))));
      const tied = lost.has('layers.3.weight') ? 1 : 0;
      expect(skipped).toHaveLength(lost.size + tied);
    },
  );

  test.each(DAMAGES)('all else is byte for byte as ever without one that is %s', async (_kind, damage) => {
    const { files, options } = damage(written.files, optimPath(spec, 2));
    const result = await toSafetensors(files, {}, options);
    expect(result).toEqual(expectedOf(withoutTensors(written, heldBy(spec, 2)), 'F32'));
  });

  test('a tied name is skipped with its owner', async () => {
    const files = without(written.files, optimPath(spec, 0));
    const { skipped, aliases } = await read(files);
    expect(aliases).toEqual({});
    expect(skipped).toContainEqual({ name: 'head.weight', reason: 'tied to layers.3.weight, which cannot be had' });
    const all = new Set(GROUPS.flat().map(({ name }) => name));
    expect(await toSafetensors(files, {}, PARTIAL)).toEqual(expectedOf(withoutTensors(written, all), 'F32'));
  });

  test('frozen parameters and buffers are written without any optimizer file', async () => {
    const files = without(written.files, ...[0, 1, 2, 3].map((rank) => optimPath(spec, rank)));
    const all = new Set(GROUPS.flat().map(({ name }) => name));
    expect(await toSafetensors(files, {}, PARTIAL)).toEqual(expectedOf(withoutTensors(written, all), 'F32'));
  });

  test.each(DAMAGES)('a model file that is %s: frozen parameters that touch it are skipped', async (_kind, damage) => {
    const { files, options } = damage(written.files, modelPath(spec, 1));
    const lost = frozenHeldBy(spec, [1]);
    expect([...lost]).toEqual(['base.bias', 'base.weight']);
    expect(await toSafetensors(files, {}, options)).toEqual(expectedOf(withoutTensors(written, lost), 'F32'));
  });

  test('of frozen parameters no model file need be there where they are left out', async () => {
    const files = without(written.files, modelPath(spec, 1), modelPath(spec, 2));
    const { problems } = await read(files, {});
    expect(problems).toMatchObject([{ code: 'missing-model-rank', concerns: 'frozen' }]);
  });

  test('where a part of every parameter is lost, that is an error with the reason', async () => {
    const files: Files = { ...writeCheckpoint(small(3)).files };
    const { problems } = await read(without(files, optimOf(1)));
    expect(problems).toMatchObject([{ kind: 'missing-shard', code: 'nothing-recovered', facts: { missing: '1' } }]);
    expect(problems[0]?.message).toMatch(/Missing: rank 1\./);
    const broken = { ...files, [optimOf(1)]: new Uint8Array(10) };
    expect((await read(broken)).problems).toMatchObject([{ kind: 'bad-file', code: 'nothing-recovered' }]);
  });
});

describe('which files are done without', () => {
  const spec = spread(2);
  const { files } = writeCheckpoint(spec);
  const path = optimPath(spec, 1);
  const whole = () => read(files, {});

  test('nothing changes where it is not asked for', async () => {
    expect((await read(without(files, path), {})).problems).toMatchObject([{ code: 'missing-optim-rank' }]);
    const broken = await rejectionOf(read({ ...files, [path]: new Uint8Array(100) }, {}));
    expect(broken).toMatchObject({ kind: 'bad-file', facts: { file: path } });
  });

  test('nothing changes for a whole checkpoint', async () => {
    expect(await read(files)).toEqual(await whole());
    expect(await read(files, { lost: [] })).toEqual(await whole());
  });

  test.each([
    ['its name', path.slice(path.indexOf('/') + 1)],
    ['its path', path],
    ['a path from further out', `/data/run/${path}`],
    ['a pattern', '*rank_1_mp*optim*'],
  ])('a file is named by %s', async (_, pattern) => {
    const inventory = await read(files, { lost: [pattern] });
    expect(inventory.sources.map((source) => source.path)).not.toContain(path);
    expect(inventory.checks.find(({ id }) => id === 'partial')?.detail).toMatch(`${path} is left out, as asked.`);
    expect(inventory.warnings.find(({ code }) => code === 'copies-taken')?.tensors).toHaveLength(heldBy(spec, 1).size);
  });

  test.each(['other.pt', 'latest', 'optim_states.pt', `other/${path.slice(1)}`])('%s names none', async (pattern) => {
    const found = await rejectionOf(read(files, { lost: [pattern] }));
    expect(found).toMatchObject({ kind: 'usage', code: 'lost-file-unknown', facts: { expected: pattern } });
  });

  test('a file that is not needed is left out with a word, and nothing else changes', async () => {
    const stray = 'global_step7/zero_pp_rank_9_mp_rank_00_optim_states.pt';
    const inventory = await read({ ...files, [stray]: new Uint8Array(50) }, { lost: [stray] });
    expect(inventory.warnings[0]).toEqual({ code: 'file-left-out', message: `${stray} is left out, as asked.` });
    expect({ ...inventory, warnings: inventory.warnings.slice(1) }).toEqual(await whole());
  });

  test('a file whose tensors are not where its directory says is done without', async () => {
    const text = Buffer.from(bytesOf(files, path)).toString('latin1');
    // The mark of the header in front of each.
    const moved = text.replaceAll(/PK..(?=[\s\S]{26}archive\/data\/)/g, 'PK--');
    expect(moved).not.toBe(text);
    const damaged = { ...files, [path]: Uint8Array.from(Buffer.from(moved, 'latin1')) };
    expect(await rejectionOf(read(damaged, {}))).toMatchObject({ kind: 'bad-file', facts: { file: path } });
    const written = writeCheckpoint(spec);
    const expected = expectedOf(withCopies(spec, written, heldBy(spec, 1)), 'F32');
    expect(await toSafetensors(damaged, {}, PARTIAL)).toEqual(expected);
  });

  test('every file that cannot be read is told of', async () => {
    const damaged = { ...files, [path]: new Uint8Array(100), [optimPath(spec, 3)]: new Uint8Array(100) };
    const left = (await read(damaged)).warnings.filter(({ code }) => code === 'file-left-out');
    expect(left.map(({ message }) => message.split(':')[0])).toEqual([path, optimPath(spec, 3)]);
  });

  test('the model file of stage 1 and 2 cannot be done without', async () => {
    expect((await read(without(files, MODEL))).problems).toMatchObject([{ code: 'missing-model-rank' }]);
    const broken = await rejectionOf(read({ ...files, [MODEL]: bytesOf(files, MODEL).slice(0, 100) }));
    expect(broken).toMatchObject({ kind: 'bad-file', facts: { file: MODEL } });
  });
});

describe('what is left must agree', () => {
  const spec = spread(2);
  const written = writeCheckpoint(spec);
  const all = new Set(GROUPS.flat().map(({ name }) => name));
  const path = optimPath(spec, 1);

  test.each([
    ['a rank of a run with other ranks', optimPath(spec, 2), () => spread(2, { ranks: 5 })],
    ['a rank of another version', optimPath(spec, 2), () => spread(2, { version: '0.16.9' })],
    [
      'a rank with longer slices',
      'proves how large the slices of the lost ranks',
      () => spread(2, { groups: GROUPS.map((group) => group.concat({ name: 'more', shape: [8] })) }),
    ],
  ])('%s beside a lost one: no master is taken, and the reason is told', async (_, reason, other) => {
    const from = optimPath(spec, 2);
    const files = { ...without(written.files, path), [from]: bytesOf({ ...writeCheckpoint(other()).files }, from) };
    expect(await toSafetensors(files, {}, PARTIAL)).toEqual(expectedOf(withCopies(spec, written, all), 'F32'));
    const { warnings, checks } = await read(files);
    expect(warnings.map(({ code }) => code)).not.toContain('copies-taken');
    expect(warnings.find(({ code }) => code === 'partial')?.message).toMatch(reason);
    expect(checks.find(({ id }) => id === 'partial')?.detail).toMatch(reason);
  });

  test.each([
    // Of five elements over two ranks, three on the second may be all of a slice, or one and padding.
    ['does not tell how long one is, no master is taken', false, ['copy', 'copy', 'copy'], ['partial']],
    ['counts its padding, masters are taken', true, ['copy', 'copy', 'master'], ['partial', 'copies-taken']],
  ])('where the slice that is left %s', async (_, counts, origins, codes) => {
    const group = [2, 2, 1].map((size, i) => ({ name: `layers.${i}.weight`, shape: [size] }));
    const editOptim: CheckpointSpec['editOptim'] = (_root, state) => void (counts || state.delete('group_paddings'));
    const { files } = writeCheckpoint(small(2, { ranks: 2, groups: [group], version: '0.6.5', editOptim }));
    const inventory = await read(without(files, optimOf(0)));
    expect(inventory.tensors.map(({ origin }) => origin)).toEqual(origins);
    expect(codesOf(inventory)).toEqual(codes);
    const message = inventory.warnings.find(({ code }) => code === 'partial')?.message ?? '';
    expect(message.includes('proves how large the slices of the lost ranks (0) were')).toBe(!counts);
  });

  test('each copy is listed by name once, whether some are taken or all', async () => {
    const other = bytesOf({ ...writeCheckpoint(spread(2, { version: '0.16.9' })).files }, optimPath(spec, 2));
    const some = without(written.files, path);
    const counts = [];
    for (const files of [some, { ...some, [optimPath(spec, 2)]: other }]) {
      const { warnings, tensors } = await read(files);
      const copies = tensors.flatMap(({ name, origin }) => (origin === 'copy' ? [name] : []));
      expect(warnings.flatMap(({ tensors: names = [] }) => names).toSorted()).toEqual(copies.toSorted());
      counts.push(copies.length);
    }
    expect(counts[0]).toBeGreaterThan(1);
    expect(counts[0]).toBeLessThan(all.size);
    expect(counts[1]).toBe(all.size);
  });

  test('of pieces that were dealt to the ranks none is taken', async () => {
    const dealt = spread(1, { version: '0.3.16', commElements: 12 });
    const old = writeCheckpoint(dealt);
    const files = without(old.files, optimPath(dealt, 1));
    expect((await read(files)).tensors.some(({ origin }) => origin === 'master')).toBe(false);
    expect(await toSafetensors(files, {}, PARTIAL)).toEqual(expectedOf(withCopies(dealt, old, all), 'F32'));
  });

  test('the checks tell what was lost', async () => {
    const { checks } = await read(without(written.files, path));
    const status = (id: string) => checks.find((check) => check.id === id)?.status;
    expect(['rank-set', 'partial', 'ranks-agree', 'slice-mappings', 'element-counts'].map(status)).toEqual([
      ...['failed', 'failed', 'passed', 'passed', 'passed'],
    ]);
    expect(checks.find(({ id }) => id === 'rank-set')?.detail).toMatch('The optimizer files of 1 of 4 ranks are lost');
  });
});

describe('weights in memory, and comparing with finished ones', () => {
  const spec = spread(2);
  const written = writeCheckpoint(spec);
  const tree = memoryTree(written.files);
  const lost = [optimPath(spec, 1)];

  test('consolidateWeights takes the same options', async () => {
    const weights = await consolidateWeights(tree, { lost, overflow: 'inf' }).collect();
    const { tensors } = expectedOf(withCopies(spec, written, heldBy(spec, 1)), 'F32');
    const found = [...weights].map(([name, { dtype, shape, data }]) => [name, { dtype, shape, sha256: sha256(data) }]);
    expect(Object.fromEntries(found)).toEqual(tensors);
    const files = memoryTree(without(written.files, ...lost));
    expect(await consolidateWeights(files, { partial: true, overflow: 'inf' }).collect()).toEqual(weights);
    expect(await rejectionOf(consolidateWeights(files).collect())).toMatchObject({ code: 'missing-optim-rank' });
  });

  test('verify compares with what is left', async () => {
    const output = memoryOutput();
    await run(plan(await inspect(tree, { lost }), { overflow: 'inf' }), { input: tree, output });
    const weights = memoryTree(Object.fromEntries(output.files));
    expect((await verify(tree, weights, { lost })).matches).toBe(true);
    const { matches, tensors } = await verify(tree, weights);
    const differing = tensors.filter(({ status }) => status === 'differs').map(({ name }) => name);
    expect({ matches, isAnyOther: differing.some((name) => !heldBy(spec, 1).has(name)) }).toEqual({
      matches: false,
      isAnyOther: false,
    });
  });
});
