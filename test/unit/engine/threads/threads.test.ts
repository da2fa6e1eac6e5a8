import { describe, expect, onTestFinished, test } from 'vitest';
import { crc32 } from '../../../../src/base/crc32.js';
import { cpuBackend } from '../../../../src/engine/cpu.js';
import { run } from '../../../../src/engine/run.js';
import { PlanSources } from '../../../../src/engine/sources.js';
import { serveTiles, type ThreadFiles } from '../../../../src/engine/threads/serve.js';
import { startThreads, type Thread, type Threads, threadsFor } from '../../../../src/engine/threads/threads.js';
import { tilesOf } from '../../../../src/engine/tiles.js';
import { memoryOutput, memoryTree } from '../../../../src/io/memory.js';
import type { FileTree, OutputTree } from '../../../../src/io/types.js';
import { plan } from '../../../../src/plan/make.js';
import type { PlanOptions } from '../../../../src/plan/plan.js';
import { rejectionOf } from '../../../helpers/errors.js';
import { inventoryOf, masterOf } from '../../../helpers/inventory.js';
import { firstDifference, patternBytes } from '../../../helpers/pattern.js';

const SIZE = 210_000;
const FILES = { 'rank0.pt': patternBytes(0, SIZE) };
const TREE = memoryTree(FILES);
const SOURCES = Object.keys(FILES).map((path) => ({ path, size: SIZE, modified: 0 }));
const CRCS = Object.values(FILES).map((bytes, source) => ({ source, offset: 0, length: SIZE, crc32: crc32(bytes) }));
const TENSORS = Array.from({ length: 12 }, (_, i) => masterOf(`w${i}`, 4000 + i, i * 17_000));
const INVENTORY = inventoryOf(TENSORS, { sources: SOURCES, crcs: CRCS });

/** A folder whose files other threads find by their paths. */
const placed: FileTree = {
  ...TREE,
  open: async (path) => ({ ...(await TREE.open(path)), place: path }),
};

/** A thread that is none: its messages pass through a channel of this one. */
function channelThread(ended: Promise<never> = new Promise(() => {}), files: Partial<ThreadFiles> = {}): Thread {
  const { port1, port2 } = new MessageChannel();
  const openSource = (path: string, place: unknown) => {
    expect(place).toBe(path);
    return TREE.open(path);
  };
  serveTiles({ openSource, ...files }, port2);
  return {
    endpoint: port1,
    ended,
    terminate() {
      port1.close();
      port2.close();
    },
  };
}

function threadsOf(count: number, spawn: () => Thread = channelThread): Threads {
  const threads = startThreads(count, spawn);
  onTestFinished(() => threads.close());
  return threads;
}

async function convert(
  options: PlanOptions,
  more: Partial<Parameters<typeof run>[1]> = {},
  inventory: typeof INVENTORY = INVENTORY,
) {
  const output = memoryOutput();
  const made = plan(inventory, { overflow: 'inf', maxShardSize: 50_000, ...options });
  const report = await run(made, { input: placed, output, ...more });
  return { report, files: output.files };
}

