import { beforeEach, describe, expect, test } from 'vitest';
import { crc32 } from '../../../../src/base/crc32.js';
import { type FinishOptions, finish } from '../../../../src/engine/parts/finish.js';
import type { Report, RunProgress } from '../../../../src/engine/report.js';
import { type RunOptions, run } from '../../../../src/engine/run.js';
import { sourceFailure } from '../../../../src/io/failures.js';
import { type MemoryOutput, memoryOutput, memoryTree } from '../../../../src/io/memory.js';
import type { FileTree, OutputTree } from '../../../../src/io/types.js';
import type { Plan, PlanOptions } from '../../../../src/plan/plan.js';
import { writeFile } from '../../../contract/sink.js';
import { rejectionOf } from '../../../helpers/errors.js';
import { COPIES, FILES, HALF, INVENTORY, NAMES, partOfThree, planOf } from '../../../helpers/parts.js';
import { patternBytes } from '../../../helpers/pattern.js';
import { recordingTree } from '../../../helpers/recording-tree.js';
import { sha256 } from '../../../helpers/safetensors.js';

const PARTS = 3;
const made = planOf({ dtype: 'fp16' });

let input: FileTree;
let output: MemoryOutput;

beforeEach(() => {
  input = memoryTree(FILES);
  output = memoryOutput();
});

const runPart = (index: number, more: Partial<RunOptions> = {}, of: Plan = made) =>
  run(of, { input, output, part: { index, count: PARTS }, ...more });

async function runParts(more: Partial<RunOptions> = {}, of: Plan = made): Promise<Report[]> {
  const reports: Report[] = [];
  for (const index of [2, 0, 1]) reports.push(await runPart(index, more, of));
  return reports;
}

const end = (more: Partial<FinishOptions> = {}, of: Plan = made) => finish(of, { input, output, ...more });

async function runWhole(of: Plan, more: Partial<RunOptions> = {}) {
  const alone = memoryOutput();
  const report = await run(of, { input: memoryTree(FILES), output: alone, ...more });
  return { report, files: alone.files };
}

/** The report without what differs between any two runs. */
function comparable({ seconds: _, ...report }: Report): unknown {
  return report;
}

const stateOf = (path: string): { status: string; audited: unknown[] } =>
  JSON.parse(new TextDecoder().decode(output.files.get(`.unshard/${path}.json`)));

const outputs = () => [...output.files.keys()].filter((path) => !path.startsWith('.unshard/')).toSorted();

describe('parts in any order, and then the end', () => {
  test.each<[string, PlanOptions]>([
    ['fp16', { dtype: 'fp16' }],
    ['fp32', {}],
    ['torch files', { format: 'bin' }],
    ['one file', { maxShardSize: 1_000_000 }],
    ['the stored copies', { dtype: 'bf16' }],
    ['tied weights in full, twice', { duplicateTied: true }],
  ])('write the bytes of one run, and report the same: %s', async (_, options) => {
    const of = planOf(options, { aliases: { tied: 'b' } });
    await runParts({}, of);
    const report = await end({}, of);
    const whole = await runWhole(of);
    expect(new Map([...output.files].toSorted())).toEqual(new Map([...whole.files].toSorted()));
    expect(comparable(report)).toEqual(comparable(whole.report));
    expect(report.checks.map(({ status }) => status)).not.toContain('failed');
  });

  test('give reports that have each file and each tensor once', async () => {
    const reports = await runParts();
    expect(reports.map(({ part }) => part)).toEqual(['3/3', '1/3', '2/3']);
    const all = made.files.filter(({ afterOthers }) => !afterOthers).map(({ path }) => path);
    expect(reports.flatMap(({ files }) => files.map(({ path }) => path)).toSorted()).toEqual(all.toSorted());
    expect(reports.flatMap(({ tensors }) => tensors.map(({ name }) => name)).toSorted()).toEqual(NAMES);
    expect(reports.reduce((sum, { bytesRead }) => sum + bytesRead, 0)).toBe(made.totals.inputBytes);
  });

  test('the index appears last, and nothing of the parts stays', async () => {
    await runParts();
    expect(outputs()).not.toContain('model.safetensors.index.json');
    expect(output.files.has('.unshard/plan')).toBe(true);
    await end();
    expect([...output.files.keys()].toSorted()).toEqual(made.files.map(({ path }) => path).toSorted());
  });

  test('a part that has no files does nothing, and says so', async () => {
    const report = await run(made, { input, output, part: { index: 8, count: 9 } });
    expect(report).toMatchObject({ part: '9/9', files: [], tensors: [], bytesRead: 0, bytesWritten: 0 });
    expect(outputs()).toEqual([]);
  });

  test('progress counts the bytes of the part', async () => {
    const steps: RunProgress[] = [];
    await runPart(0, { onProgress: (step) => steps.push(step) });
    await runPart(1);
    const mine = filesOf(0);
    const total = mine.reduce((sum, { byteLength }) => sum + byteLength, 0);
    expect(steps.at(-1)).toMatchObject({ written: total, total, filesDone: mine.length, files: mine.length });
    const checked: RunProgress[] = [];
    await runPart(2);
    await end({ onProgress: (step) => checked.push(step) });
    expect(checked.map(({ phase }) => phase)).toEqual(made.files.slice(0, -1).map(() => 'check'));
  });
});

