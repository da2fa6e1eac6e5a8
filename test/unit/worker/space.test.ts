import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { UnshardError } from '../../../src/base/errors.js';
import { memoryOutput } from '../../../src/io/memory.js';
import type { OutputTree } from '../../../src/io/types.js';
import { boundBySpace, type SpaceWait } from '../../../src/worker/space.js';

/** A tree of so many bytes, and what it told. The files of `busy` cannot be removed. */
function bounded(capacity: number | undefined, busy: readonly string[] = []) {
  const memory = memoryOutput();
  const remove = async (path: string): Promise<void> => {
    if (busy.includes(path)) throw new Error(`${path} is busy`);
    await memory.remove(path);
  };
  const job = new AbortController();
  const waits: (SpaceWait | undefined)[] = [];
  /** Bytes that are taken by what is not finished. */
  const taken = { bytes: 0 };
  const bound = boundBySpace(
    { ...memory, remove },
    {
      spaceFor: async () => {
        const used = [...memory.files.values()].reduce((sum, bytes) => sum + bytes.length, 0);
        return capacity === undefined ? undefined : capacity - used - taken.bytes;
      },
      onWait: (wait) => waits.push(wait),
      signal: job.signal,
    },
  );
  return { ...bound, memory, waits, taken, job };
}

async function write(tree: OutputTree, path: string, byteLength: number): Promise<void> {
  const sink = await tree.create(path, byteLength);
  await sink.write(0, new Uint8Array(byteLength));
  await sink.close();
}

