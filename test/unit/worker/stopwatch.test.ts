import { describe, expect, it } from 'vitest';
import { memoryOutput } from '../../../src/io/memory.js';
import type { ByteSink, OutputTree } from '../../../src/io/types.js';
import { startStopwatch } from '../../../src/worker/stopwatch.js';

/** A clock that is set by hand, in milliseconds. */
function clock() {
  const time = { now: 0 };
  return { time, now: () => time.now };
}

/** An output whose writes and closes wait until they are let go. */
function heldOutput() {
  const tree = memoryOutput();
  const held: (() => void)[] = [];
  const hold = () => new Promise<void>((resolve) => held.push(resolve));
  const output: OutputTree = {
    ...tree,
    async create(path, byteLength): Promise<ByteSink> {
      const sink = await tree.create(path, byteLength);
      return {
        write: async (offset, bytes) => {
          await hold();
          await sink.write(offset, bytes);
        },
        close: async () => {
          await hold();
          await sink.close();
        },
        abort: () => sink.abort(),
      };
    },
  };
  return { output, letGo: () => held.shift()?.() };
}

describe('the time of a run', () => {
  it('goes to what is under way, shared out where several things are, and adds up', async () => {
    const { time, now } = clock();
    const stopwatch = startStopwatch(now);
    const { output, letGo } = heldOutput();
    const watched = stopwatch.watch(output);
    const [a, b] = [await watched.create('a', 3), await watched.create('b', 5)];
    const writing = a.write(0, Uint8Array.of(1, 2, 3));
    time.now += 1000;
    const closing = b.close();
    time.now += 400;
    letGo();
    await writing;
    time.now += 2000;
    letGo();
    await closing;
    const { read, write, close } = stopwatch.costs(0);
    expect(write).toEqual({ bytes: 3, seconds: 1.2 });
    expect(close).toEqual({ bytes: 5, seconds: 2.2 });
    expect(read.seconds + write.seconds + close.seconds).toBeCloseTo(3.4, 9);
  });

  it('goes to reading while nothing is under way', () => {
    const { time, now } = clock();
    const stopwatch = startStopwatch(now);
    time.now += 700;
    expect(stopwatch.costs(0).read).toEqual({ bytes: 0, seconds: 0.7 });
  });

  it('counts the bytes that are read, of the input and of the output', async () => {
    const stopwatch = startStopwatch(clock().now);
    const output = stopwatch.watch(memoryOutput());
    const sink = await output.create('a', 2);
    await sink.write(0, Uint8Array.of(1, 2));
    await sink.close();
    await (await output.open('a')).read(0, new Uint8Array(2));
    expect(stopwatch.costs(5).read.bytes).toBe(7);
    expect(output.name).toBe('memory');
  });

  it('does not count what failed, and goes on', async () => {
    const { time, now } = clock();
    const stopwatch = startStopwatch(now);
    const output = stopwatch.watch(memoryOutput());
    const sink = await output.create('a', 1);
    await expect(sink.write(5, new Uint8Array(1))).rejects.toThrow();
    time.now += 300;
    await sink.abort();
    expect(stopwatch.costs(0)).toEqual({
      read: { bytes: 0, seconds: 0.3 },
      write: { bytes: 0, seconds: 0 },
      close: { bytes: 0, seconds: 0 },
    });
  });

  it('lets a watched output be dropped and removed', async () => {
    const tree = memoryOutput();
    const output = startStopwatch().watch(tree);
    await (await output.create('a', 1)).abort();
    expect(await output.has('a')).toBe(false);
    const sink = await output.create('b', 1);
    await sink.write(0, Uint8Array.of(1));
    await sink.close();
    expect(await output.has('b')).toBe(true);
    await output.remove('b');
    expect(await tree.has('b')).toBe(false);
  });
});