/** The files of a part. */
const filesOf = (index: number) => made.files.filter(({ path }) => partOf(path) === index);
const partOf = (path: string) => partOfThree(made, path);

describe('a part that is run again', () => {
  test('reads nothing where all is there, and gives the same report', async () => {
    const first = await runPart(0);
    const before = new Map(output.files);
    const reads = recordingTree(input);
    const second = await runPart(0, { input: reads });
    expect(reads.reads).toEqual([]);
    expect(comparable(second)).toEqual(comparable(first));
    for (const { path } of filesOf(0)) expect(output.files.get(path)).toBe(before.get(path));
  });

  test('writes what is missing, cut, or was begun only', async () => {
    await runParts();
    const whole = new Map(output.files);
    const [first, second, third] = made.files.filter(({ path }) => path.startsWith('model-')).map(({ path }) => path);
    if (!first || !second || !third) throw new Error('the plan has too few files');
    await output.remove(first);
    await writeFile(output, second, patternBytes(0, 10));
    const { plan: hash } = JSON.parse(new TextDecoder().decode(output.files.get('.unshard/plan')));
    const begun = { version: 1, status: 'started', plan: hash };
    await writeFile(output, `.unshard/${third}.json`, new TextEncoder().encode(JSON.stringify(begun)));
    await runParts();
    for (const path of [first, second, third]) {
      expect(output.files.get(path)).toEqual(whole.get(path));
      expect(output.files.get(path)).not.toBe(whole.get(path));
      expect(stateOf(path).status).toBe('complete');
    }
  });

  test('reads files back with `recheck` alone, and writes those again that are not right', async () => {
    await runParts();
    const whole = new Map(output.files);
    const path = 'model-00002-of-00005.safetensors';
    const spoilt = new Uint8Array(whole.get(path) ?? []);
    spoilt[500] = (spoilt[500] ?? 0) ^ 1;
    await writeFile(output, path, spoilt);
    await runParts();
    expect(output.files.get(path)).toEqual(spoilt);
    await runParts({ recheck: true });
    expect(output.files.get(path)).toEqual(whole.get(path));
    expect(output.files.get('model-00001-of-00005.safetensors')).toBe(whole.get('model-00001-of-00005.safetensors'));
  });

  test('verifies what was written without verification', async () => {
    await runParts({ verify: false });
    const before = new Map(output.files);
    await runPart(0, { verify: false });
    for (const { path } of filesOf(0)) expect(output.files.get(path)).toBe(before.get(path));
    await runPart(0);
    for (const { path } of filesOf(0)) expect(output.files.get(path)).not.toBe(before.get(path));
  });

  test('takes a state that cannot be read for none: what is there without one is not replaced unless asked', async () => {
    await runParts();
    for (const bad of ['{', '{}', '[]', '{"version":1,"status":"complete"}', '\ufffe']) {
      await writeFile(output, '.unshard/tokenizer.json.json', new TextEncoder().encode(bad));
      const detail = await rejectionOf(runPart(partOf('tokenizer.json')));
      expect(detail).toMatchObject({ kind: 'sink', code: 'output-exists', facts: { file: 'tokenizer.json' } });
    }
    await runPart(partOf('tokenizer.json'), { overwrite: true });
    expect(stateOf('tokenizer.json').status).toBe('complete');
  });
});

