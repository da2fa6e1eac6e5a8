import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { crc32 } from '../../../src/base/crc32.js';
import { bytesOf, type DType } from '../../../src/base/dtype.js';
import { UnshardError } from '../../../src/base/errors.js';
import type { Piece } from '../../../src/base/extent.js';
import { addressOf, releaseBytes, reserveBytes } from '../../../src/base/kernel-memory.js';
import type { Inventory, TensorEntry } from '../../../src/checkpoints/inventory.js';
import type { Backend } from '../../../src/engine/backend.js';
import { cpuBackend } from '../../../src/engine/cpu.js';
import type { Report, RunProgress } from '../../../src/engine/report.js';
import { run } from '../../../src/engine/run.js';
import { memoryOutput, memoryTree } from '../../../src/io/memory.js';
import type { OutputTree } from '../../../src/io/types.js';
import { convertBytes } from '../../../src/numeric/convert.js';
import { plan } from '../../../src/plan/make.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { rejectionOf } from '../../helpers/errors.js';
import { inventoryOf, masterOf } from '../../helpers/inventory.js';
import { patternBytes } from '../../helpers/pattern.js';
import { readSafetensors, sha256 } from '../../helpers/safetensors.js';

const SIZE = 4000;
const FILES = { 'rank0.pt': patternBytes(0, SIZE), 'rank1.pt': patternBytes(SIZE, SIZE) };
const SOURCES = Object.keys(FILES).map((path) => ({ path, size: SIZE, modified: 0 }));

function inventory(tensors: TensorEntry[], more: Partial<Inventory> = {}): Inventory {
  return inventoryOf(tensors, { sources: SOURCES, ...more });
}

async function convert(found: Inventory, options: PlanOptions = {}, more: Partial<Parameters<typeof run>[1]> = {}) {
  const output = memoryOutput();
  const report = await run(plan(found, { overflow: 'inf', ...options }), {
    input: memoryTree(FILES),
    output,
    ...more,
  });
  return { report, files: output.files };
}

function statusOf(report: Report, check: string): string | undefined {
  return report.checks.find(({ id }) => id === check)?.status;
}

/** The tensor's stored bytes, gathered one run at a time by hand. */
function gather(pieces: readonly Piece[], length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  const files = Object.values(FILES);
  for (const piece of pieces) {
    if ('over' in piece) {
      for (let rank = 0; rank * piece.share < piece.length; rank++) {
        const from = (rank === 0 ? 100 : 200) + piece.offset;
        const take = Math.min(piece.share, piece.length - rank * piece.share);
        bytes.set(files[rank]?.subarray(from, from + take) ?? [], piece.at + rank * piece.share);
      }
      continue;
    }
    const [loop = { count: 1, from: 0, to: 0 }] = piece.repeat ?? [];
    for (let i = 0; i < loop.count; i++) {
      const from = piece.offset + i * loop.from;
      bytes.set(files[piece.source]?.subarray(from, from + piece.length) ?? [], piece.at + i * loop.to);
    }
  }
  return bytes;
}

const dtypes = fc.constantFrom<DType>('F32', 'F16', 'BF16', 'F64', 'I64', 'BOOL');

/** A tensor of random shape and dtype, in one run, in several, strided, or cut over two ranks. */
const tensors = fc
  .array(
    fc.record({
      dtype: dtypes,
      count: fc.integer({ min: 0, max: 50 }),
      kind: fc.constantFrom('run', 'runs', 'strided', 'cut'),
      offset: fc.nat(1000),
      source: fc.nat(1),
    }),
    { minLength: 1, maxLength: 12 },
  )
  .map((specs) =>
    specs.map(({ dtype, count, kind, offset, source }, i): TensorEntry => {
      const size = bytesOf(dtype);
      const length = count * size;
      const half = Math.floor(count / 2) * size;
      const run = (from: number, bytes: number, at: number) => ({ source, offset: from, length: bytes, at });
      const share = Math.ceil(count / 2) * size;
      const pieces: Record<typeof kind, Piece[]> = {
        run: [run(offset, length, 0)],
        runs: [run(offset, half, 0), run(offset + 1500, length - half, half)].filter((piece) => piece.length > 0),
        strided: [{ ...run(offset, size, 0), repeat: [{ count, from: 3 * size, to: size }] }],
        cut: [{ over: 0, offset, share, length, at: 0 }],
      };
      return {
        name: `t${i}`,
        shape: [count],
        origin: 'master',
        stored: { dtype, pieces: count === 0 ? [] : pieces[kind] },
      };
    }),
  );