describe('threads', () => {
  test.each([
    { count: 1, options: {} },
    { count: 2, options: { dtype: 'bf16' } },
    { count: 3, options: { dtype: 'fp16', maxShardSize: 9_000_000 } },
    { count: 2, options: { dtype: 'fp16', format: 'bin' } },
  ] as const)('write the bytes and the report of one ($count, $options)', async ({ count, options }) => {
    const expected = await convert(options);
    const { report, files } = await convert(options, { threads: threadsOf(count) });
    expect(files).toEqual(expected.files);
    expect(expected.report.backend.threads).toBe(1);
    const { backend, seconds: _, ...same } = expected.report;
    expect(report).toMatchObject({ ...same, backend: { ...backend, threads: count } });
    expect(report.checks.find(({ id }) => id === 'input-crc32')?.status).toBe('passed');
  });

  test('are taken up by one run after another', async () => {
    const threads = threadsOf(2);
    const [first, second] = [await convert({}, { threads }), await convert({ dtype: 'bf16' }, { threads })];
    expect(first.files).toEqual((await convert({})).files);
    expect(second.files).toEqual((await convert({ dtype: 'bf16' })).files);
  });

  test('find what does not match the recorded CRC-32, and nothing is left', async () => {
    const damaged = inventoryOf(TENSORS, { sources: SOURCES, crcs: CRCS.map((crc) => ({ ...crc, crc32: 1 })) });
    const output = memoryOutput();
    const failure = await rejectionOf(convert({}, { threads: threadsOf(2), output }, damaged));
    expect(failure).toMatchObject({ code: 'crc-mismatch', facts: { file: 'rank0.pt' } });
    expect([...output.files]).toEqual([]);
  });

  test('tell with all numbers what they cannot read', async () => {
    const wrongSize = SOURCES.map((source) => ({ ...source, size: SIZE + 1 }));
    const changed = inventoryOf(TENSORS, { sources: wrongSize, crcs: [] });
    const failure = await rejectionOf(convert({}, { threads: threadsOf(2) }, changed));
    expect(failure).toMatchObject({ code: 'source-changed', facts: { expected: SIZE + 1, found: SIZE } });
  });

  test('stop when the run is cancelled, and nothing is left', async () => {
    const cancel = new AbortController();
    const output = memoryOutput();
    const onProgress = () => cancel.abort(new Error('enough'));
    const ended = convert({}, { threads: threadsOf(2), output, signal: cancel.signal, onProgress });
    await expect(ended).rejects.toThrow('enough');
    expect([...output.files]).toEqual([]);
  });

  test('that come to an end by themselves end the run', async () => {
    const ended = Promise.reject<never>(new Error('out of memory'));
    ended.catch(() => {});
    const output = memoryOutput();
    const dying = () => ({ ...channelThread(ended), endpoint: new MessageChannel().port1 });
    await expect(convert({}, { threads: threadsOf(1, dying), output })).rejects.toThrow('out of memory');
    expect([...output.files]).toEqual([]);
  });

  test('are left alone where a file can be read on one thread only', async () => {
    const { report, files } = await convert({}, { threads: threadsOf(2), input: TREE });
    expect(report.backend.threads).toBe(1);
    expect(files).toEqual((await convert({})).files);
  });

  test('are left alone where a GPU converts', async () => {
    const gpu = { ...cpuBackend(), name: 'gpu' } as const;
    const { report } = await convert({ dtype: 'bf16' }, { threads: threadsOf(2), backend: gpu });
    expect(report.backend).toMatchObject({ name: 'gpu', threads: 1 });
  });
});