describe('a part that fails', () => {
  test('keeps the files that are finished, and takes up there', async () => {
    const stop = new AbortController();
    const onFile = () => stop.abort();
    const whole = { part: { index: 0, count: 1 } };
    await expect(run(made, { input, output, ...whole, signal: stop.signal, onFile })).rejects.toThrow('abort');
    const complete = outputs().filter((path) => stateOf(path).status === 'complete');
    expect(complete.length).toBeGreaterThan(0);
    expect(complete.length).toBeLessThan(made.files.length - 1);
    const before = new Map(output.files);
    await run(made, { input, output, ...whole });
    for (const path of complete) expect(output.files.get(path)).toBe(before.get(path));
    await end();
    expect(new Map([...output.files].toSorted())).toEqual(new Map([...(await runWhole(made)).files].toSorted()));
  });

  test('leaves nothing of a file whose masters are not their copies', async () => {
    const other = Uint8Array.from(COPIES);
    other[1] = (other[1] ?? 0) ^ 0x40;
    const crcs = INVENTORY.crcs.map((crc) => (crc.source === 2 ? { ...crc, crc32: crc32(other) } : crc));
    const of = { ...made, crcs };
    const detail = await rejectionOf(
      run(of, { input: memoryTree({ ...FILES, 'model.pt': other }), output, part: { index: 0, count: 1 } }),
    );
    expect(detail).toMatchObject({ kind: 'inconsistent', code: 'master-copy-differs', facts: { tensor: 'a' } });
    expect(outputs()).not.toContain('model-00001-of-00005.safetensors');
  });

  test('a source that changed since the plan was made is refused, with both numbers', async () => {
    const changed = memoryTree({ ...FILES, 'rank0.pt': patternBytes(0, HALF + 4) });
    const detail = await rejectionOf(run(made, { input: changed, output, part: { index: 0, count: 1 } }));
    expect(detail).toMatchObject({
      kind: 'source',
      code: 'source-changed',
      facts: { file: 'rank0.pt', expected: HALF, found: HALF + 4 },
    });
  });

  test.each([0, PARTS + 0.5, -1])('there is no part with index %d of 0', async (count) => {
    expect(await rejectionOf(run(made, { input, output, part: { index: 0, count } }))).toMatchObject({
      code: 'part-bad',
    });
  });
});

describe('damage in a source that several parts read', () => {
  /** A flipped bit that no comparison sees: the plan compares nothing. */
  const blind = { ...made, tensors: made.tensors.map(({ proofs: _, ...tensor }) => tensor) };
  blind.totals = { ...made.totals, inputBytes: made.totals.inputBytes - COPIES.length };
  const damaged = () => {
    const rank0 = Uint8Array.from(FILES['rank0.pt']);
    rank0[4] = (rank0[4] ?? 0) ^ 1;
    return memoryTree({ ...FILES, 'rank0.pt': rank0 });
  };

  test('is found by the end, and the parts that read it are to be run again', async () => {
    input = damaged();
    await runParts({}, blind);
    const detail = await rejectionOf(end({}, blind));
    expect(detail).toMatchObject({ kind: 'bad-file', code: 'crc-mismatch', facts: { file: 'rank0.pt' } });
    expect(outputs()).not.toContain('model.safetensors.index.json');
    input = memoryTree(FILES);
    expect((await rejectionOf(end({}, blind))).facts).toMatchObject({ found: 3, expected: 6 });
    await runParts({}, blind);
    await end({}, blind);
    expect(output.files.get('model-00001-of-00005.safetensors')).toEqual(
      (await runWhole(blind)).files.get('model-00001-of-00005.safetensors'),
    );
  });

  test('is found by the part itself where it read all of it', async () => {
    input = damaged();
    const detail = await rejectionOf(run(blind, { input, output, part: { index: 0, count: 1 } }));
    expect(detail).toMatchObject({ kind: 'bad-file', code: 'crc-mismatch', facts: { file: 'rank0.pt' } });
  });
});