test('writes what gathering by hand and converting gives, for any tensors, dtype and split', async () => {
  const options = fc.record({
    dtype: fc.constantFrom('fp32', 'fp16', 'bf16', 'keep'),
    maxShardSize: fc.option(fc.constant(1000), { nil: undefined }),
  });
  await fc.assert(
    fc.asyncProperty(tensors, options, async (entries, { dtype, maxShardSize }) => {
      const { files } = await convert(inventory(entries), { dtype, ...(maxShardSize ? { maxShardSize } : {}) });
      const found = new Map(
        [...files]
          .filter(([path]) => path.endsWith('.safetensors'))
          .flatMap(([, bytes]) => [...readSafetensors(Buffer.from(bytes)).tensors]),
      );
      expect(found.size).toBe(entries.length);
      for (const { name, shape, stored } of entries) {
        const bytes = gather(stored.pieces, (shape[0] ?? 0) * bytesOf(stored.dtype));
        const target = ({ fp32: 'F32', fp16: 'F16', bf16: 'BF16', keep: undefined } as const)[dtype];
        const from = stored.dtype;
        const isFloat = from === 'F32' || from === 'F16' || from === 'BF16' || from === 'F64';
        const expected = isFloat && target && target !== from ? convertBytes(bytes, from, target) : bytes;
        expect(found.get(name)?.sha256).toBe(sha256(expected));
      }
    }),
    { numRuns: 150 },
  );
});

test('writes the same bytes with any amount of memory', async () => {
  const entries = [masterOf('a', 300, 0), masterOf('b', 301, 1300), masterOf('c', 7, 3000)];
  const little = await convert(inventory(entries), { dtype: 'bf16' }, { memory: 1 });
  const much = await convert(inventory(entries), { dtype: 'bf16' }, { memory: 2 ** 30 });
  expect(little.files).toEqual(much.files);
});

test('negates and conjugates lazy views', async () => {
  const stored = (dtype: DType, flip: 'neg' | 'conj' | 'neg-conj'): TensorEntry => ({
    name: `${dtype} ${flip}`,
    shape: [1],
    origin: 'buffer',
    stored: { dtype, flip, pieces: [{ source: 0, offset: 0, length: bytesOf(dtype), at: 0 }] },
  });
  const files = { 'rank0.pt': new Uint8Array(new Float32Array([1, 2]).buffer), 'rank1.pt': new Uint8Array(8) };
  const sources = Object.keys(files).map((path) => ({ path, size: 8, modified: 0 }));
  const found = inventoryOf(
    [stored('F32', 'neg'), stored('C64', 'neg'), stored('C64', 'conj'), stored('C64', 'neg-conj')],
    { sources },
  );
  const output = memoryOutput();
  await run(plan(found, { dtype: 'keep' }), { input: memoryTree(files), output });
  const { tensors: read } = readSafetensors(Buffer.from(output.files.get('model.safetensors') ?? []));
  const hash = (...values: number[]) => sha256(new Uint8Array(new Float32Array(values).buffer));
  expect(read.get('F32 neg')?.sha256).toBe(hash(-1));
  expect(read.get('C64 neg')?.sha256).toBe(hash(-1, -2));
  expect(read.get('C64 conj')?.sha256).toBe(hash(1, -2));
  expect(read.get('C64 neg-conj')?.sha256).toBe(hash(-1, 2));
});