describe('threads that write by themselves', () => {
  const BIG = 9_000_000;
  const big = memoryTree({ 'rank0.pt': patternBytes(5, BIG), 'rank1.pt': patternBytes(6, BIG) });
  const sources = ['rank0.pt', 'rank1.pt'].map((path) => ({ path, size: BIG, modified: 0 }));
  const crcs = [0, 1].map((source) => ({
    source,
    offset: 0,
    length: BIG,
    crc32: crc32(patternBytes(5 + source, BIG)),
  }));
  // Large ones that are cut at odd places, with small ones before, between and behind them.
  const counts = [3, 700_001, 1, 20, 900_003, 5];
  const tensors = counts.map((count, i) => masterOf(`w${i}`, count, 4 * counts.slice(0, i).reduce((a, b) => a + b, 0)));
  const inventory = inventoryOf(tensors, { sources, crcs });

  /** A folder in memory that threads find by the paths of its files. `damage` may change what they write. */
  function sharedOutput(damage: (bytes: Uint8Array) => void = () => {}) {
    const output = memoryOutput();
    const open = new Map<string, Uint8Array>();
    const writtenBy = { threads: 0 };
    const tree: OutputTree = {
      ...output,
      async create(path, byteLength) {
        const sink = await output.create(path, byteLength);
        const bytes = new Uint8Array(byteLength);
        open.set(path, bytes);
        const write = async (at: number, part: Uint8Array) => bytes.set(part, at);
        const read = async (at: number, into: Uint8Array) => into.set(bytes.subarray(at, at + into.length));
        const close = async () => {
          await sink.write(0, bytes);
          await sink.close();
        };
        return { place: path, write, read, close, abort: () => sink.abort() };
      },
    };
    const openSink: ThreadFiles['openSink'] = async (path, place, byteLength) => {
      const bytes = open.get(String(place));
      expect([path, bytes?.length]).toEqual([place, byteLength]);
      return {
        async write(at, part) {
          writtenBy.threads += part.length;
          const changed = part.slice();
          damage(changed);
          bytes?.set(changed, at);
        },
        async read(at, into) {
          into.set(bytes?.subarray(at, at + into.length) ?? []);
        },
        async release() {},
      };
    };
    const openSource = (path: string) => big.open(path);
    const threads = threadsOf(2, () => channelThread(undefined, { openSource, openSink }));
    const input: FileTree = { ...big, open: async (path) => ({ ...(await big.open(path)), place: path }) };
    return { options: { input, output: tree, threads }, output, writtenBy };
  }

  async function alone(options: PlanOptions, from = inventory) {
    const output = memoryOutput();
    const report = await run(plan(from, { overflow: 'inf', ...options }), { input: big, output });
    return { report, files: output.files };
  }

  test.each([
    {},
    { dtype: 'bf16' },
    { dtype: 'fp16', format: 'bin' },
    { format: 'bin' },
    { dtype: 'bf16', maxShardSize: 2_000_000 },
  ] as const)('write the bytes and the report of one (%o)', async (options) => {
    const expected = await alone(options);
    const { options: shared, output, writtenBy } = sharedOutput();
    const report = await run(plan(inventory, { overflow: 'inf', ...options }), shared);
    expect([...output.files.keys()].sort()).toEqual([...expected.files.keys()].sort());
    for (const [path, bytes] of output.files) {
      expect(firstDifference(bytes, expected.files.get(path) ?? new Uint8Array())).toBeUndefined();
    }
    const { backend: _, seconds: __, ...same } = expected.report;
    expect(report).toMatchObject(same);
    const tensorBytes = counts.reduce((a, b) => a + b, 0) * ('dtype' in options ? 2 : 4);
    expect(writtenBy.threads).toBeGreaterThanOrEqual(tensorBytes);
  });

  test('find what is written wrong by reading it back', async () => {
    const damage = (bytes: Uint8Array) => {
      bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 4;
    };
    const { options, output } = sharedOutput(damage);
    const failure = await rejectionOf(run(plan(inventory, {}), options));
    expect(failure).toMatchObject({ kind: 'sink', code: 'read-back-differs', facts: { file: 'model.safetensors' } });
    expect([...output.files]).toEqual([]);
  });

  test('tell of a master that is not its copy what one tells', async () => {
    const [small, large] = [masterOf('small', 100, 0, true), masterOf('large', 1_200_000, 400, true)];
    const contradicting = inventoryOf([small, large], { sources });
    const expected = await rejectionOf(alone({}, contradicting));
    const { options, output } = sharedOutput();
    expect(await rejectionOf(run(plan(contradicting, {}), options))).toEqual(expected);
    expect(expected).toMatchObject({ code: 'master-copy-differs', facts: { index: 0 } });
    expect([...output.files]).toEqual([]);
  });

  test('fill a tile without writing it where there is nothing to write to', async () => {
    const { options, writtenBy } = sharedOutput();
    const job = {
      plan: plan(inventory, {}),
      sources: planSources(),
      audit: true,
      crcs: 'none',
      readBack: false,
    } as const;
    const filler = await options.threads.filler({ ...job, signal: undefined });
    const [tile] = tilesOf(job.plan, 0);
    const filled = tile && (await filler?.fill(tile));
    await filler?.close();
    expect(filled?.stats.length).toBe(counts.length);
    expect(writtenBy.threads).toBe(0);
  });

  /** The sources of the plan, each with its path as place. */
  function planSources(): PlanSources {
    return new PlanSources(async (path) => ({ ...(await big.open(path)), place: path }), sources);
  }
});

describe('the number of threads', () => {
  test.each([
    ['none for a small run', 1e6, 8, 0],
    ['none for a single core', 1e9, 1, 0],
    ['one for each core', 1e9, 3, 3],
    ['four at most', 1e9, 64, 4],
  ])('is %s', (_, bytes, cores, count) => {
    expect(threadsFor(bytes, cores)).toBe(count);
  });
});
