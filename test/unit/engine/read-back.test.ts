import { describe, expect, test } from 'vitest';
import { run } from '../../../src/engine/run.js';
import { type MemoryOutput, memoryOutput, memorySource, memoryTree } from '../../../src/io/memory.js';
import type { ByteSource, OutputTree } from '../../../src/io/types.js';
import { plan } from '../../../src/plan/make.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { rejectionOf } from '../../helpers/errors.js';
import { inventoryOf, masterOf } from '../../helpers/inventory.js';
import { patternBytes } from '../../helpers/pattern.js';
import { sha256 } from '../../helpers/safetensors.js';

const SIZE = 4000;
const FILES = { 'rank0.pt': patternBytes(0, SIZE), 'rank1.pt': patternBytes(SIZE, SIZE) };
const SOURCES = Object.keys(FILES).map((path) => ({ path, size: SIZE, modified: 0 }));
const FOUND = inventoryOf([masterOf('a', 300, 0), masterOf('b', 301, 1300)], { sources: SOURCES });

function convert(output: OutputTree, options: PlanOptions = {}, more: Partial<Parameters<typeof run>[1]> = {}) {
  const made = plan(FOUND, { overflow: 'inf', ...options });
  return run(made, { input: memoryTree(FILES), output, ...more });
}

/** An output whose finished files are changed by `edit` when they are read back. */
function changed(output: MemoryOutput, edit: (bytes: Uint8Array<ArrayBuffer>, path: string) => Uint8Array): OutputTree {
  return {
    ...output,
    async open(path) {
      const bytes = output.files.get(path)?.slice() ?? new Uint8Array();
      return memorySource(path, edit(bytes, path));
    },
  };
}

/** An output that can be read before it is closed; `edit` changes what is read at an offset. */
function readable(output: MemoryOutput, edit: (bytes: Uint8Array, at: number) => void): OutputTree {
  return {
    ...output,
    async create(path, byteLength) {
      const sink = await output.create(path, byteLength);
      const written = new Uint8Array(byteLength);
      return {
        ...sink,
        async write(at, bytes) {
          written.set(bytes, at);
          await sink.write(at, bytes);
        },
        async read(at, into) {
          into.set(written.subarray(at, at + into.length));
          edit(into, at);
        },
      };
    },
  };
}

describe.each(['safetensors', 'bin'] as const)('a %s file that can be read before it is closed', (format) => {
  const path = format === 'bin' ? 'pytorch_model.bin' : 'model.safetensors';

  test('is compared then, and only its header is read when it is closed', async () => {
    const output = memoryOutput();
    let read = 0;
    const counting = readable(output, (bytes) => {
      read += bytes.length;
    });
    const report = await convert(counting, { format });
    expect(report.checks.at(-1)).toMatchObject({ id: 'read-back', status: 'passed' });
    expect(read).toBeGreaterThanOrEqual(report.bytesWritten - 700);
    expect(read).toBeLessThan(report.bytesWritten + 700);
  });

  test('and of which any single byte is another is refused, and never appears', async () => {
    const whole = memoryOutput();
    await convert(whole, { format });
    const bytes = whole.files.get(path) ?? new Uint8Array();
    for (let at = 0; at < bytes.length; at += 41) {
      const output = memoryOutput();
      let isWritten = false;
      const broken = readable(output, (part, from) => {
        const place = at - from;
        if (place < 0 || place >= part.length) return;
        isWritten = true;
        part[place] = (part[place] ?? 0) ^ 0x10;
      });
      const found = await convert(broken, { format }).catch((error) => error);
      if (isWritten) expect(found).toMatchObject({ detail: { kind: 'sink', code: 'read-back-differs' } });
      expect(output.files.has(path)).toBe(!isWritten);
    }
  });
});

describe.each(['safetensors', 'bin'] as const)('the SHA-256 of a %s file', (format) => {
  test.each([true, false])('is that of its bytes (verify: %s)', async (verify) => {
    const output = memoryOutput();
    const places = [output, readable(memoryOutput(), () => {})];
    for (const place of places) {
      const { files } = await convert(place, { format, maxShardSize: 1300 }, { sha256: true, verify });
      expect(files).toHaveLength(3);
      for (const file of files) expect(file.sha256).toBe(sha256(output.files.get(file.path) ?? new Uint8Array()));
    }
  });

  test('is absent where nobody asked', async () => {
    const { files } = await convert(memoryOutput(), { format });
    expect(Object.keys(files[0] ?? {})).toEqual(['path', 'byteLength', 'crc32']);
  });
});