/** Lets everything that can go on do so. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 5));

describe('a tree of little space', () => {
  it('takes files as long as they fit', async () => {
    const { tree, memory, waits, keptBytes } = bounded(10);
    await write(tree, 'a', 6);
    await write(tree, 'b', 4);
    expect([...memory.files.keys()]).toEqual(['a', 'b']);
    expect(keptBytes()).toBe(10);
    expect(waits).toEqual([]);
  });

  it('lets a file wait with both numbers until enough is let go', async () => {
    const { tree, memory, waits, letGo, keptBytes } = bounded(10);
    await write(tree, 'a', 3);
    await write(tree, 'b', 5);
    const writing = write(tree, 'c', 9);
    await settled();
    expect(waits).toEqual([{ path: 'c', needed: 9, free: 2, kept: ['a', 'b'] }]);
    await letGo(['a']);
    await settled();
    expect(waits.slice(1)).toEqual([undefined, { path: 'c', needed: 9, free: 5, kept: ['b'] }]);
    await letGo(['b']);
    await writing;
    expect(waits.at(-1)).toBeUndefined();
    expect([...memory.files.keys()]).toEqual(['c']);
    expect(keptBytes()).toBe(9);
  });

  it('lets a file wait for one that is not finished, and is told where that is dropped', async () => {
    const { tree, memory, waits, taken, letGo } = bounded(10);
    const sink = await tree.create('a', 10);
    await sink.write(0, new Uint8Array(10));
    taken.bytes = 10;
    const writing = write(tree, 'b', 4);
    await settled();
    expect(waits).toEqual([{ path: 'b', needed: 4, free: 0, kept: [] }]);
    taken.bytes = 0;
    await sink.close();
    await settled();
    expect(waits.slice(1)).toEqual([undefined, { path: 'b', needed: 4, free: 0, kept: ['a'] }]);
    await letGo(['a']);
    await writing;
    const dropped = await tree.create('c', 6);
    taken.bytes = 6;
    const last = write(tree, 'd', 4);
    await settled();
    taken.bytes = 0;
    await dropped.abort();
    await last;
    expect([...memory.files.keys()].sort()).toEqual(['b', 'd']);
  });

  it('lets two files wait at once', async () => {
    const { tree, memory, letGo } = bounded(10);
    await write(tree, 'a', 9);
    const writing = Promise.all([write(tree, 'b', 4), write(tree, 'c', 4)]);
    await settled();
    expect([...memory.files.keys()]).toEqual(['a']);
    await letGo(['a']);
    await writing;
    expect([...memory.files.keys()].sort()).toEqual(['b', 'c']);
  });

  it('looks again where something was let go while it looked', async () => {
    const memory = memoryOutput();
    const waits: (SpaceWait | undefined)[] = [];
    const looks: ((free: number) => void)[] = [];
    const { tree, letGo } = boundBySpace(memory, {
      spaceFor: () => new Promise((resolve) => looks.push(resolve)),
      onWait: (wait) => waits.push(wait),
      signal: new AbortController().signal,
    });
    const answer = async (free: number): Promise<void> => {
      looks.shift()?.(free);
      await settled();
    };
    for (const path of ['a', 'b']) {
      const writing = write(tree, path, 4);
      await answer(9);
      await writing;
    }
    const writing = write(tree, 'c', 4);
    await letGo(['a']);
    await answer(1);
    expect([waits, looks.length]).toEqual([[], 1]);
    await answer(5);
    await writing;
    expect([...memory.files.keys()]).toEqual(['b', 'c']);
  });

  it('goes on looking where a file cannot be removed, and names it no more', async () => {
    const { tree, memory, waits, letGo } = bounded(10, ['a']);
    for (const path of ['a', 'b', 'c']) await write(tree, path, 3);
    const writing = write(tree, 'd', 5);
    await settled();
    await expect(letGo(['a', 'b'])).rejects.toThrow('a is busy');
    await settled();
    expect(waits.at(-1)).toEqual({ path: 'd', needed: 5, free: 4, kept: ['c'] });
    await letGo(['c']);
    await writing;
    expect([...memory.files.keys()]).toEqual(['a', 'd']);
  });

  it('tries again where space that was found is refused, and in the end says so', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const full = new UnshardError({ kind: 'sink', code: 'sink-no-space', message: '', advice: '', facts: {} });
    const memory = memoryOutput();
    let refusals = 2;
    const create: OutputTree['create'] = async (path, byteLength) => {
      if (refusals-- > 0) throw full;
      return memory.create(path, byteLength);
    };
    const spaceFor = async (): Promise<number> => 10;
    const { signal } = new AbortController();
    const { tree } = boundBySpace({ ...memory, create }, { spaceFor, onWait: () => {}, signal });
    const writing = write(tree, 'a', 4);
    await vi.advanceTimersByTimeAsync(1000);
    await writing;
    expect([...memory.files.keys()]).toEqual(['a']);
    refusals = Number.POSITIVE_INFINITY;
    const refused = expect(write(tree, 'b', 4)).rejects.toBe(full);
    await vi.advanceTimersByTimeAsync(60_000);
    await refused;
  });

  it('leaves it to the tree where nothing can be let go, or the space is not known', async () => {
    const none = bounded(10);
    await write(none.tree, 'a', 11);
    const unknown = bounded(undefined);
    await write(unknown.tree, 'a', 6);
    await write(unknown.tree, 'b', 6);
    expect([none.waits, unknown.waits]).toEqual([[], []]);
  });

  it('stops waiting when the job is cancelled', async () => {
    const { tree, job } = bounded(10);
    await write(tree, 'a', 9);
    const writing = write(tree, 'b', 9);
    await settled();
    job.abort(new DOMException('Cancelled.', 'AbortError'));
    await expect(writing).rejects.toMatchObject({ name: 'AbortError' });
    await expect(write(tree, 'c', 1)).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('passes everything else on', async () => {
    const { tree, memory, keptBytes } = bounded(10);
    await (await tree.create('a', 1)).abort();
    await write(tree, 'b', 2);
    expect(await tree.has('b')).toBe(true);
    expect((await tree.open('b')).size).toBe(2);
    await tree.remove('b');
    expect([memory.files.size, keptBytes(), tree.name]).toEqual([0, 0, 'memory']);
  });
});