describe('report', () => {
  const values = new Float32Array([1, -7e4, Number.NaN, Number.POSITIVE_INFINITY, 1e-30, 0]);
  const files = { 'rank0.pt': new Uint8Array(values.buffer), 'rank1.pt': new Uint8Array(1) };
  const sources = [
    { path: 'rank0.pt', size: 24, modified: 0 },
    { path: 'rank1.pt', size: 1, modified: 0 },
  ];
  const found = inventoryOf([masterOf('w', 6, 0)], { sources });

  test('counts overflow, underflow, NaN and Inf of a conversion, and the largest magnitude', async () => {
    const output = memoryOutput();
    const report = await run(plan(found, { dtype: 'fp16', overflow: 'inf' }), { input: memoryTree(files), output });
    const stats = { overflow: 1, underflow: 1, nan: 1, inf: 1, largest: 7e4 };
    expect(report.tensors).toMatchObject([{ name: 'w', file: 'model.safetensors', from: 'F32', to: 'F16', stats }]);
  });

  test('counts NaN and Inf of a copy as well', async () => {
    const report = await run(plan(found), { input: memoryTree(files), output: memoryOutput() });
    expect(report.tensors[0]?.stats).toEqual({ overflow: 0, underflow: 0, nan: 1, inf: 1, largest: 7e4 });
  });

  test.each(['fp32', 'bf16', 'keep'] as const)('tells of weights that are zero throughout, in %s', async (dtype) => {
    const bytes = new Uint8Array(Float32Array.of(0, -0, 0, 0, 1e-30, 0, 0, Number.NaN, 0).buffer);
    const input = memoryTree({ 'rank0.pt': bytes, 'rank1.pt': new Uint8Array(1) });
    const codesOf = async (...tensors: TensorEntry[]) => {
      const inventory = inventoryOf(tensors, { sources: sources.map((source) => ({ ...source, size: 36 })) });
      const { warnings } = await run(plan(inventory, { dtype }), { input, output: memoryOutput() });
      return warnings.map(({ code, message }) => `${code}: ${message}`);
    };
    expect(await codesOf(masterOf('w', 4, 0))).toEqual(['all-zero: All elements of w are zero in the checkpoint.']);
    expect(await codesOf(masterOf('w', 4, 0), masterOf('v', 2, 8))).toEqual([
      'all-zero: All elements of 2 tensors (w, …) are zero in the checkpoint.',
    ]);
    // A small number, a NaN, a single element, a buffer.
    expect(await codesOf(masterOf('w', 5, 0))).toEqual([]);
    expect(await codesOf(masterOf('w', 3, 24))).toEqual([]);
    expect(await codesOf(masterOf('w', 1, 0))).toEqual([]);
    expect(await codesOf({ ...masterOf('w', 4, 0), origin: 'buffer' })).toEqual([]);
  });

  test('an overflow stops the run with the tensor, its number of such values and its largest one', async () => {
    const output = memoryOutput();
    const detail = await rejectionOf(run(plan(found, { dtype: 'fp16' }), { input: memoryTree(files), output }));
    expect(detail).toMatchObject({
      kind: 'overflow',
      code: 'overflow',
      facts: { tensor: 'w', expected: 65504, found: 70000, count: 1 },
    });
    expect(output.files.size).toBe(0);
  });

  test('an overflow becomes the largest finite value where asked', async () => {
    const output = memoryOutput();
    await run(plan(found, { dtype: 'fp16', overflow: 'clamp' }), { input: memoryTree(files), output });
    const bytes = output.files.get('model.safetensors') ?? new Uint8Array();
    const halves = new Uint16Array(bytes.slice(-12).buffer);
    expect([...halves].map((half) => half.toString(16))).toEqual(['3c00', 'fbff', '7e00', '7c00', '0', '0']);
  });

  test('progress rises to the total, and every file is closed', async () => {
    const steps: RunProgress[] = [];
    const { report } = await convert(
      inventory([masterOf('a', 300, 0), masterOf('b', 300, 1300)]),
      { maxShardSize: 1200 },
      {
        onProgress: (step) => steps.push(step),
      },
    );
    const written = steps.map((step) => step.written);
    expect(written).toEqual(written.toSorted((a, b) => a - b));
    expect(written.at(-1)).toBe(report.bytesWritten);
    expect(steps.at(-1)).toMatchObject({ total: report.bytesWritten, files: 3, filesDone: 3 });
    expect(steps.filter((step) => step.phase === 'close').map((step) => step.file)).toHaveLength(3);
    expect(steps.findLast((step) => step.phase === 'close')?.file).toBe('model.safetensors.index.json');
  });
});

describe('recorded CRCs', () => {
  const range = (offset: number, length: number) => ({
    source: 0,
    offset,
    length,
    crc32: crc32(FILES['rank0.pt'].subarray(offset, offset + length)),
  });
  const entries = [masterOf('b', 10, 0), masterOf('a', 10, 48)];

  test('are compared with what was read in any order, with the bytes between that nobody needed', async () => {
    const { report } = await convert(inventory(entries, { crcs: [range(0, 100)] }));
    expect(statusOf(report, 'input-crc32')).toBe('passed');
  });

  test('stop the run where one is wrong, with both values and nothing left behind', async () => {
    const wrong = { ...range(0, 100), crc32: 0x12345678 };
    const output = memoryOutput();
    const detail = await rejectionOf(
      run(plan(inventory(entries, { crcs: [wrong] })), { input: memoryTree(FILES), output }),
    );
    expect(detail).toMatchObject({
      kind: 'bad-file',
      code: 'crc-mismatch',
      facts: { file: 'rank0.pt', offset: 0, expected: '12345678' },
    });
    expect(output.files.size).toBe(0);
  });

  test('are not compared where the user says so', async () => {
    const wrong = { ...range(0, 100), crc32: 0x12345678 };
    const { report } = await convert(inventory(entries, { crcs: [wrong] }), {}, { verify: false });
    expect(statusOf(report, 'input-crc32')).toBe('not-checkable');
  });

  test('are not compared where none is recorded, and that is told', async () => {
    const { report } = await convert(inventory(entries));
    expect(report.checks.find(({ id }) => id === 'input-crc32')).toEqual({
      id: 'input-crc32',
      status: 'not-checkable',
      detail: 'No storage has a recorded CRC-32 and was read whole.',
    });
  });

  test('count a tensor once that is written under two names', async () => {
    const found = inventory([masterOf('a', 10, 0)], { crcs: [range(0, 40)], aliases: { b: 'a' } });
    const { report } = await convert(found, { duplicateTied: true });
    expect(statusOf(report, 'input-crc32')).toBe('passed');
  });
});

