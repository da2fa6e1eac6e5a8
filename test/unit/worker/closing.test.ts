import { expect, it } from 'vitest';
import { memoryOutput } from '../../../src/io/memory.js';
import type { OutputTree } from '../../../src/io/types.js';
import { watchClosing } from '../../../src/worker/closing.js';

const MEGABYTE = 1_000_000;

/** A tree in memory whose closes take `ms` milliseconds, or fail. */
function slowToClose(ms: number, failure?: Error): OutputTree {
  const tree = memoryOutput();
  return {
    ...tree,
    async create(path, byteLength) {
      const sink = await tree.create(path, byteLength);
      return {
        ...sink,
        async close() {
          await new Promise((resolve) => setTimeout(resolve, ms));
          if (failure) throw failure;
          await sink.close();
        },
      };
    },
  };
}

it('tells which files are being closed, and what a gigabyte took', async () => {
  const changes: (readonly string[])[] = [];
  const { output, watch } = watchClosing(slowToClose(50), () => changes.push(paths()));
  const paths = () => watch().closing.map(({ path }) => path);
  const a = await output.create('a', 2 * MEGABYTE);
  const b = await output.create('b', 2 * MEGABYTE);
  expect(watch()).toEqual({ closing: [] });
  const closes = [a.close(), b.close()];
  expect(watch()).toEqual({
    closing: [
      { path: 'a', byteLength: 2 * MEGABYTE, since: expect.any(Number) },
      { path: 'b', byteLength: 2 * MEGABYTE, since: expect.any(Number) },
    ],
  });
  expect(Math.abs((watch().closing[0]?.since ?? 0) - Date.now())).toBeLessThan(10_000);
  await Promise.all(closes);
  const { closing, secondsPerGigabyte } = watch();
  expect(closing).toEqual([]);
  expect(changes).toEqual([['a'], ['a', 'b'], ['b'], []]);
  // 2 MB in at least 49 ms, as timers round: 24.5 s for each GB, and far from a thousand times that.
  expect(secondsPerGigabyte).toBeGreaterThanOrEqual(24.5);
  expect(secondsPerGigabyte).toBeLessThan(24_500);
});

it('learns nothing from small files', async () => {
  const { output, watch } = watchClosing(slowToClose(1));
  await (await output.create('config.json', MEGABYTE - 1)).close();
  expect(watch()).toEqual({ closing: [] });
});

it('passes everything else on, failures too', async () => {
  const { output, watch } = watchClosing(slowToClose(1, new Error('The disk is full.')));
  const sink = await output.create('a', 3);
  await sink.write(1, Uint8Array.of(7));
  await expect(sink.close()).rejects.toThrow('The disk is full.');
  expect(watch()).toEqual({ closing: [] });
  await sink.abort();
  expect(await output.has('a')).toBe(false);

  const tree = watchClosing(memoryOutput()).output;
  const whole = await tree.create('a', 3);
  await whole.write(0, Uint8Array.of(1, 2, 3));
  await whole.close();
  expect(await tree.has('a')).toBe(true);
  expect((await tree.open('a')).size).toBe(3);
  await tree.remove('a');
  expect(await tree.has('a')).toBe(false);
  expect(tree.name).toBe('memory');
});