describe('the folder of another plan', () => {
  const other = planOf({ dtype: 'fp16', maxShardSize: 3000 });

  test('is refused with both hashes, by parts and by the end', async () => {
    await runParts();
    for (const call of [() => runPart(0, {}, other), () => end({}, other)]) {
      const { kind, code, facts } = await rejectionOf(call());
      expect({ kind, code }).toEqual({ kind: 'sink', code: 'parts-of-other-plan' });
      expect(String(facts['expected'])).toMatch(/^[0-9a-f]{64}$/);
      expect(String(facts['found'])).toMatch(/^[0-9a-f]{64}$/);
      expect(facts['expected']).not.toBe(facts['found']);
    }
  });

  test('is taken over where files may be replaced', async () => {
    await runParts();
    await runParts({ overwrite: true }, other);
    await end({}, other);
    const { files } = await runWhole(other);
    for (const [path, bytes] of files) expect(output.files.get(path)).toEqual(bytes);
  });
});

describe('the end', () => {
  test('names files and parts that are missing, by number', async () => {
    await runPart(0);
    const { message, facts, ...detail } = await rejectionOf(end());
    expect(detail).toMatchObject({ kind: 'sink', code: 'parts-missing' });
    const missing = made.files.filter(({ path, afterOthers }) => !afterOthers && partOf(path) !== 0);
    expect(facts).toEqual({
      file: missing.map(({ path }) => path).join(', '),
      expected: 6,
      found: 6 - missing.length,
      parts: '2/3, 3/3',
    });
    const [first] = missing;
    const number = made.files.findIndex(({ path }) => path === first?.path) + 1;
    expect(message).toContain(`file ${number} (${first?.path}) of part ${partOf(first?.path ?? '') + 1}/3`);
  });

  test('says where no part was run', async () => {
    expect(await rejectionOf(end())).toMatchObject({ code: 'parts-missing', facts: { found: 0, expected: 6 } });
  });

  test('refuses to be called again', async () => {
    await runParts();
    await end();
    expect(await rejectionOf(end())).toMatchObject({ kind: 'usage', code: 'parts-finished', facts: { found: 7 } });
  });

  test('finds a file that is not what was written; its part writes it again', async () => {
    await runParts();
    const path = 'model-00003-of-00005.safetensors';
    const spoilt = new Uint8Array(output.files.get(path) ?? []);
    spoilt[500] = (spoilt[500] ?? 0) ^ 1;
    await writeFile(output, path, spoilt);
    const detail = await rejectionOf(end());
    expect(detail).toMatchObject({ kind: 'sink', code: 'read-back-differs', facts: { file: path } });
    expect(await rejectionOf(end())).toMatchObject({ code: 'parts-missing', facts: { file: path } });
    await runParts();
    await end();
    expect(output.files.get(path)).toEqual((await runWhole(made)).files.get(path));
  });

  test('finds a file that was cut, also where it reads nothing back', async () => {
    await runParts();
    await writeFile(output, 'tokenizer.json', patternBytes(5, 69));
    expect(await rejectionOf(end({ verify: false }))).toMatchObject({
      code: 'parts-missing',
      facts: { file: 'tokenizer.json' },
    });
  });

  test('without verification says that nothing was read back', async () => {
    await runParts();
    const { checks } = await end({ verify: false });
    expect(checks.find(({ id }) => id === 'read-back')?.status).toBe('not-checkable');
    expect(checks.find(({ id }) => id === 'master-copy')?.status).toBe('passed');
  });

  test('a check passes only if it did in every part', async () => {
    await runPart(0);
    await runPart(1, { verify: false });
    await runPart(2);
    const { checks } = await end();
    for (const id of ['input-crc32', 'master-copy', 'read-back']) {
      expect(checks.find((check) => check.id === id)?.status, id).toBe('not-checkable');
    }
  });

  test('does not replace an index that is none of this plan, unless asked', async () => {
    await runParts();
    await writeFile(output, 'model.safetensors.index.json', patternBytes(0, 3));
    const detail = await rejectionOf(end());
    expect(detail).toMatchObject({ code: 'output-exists', facts: { file: 'model.safetensors.index.json' } });
    await end({ overwrite: true });
    expect(output.files.get('model.safetensors.index.json')).not.toEqual(patternBytes(0, 3));
  });

  test('that was killed after the index can be called again', async () => {
    await runParts();
    const killed: OutputTree & FinishOptions['output'] = {
      ...output,
      sweep: () => Promise.reject(new Error('killed')),
    };
    await expect(end({ output: killed })).rejects.toThrow('killed');
    await end();
    expect([...output.files.keys()].toSorted()).toEqual(made.files.map(({ path }) => path).toSorted());
  });
});