describe('outputs', () => {
  const found = inventory([masterOf('a', 300, 0), masterOf('b', 300, 1300)]);

  test('that are there already are refused, and left as they are', async () => {
    const output = memoryOutput();
    const options = { input: memoryTree(FILES), output };
    await run(plan(found), options);
    const before = output.files.get('model.safetensors');
    const detail = await rejectionOf(run(plan(found, { dtype: 'bf16' }), options));
    expect(detail).toMatchObject({ kind: 'sink', code: 'output-exists', facts: { file: 'model.safetensors' } });
    expect(output.files.get('model.safetensors')).toEqual(before);
  });

  test('that are there already are replaced where asked', async () => {
    const output = memoryOutput();
    const options = { input: memoryTree(FILES), output };
    await run(plan(found), options);
    await run(plan(found, { dtype: 'bf16' }), { ...options, overwrite: true });
    const { tensors: read } = readSafetensors(Buffer.from(output.files.get('model.safetensors') ?? []));
    expect(read.get('a')?.dtype).toBe('BF16');
  });

  test.each(['create', 'write', 'close'] as const)('a failure to %s any file leaves none', async (step) => {
    for (let failing = 0; failing < 3; failing++) {
      const output = memoryOutput();
      const detail = await rejectionOf(
        run(plan(found, { maxShardSize: 1200 }), {
          input: memoryTree(FILES),
          output: failingOutput(output, step, failing),
        }),
      );
      expect(detail).toMatchObject({ kind: 'sink', code: 'test' });
      expect([...output.files.keys()]).toEqual([]);
    }
  });

  test('a cancelled run leaves none and rejects with the reason', async () => {
    const output = memoryOutput();
    const cancel = new AbortController();
    const cancelled = run(plan(found, { maxShardSize: 1200 }), {
      input: memoryTree(FILES),
      output,
      memory: 1,
      signal: cancel.signal,
      onProgress: () => cancel.abort(),
    });
    await expect(cancelled).rejects.toMatchObject({ name: 'AbortError' });
    expect([...output.files.keys()]).toEqual([]);
  });

  test('a source that changed since it was inspected is refused', async () => {
    const input = memoryTree({ ...FILES, 'rank0.pt': patternBytes(0, SIZE + 1) });
    const output = memoryOutput();
    const detail = await rejectionOf(run(plan(found), { input, output }));
    expect(detail).toMatchObject({
      kind: 'source',
      code: 'source-changed',
      facts: { file: 'rank0.pt', expected: SIZE, found: SIZE + 1 },
    });
    expect(output.files.size).toBe(0);
  });
});

describe('a file that is complete', () => {
  const found = inventory([masterOf('a', 300, 0), masterOf('b', 300, 1200)]);

  /** What happens to the files of a run in two shards: opened to be read back, and told of. */
  async function happenings(more: { verify: boolean; readable: boolean }): Promise<string[]> {
    const seen: string[] = [];
    const tree = memoryOutput();
    const output: OutputTree = {
      ...tree,
      async open(path) {
        seen.push(`read ${path}`);
        if (!more.readable) throw new Error('unreadable');
        return tree.open(path);
      },
    };
    const made = plan(found, { maxShardSize: 1200 });
    const options = { input: memoryTree(FILES), output, verify: more.verify };
    await run(made, { ...options, onFile: (path) => seen.push(`told ${path}`) }).catch(() => seen.push('failed'));
    return seen;
  }
  const FILE = 'model-00001-of-00002.safetensors';

  test('is told of once, after it was read back', async () => {
    const seen = await happenings({ verify: true, readable: true });
    expect(seen.filter((text) => text.endsWith(FILE))).toEqual([`read ${FILE}`, `told ${FILE}`]);
    expect(seen.filter((text) => text.startsWith('told'))).toHaveLength(3);
    expect(seen.at(-1)).toBe('told model.safetensors.index.json');
  });

  test('is told of at once where nothing is read back', async () => {
    const seen = await happenings({ verify: false, readable: false });
    expect(seen.filter((text) => text.endsWith(FILE))).toEqual([`told ${FILE}`]);
  });

  test('is not told of where it cannot be read back', async () => {
    const seen = await happenings({ verify: true, readable: false });
    expect(seen.filter((text) => text.startsWith('told'))).toEqual([]);
    expect(seen.at(-1)).toBe('failed');
  });
});