describe.each(['safetensors', 'bin'] as const)('a %s file', (format) => {
  const path = format === 'bin' ? 'pytorch_model.bin' : 'model.safetensors';

  test('that holds what was written passes, and the report says so', async () => {
    const report = await convert(memoryOutput(), { format });
    const detail = `Read back: 1 file of ${report.bytesWritten} bytes. Each holds what was written, and its header says where.`;
    expect(report.checks.at(-1)).toEqual({ id: 'read-back', status: 'passed', detail });
  });

  test('of which any single byte is another is refused and removed', async () => {
    const whole = memoryOutput();
    await convert(whole, { format });
    const length = whole.files.get(path)?.length ?? 0;
    // Every byte of the headers, the padding and the end; tensors in steps.
    const places = [...Array(length).keys()].filter((at) => at < 700 || at > length - 700 || at % 97 === 0);
    for (const at of places) {
      const output = memoryOutput();
      const broken = changed(output, (bytes) => {
        bytes[at] = (bytes[at] ?? 0) ^ 0x10;
        return bytes;
      });
      const detail = await rejectionOf(convert(broken, { format }));
      expect(detail).toMatchObject({ kind: 'sink', code: 'read-back-differs', facts: { file: path } });
      expect([...output.files.keys()]).toEqual([]);
    }
  });

  test('that is shorter or longer is refused, with both sizes', async () => {
    for (const by of [-1, 1]) {
      let expected = 0;
      const broken = changed(memoryOutput(), (bytes) => {
        expected = bytes.length;
        const other = new Uint8Array(expected + by);
        other.set(bytes.subarray(0, other.length));
        return other;
      });
      const { facts } = await rejectionOf(convert(broken, { format }));
      expect(facts).toEqual({ file: path, expected, found: expected + by });
    }
  });
});

describe('a header', () => {
  const equal = inventoryOf([masterOf('a', 300, 0), masterOf('b', 300, 1300)], { sources: SOURCES });

  test.each(['safetensors', 'bin'] as const)(
    'that names a tensor in the place of another is refused (%s)',
    async (format) => {
      const made = plan(equal, { format });
      const [a, b] = made.tensors;
      if (!a || !b) throw new Error('two tensors are planned');
      const swapped = {
        ...made,
        tensors: [
          { ...a, name: 'b' },
          { ...b, name: 'a' },
        ],
      };
      const output = memoryOutput();
      await run(made, { input: memoryTree(FILES), output });
      const detail = await rejectionOf(run(swapped, { input: memoryTree(FILES), output, overwrite: true }));
      expect(detail).toMatchObject({ kind: 'sink', code: 'read-back-differs' });
      expect(detail.message).toContain('the place of b should be F32 [300] at');
      expect([...output.files.keys()]).toEqual([]);
    },
  );

  test('that no reader understands is refused', async () => {
    const made = plan(equal);
    const files = made.files.map((file) => ({
      ...file,
      parts: file.parts.map((part) =>
        part.kind === 'literal'
          ? { ...part, base64: btoa(atob(part.base64).replace('data_offsets', 'data_offset_')) }
          : part,
      ),
    }));
    const detail = await rejectionOf(run({ ...made, files }, { input: memoryTree(FILES), output: memoryOutput() }));
    expect(detail).toMatchObject({ code: 'read-back-differs', facts: { found: 'safetensors-bad-header' } });
  });
});

test('a damaged shard is named, and all files are removed', async () => {
  const output = memoryOutput();
  const broken = changed(output, (bytes, path) => (path.startsWith('model-00002') ? bytes.reverse() : bytes));
  const detail = await rejectionOf(convert(broken, { maxShardSize: 1204 }));
  expect(detail.facts['file']).toBe('model-00002-of-00002.safetensors');
  expect([...output.files.keys()]).toEqual([]);
});

test('a file that cannot be opened again ends the run with the reason', async () => {
  const output = memoryOutput();
  const closed: OutputTree = { ...output, open: (path) => memoryOutput().open(path) };
  expect(await rejectionOf(convert(closed))).toMatchObject({ kind: 'source', code: 'source-missing' });
  expect([...output.files.keys()]).toEqual([]);
});

test('nothing is read back where the user says so', async () => {
  const output = memoryOutput();
  const unread: OutputTree = { ...output, open: () => Promise.reject(new Error('opened')) };
  const report = await convert(unread, {}, { verify: false });
  expect(report.checks.at(-1)).toMatchObject({ id: 'read-back', status: 'not-checkable' });
});

/** An output that logs what happens, and waits for `gate` before a file named `held` is read. */
function logged(output: MemoryOutput, log: string[], held: string, gate: Promise<void>): OutputTree {
  return {
    ...output,
    async create(path, byteLength) {
      log.push(`create ${path}`);
      const sink = await output.create(path, byteLength);
      return {
        ...sink,
        write: (at, bytes) => sink.write(at, bytes),
        abort: () => sink.abort(),
        async close() {
          await sink.close();
          log.push(`close ${path}`);
        },
      };
    },
    async open(path): Promise<ByteSource> {
      const source = await output.open(path);
      return {
        ...source,
        async read(offset, into, signal) {
          if (path === held) await Promise.race([gate, aborted(signal)]);
          await source.read(offset, into, signal);
          if (offset === 0) log.push(`read ${path}`);
        },
      };
    },
  };
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
}