test('SHA-256s are those of the files, whoever takes them', async () => {
  const expected = made.files.map(({ path }) => path);
  const hashesOf = ({ files }: Report) => files.map(({ path, sha256 }) => ({ path, sha256 }));
  const whole = hashesOf((await runWhole(made, { sha256: true })).report);
  await runParts();
  const late = await runPart(0, { sha256: true });
  for (const file of hashesOf(late)) expect(whole).toContainEqual(file);
  const report = await end({ sha256: true });
  expect(hashesOf(report)).toEqual(whole);
  for (const { path, sha256: found } of whole) expect(found).toBe(sha256(output.files.get(path) ?? new Uint8Array()));
  expect(whole.map(({ path }) => path)).toEqual(expected);
});

test('SHA-256s of parts are in the report of the end, also where that takes none', async () => {
  await runParts({ sha256: true });
  const { files } = await end({ verify: false });
  const missing = files.filter((file) => file.sha256 === undefined).map(({ path }) => path);
  expect(missing).toEqual(['model.safetensors.index.json']);
});

test('a state that another run replaces while it is read is read again', async () => {
  await runParts();
  let changes = 0;
  const changing: MemoryOutput = {
    ...output,
    async open(path) {
      const source = await output.open(path);
      if (!path.startsWith('.unshard/') || changes++ > 3) return source;
      return { ...source, read: () => Promise.reject(sourceFailure('source-changed', path)) };
    },
  };
  const reads = recordingTree(input);
  await runPart(0, { output: changing, input: reads });
  expect(changes).toBeGreaterThan(4);
  expect(reads.reads).toEqual([]);
});

test('a file that another run replaces while it is read back is written again, but not for ever', async () => {
  const path = 'tokenizer.json';
  /** The output, whose file of this path is replaced so many times while it is read. */
  const replaced = (times: number): MemoryOutput => {
    let left = times;
    return {
      ...output,
      async open(file) {
        const source = await output.open(file);
        if (file !== path || left-- <= 0) return source;
        return { ...source, read: () => Promise.reject(sourceFailure('source-changed', file)) };
      },
    };
  };
  const detail = await rejectionOf(runPart(partOf(path), { output: replaced(1000) }));
  expect(detail).toMatchObject({ code: 'source-changed', facts: { file: path } });
  expect(stateOf(path).status).toBe('started');
  await runPart(partOf(path), { output: replaced(2) });
  expect(output.files.get(path)).toEqual(FILES[path]);
  expect(stateOf(path).status).toBe('complete');
});

test('two runs of one part at the same time do no harm', async () => {
  // Two processes have outputs of their own over one folder.
  const other: MemoryOutput = { ...memoryOutput(), ...output, create: (path, size) => memoryOver(output, path, size) };
  await Promise.all([runPart(0), runPart(0, { output: other })]);
  await runPart(1);
  await runPart(2);
  await end();
  expect(new Map([...output.files].toSorted())).toEqual(new Map([...(await runWhole(made)).files].toSorted()));
});

/** A sink of another process: it shares no locks with the first. */
async function memoryOver(target: MemoryOutput, path: string, size: number) {
  const own = memoryOutput();
  const sink = await own.create(path, size);
  return {
    ...sink,
    async close() {
      await sink.close();
      const files = target.files as Map<string, Uint8Array<ArrayBuffer>>;
      files.set(path, own.files.get(path) ?? new Uint8Array());
    },
  };
}