describe('the memory of the kernels', () => {
  const found = inventory([masterOf('a', 300, 0), masterOf('b', 300, 1200)]);
  /** Where a small reservation lands: as near to the start as what is still reserved allows. */
  const firstGap = () => {
    const bytes = reserveBytes(2 ** 20);
    releaseBytes(bytes);
    return addressOf(bytes);
  };

  test('is given back by a run that ends, that fails, and that is cancelled', async () => {
    await convert(found, { dtype: 'bf16' });
    const before = firstGap();
    expect(before).toBeDefined();
    await convert(found, { dtype: 'bf16' });
    const input = memoryTree({ ...FILES, 'rank0.pt': patternBytes(0, SIZE - 1) });
    await expect(convert(found, { dtype: 'bf16' }, { input })).rejects.toThrow('rank0.pt');
    const cancel = new AbortController();
    const stopped = convert(found, { dtype: 'bf16' }, { signal: cancel.signal, onProgress: () => cancel.abort() });
    await expect(stopped).rejects.toMatchObject({ name: 'AbortError' });
    expect(firstGap()).toBe(before);
  });
});

describe('a backend that fails', () => {
  const found = inventory([masterOf('a', 300, 0)]);
  const broken = (kind: 'gpu' | 'source'): Backend => ({
    name: 'gpu',
    description: 'broken',
    convert: async (job) => {
      job.output.fill(0xff);
      throw new UnshardError({ kind, code: 'test', message: 'lost.', advice: '', facts: {} });
    },
    close: async () => {},
  });

  test('is replaced by the CPU, with the same bytes, and the report says so', async () => {
    const good = await convert(found, { dtype: 'bf16' }, { backend: cpuBackend() });
    const fallen = await convert(found, { dtype: 'bf16' }, { backend: broken('gpu') });
    expect(fallen.files).toEqual(good.files);
    expect(fallen.report.backend).toMatchObject({ name: 'gpu', jobsOnCpu: 1 });
    expect(good.report.backend).toMatchObject({ name: 'cpu', jobsOnCpu: 0 });
  });

  test('for another reason ends the run', async () => {
    const detail = await rejectionOf(convert(found, { dtype: 'bf16' }, { backend: broken('source') }));
    expect(detail.code).toBe('test');
  });
});

describe('a .bin of many small tensors', () => {
  test('is written in a few pieces, not one for each', async () => {
    const found = inventory(Array.from({ length: 300 }, (_, i) => masterOf(`w${i}`, 3, i * 12)));
    const output = memoryOutput();
    let writes = 0;
    const counting: OutputTree = {
      ...output,
      async create(path, byteLength) {
        const sink = await output.create(path, byteLength);
        const write = (at: number, bytes: Uint8Array) => {
          writes++;
          return sink.write(at, bytes);
        };
        return { ...sink, write };
      },
    };
    await run(plan(found, { format: 'bin' }), { input: memoryTree(FILES), output: counting });
    // A tile, the descriptor of the record that ends it, and the directory.
    expect(writes).toBe(3);
  });
});

/** An output whose `failing`th file fails at one step. */
function failingOutput(output: OutputTree, step: 'create' | 'write' | 'close', failing: number): OutputTree {
  let created = 0;
  const fail = () => {
    throw new UnshardError({ kind: 'sink', code: 'test', message: 'full.', advice: '', facts: {} });
  };
  return {
    ...output,
    async create(path, byteLength) {
      const fails = created++ === failing;
      if (fails && step === 'create') fail();
      const sink = await output.create(path, byteLength);
      return {
        write: async (at, bytes) => (fails && step === 'write' ? fail() : sink.write(at, bytes)),
        close: async () => (fails && step === 'close' ? fail() : sink.close()),
        abort: () => sink.abort(),
      };
    },
  };
}