describe('reading back', () => {
  const [first, second] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];
  const index = 'model.safetensors.index.json';

  test('goes on while the next file is written, and the index waits for it', async () => {
    const log: string[] = [];
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const output = logged(memoryOutput(), log, first, gate);
    const running = convert(output, { maxShardSize: 1204 });
    await expect.poll(() => log).toContain(`close ${second}`);
    expect(log).not.toContain(`read ${first}`);
    expect(log).not.toContain(`close ${index}`);
    release();
    await running;
    // The header is read once more.
    const lines = [...new Set(log)].filter((line) => !line.startsWith('create')).slice(-4);
    expect(lines.slice(0, 2).toSorted()).toEqual([`read ${first}`, `read ${second}`]);
    expect(lines.slice(2)).toEqual([`close ${index}`, `read ${index}`]);
  });

  test('ends at once when the run is cancelled, and nothing is left', async () => {
    const log: string[] = [];
    const memory = memoryOutput();
    const cancel = new AbortController();
    const never = new Promise<void>(() => {});
    const running = convert(logged(memory, log, first, never), { maxShardSize: 1204 }, { signal: cancel.signal });
    await expect.poll(() => log).toContain(`close ${second}`);
    cancel.abort();
    await expect(running).rejects.toMatchObject({ name: 'AbortError' });
    expect([...memory.files.keys()]).toEqual([]);
  });

  test('is told as a phase of its own', async () => {
    const phases: string[] = [];
    await convert(
      memoryOutput(),
      { maxShardSize: 1204 },
      { onProgress: ({ phase, file }) => phases.push(`${phase} ${file}`) },
    );
    expect(phases.filter((phase) => phase.startsWith('check'))).toEqual([
      `check ${first}`,
      `check ${second}`,
      `check ${index}`,
    ]);
  });
});

describe('closing files', () => {
  const SHARDS = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'] as const;

  /** A run whose closings wait to be let go; `log` tells what was written and what begins to close. */
  function held(filesInFlight: number) {
    const log: string[] = [];
    const gates = new Map(SHARDS.map((path) => [path as string, { open: () => {} }]));
    const output = memoryOutput();
    const waiting: OutputTree = {
      ...output,
      async create(path, byteLength) {
        const sink = await output.create(path, byteLength);
        return {
          abort: () => sink.abort(),
          async write(at, bytes) {
            log.push(`write ${path}`);
            await sink.write(at, bytes);
          },
          async close() {
            log.push(`close ${path}`);
            const gate = gates.get(path);
            if (gate) await new Promise<void>((go) => Object.assign(gate, { open: go }));
            await sink.close();
          },
        };
      },
    };
    const running = convert(waiting, { maxShardSize: 1204 }, { filesInFlight, memory: 1 });
    return { log, output, running, letGo: (path: string) => gates.get(path)?.open() };
  }

  test('goes on while others are written, in whatever memory', async () => {
    const { log, output, running, letGo } = held(1);
    await expect.poll(() => log).toContain(`write ${SHARDS[1]}`);
    // One file is closed at a time.
    expect(log).not.toContain(`close ${SHARDS[1]}`);
    expect(output.files.has(SHARDS[0])).toBe(false);
    letGo(SHARDS[0]);
    await expect.poll(() => log).toContain(`close ${SHARDS[1]}`);
    letGo(SHARDS[1]);
    await running;
    expect([...output.files.keys()].toSorted()).toEqual([...SHARDS, 'model.safetensors.index.json']);
  });

  test('is done for as many files at once as are written at once', async () => {
    const { log, running, letGo } = held(2);
    await expect.poll(() => log).toContain(`close ${SHARDS[1]}`);
    for (const path of SHARDS) letGo(path);
    await running;
  });

  test('that fails ends the run with its reason, and nothing is left', async () => {
    const output = memoryOutput();
    const failing: OutputTree = {
      ...output,
      async create(path, byteLength) {
        const sink = await output.create(path, byteLength);
        const close = () => (path === SHARDS[0] ? Promise.reject(new Error('full')) : sink.close());
        return { write: (at, bytes) => sink.write(at, bytes), abort: () => sink.abort(), close };
      },
    };
    await expect(convert(failing, { maxShardSize: 1204 })).rejects.toThrow('full');
    expect([...output.files.keys()]).toEqual([]);
  });
});
