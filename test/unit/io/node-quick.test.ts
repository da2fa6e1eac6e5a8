import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { QuickCalls } from '../../../src/io/node-quick.js';

/** Makes calls that take so many milliseconds each where they block, and tells which did. */
async function callsOf(times: readonly number[]): Promise<boolean[]> {
  let now = 0;
  const quick = new QuickCalls(
    () => setImmediate(),
    () => now,
  );
  const blocked: boolean[] = [];
  for (const time of times) {
    const blocking = () => {
      now += time;
      return true;
    };
    blocked.push(await quick.make(blocking, async () => false));
  }
  return blocked;
}

test('calls block while they take a tenth of a millisecond on average', async () => {
  expect(await callsOf(Array(1000).fill(0.1))).toEqual(Array(1000).fill(true));
  const slower = await callsOf(Array(1000).fill(0.2));
  expect(slower.indexOf(false)).toBeGreaterThan(40);
  expect(slower.indexOf(false)).toBeLessThan(60);
  // Never again: a disk that was late once is not tried by those who wait for it.
  expect(slower.lastIndexOf(true)).toBe(slower.indexOf(false) - 1);
});

test('one late call is borne, and a very late one is the last that blocks', async () => {
  expect(await callsOf([5, 0.05, 0.05])).toEqual([true, true, true]);
  expect(await callsOf([6, 0.05, 0.05])).toEqual([true, false, false]);
});

test('a call that throws counts as any other', async () => {
  let now = 0;
  const quick = new QuickCalls(
    () => setImmediate(),
    () => now,
  );
  const failing = () => {
    now += 6;
    throw new Error('late and in vain');
  };
  await expect(quick.make(failing, async () => 'job')).rejects.toThrow('late and in vain');
  expect(
    await quick.make(
      () => 'blocking',
      async () => 'job',
    ),
  ).toBe('job');
});

test('what else waits gets its turn among calls that block', async () => {
  let now = 0;
  const quick = new QuickCalls(
    () => setImmediate(),
    () => now,
  );
  let turns = 0;
  const others = setInterval(() => turns++, 0);
  for (let i = 0; i < 2000; i++) {
    const blocking = () => {
      now += 0.05;
      const until = performance.now() + 0.05;
      while (performance.now() < until);
    };
    await quick.make(blocking, () => Promise.reject(new Error('calls are quick')));
  }
  clearInterval(others);
  expect(turns).toBeGreaterThan(3);
});
