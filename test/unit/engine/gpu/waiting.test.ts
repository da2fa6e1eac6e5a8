import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Waiting } from '../../../../src/engine/gpu/waiting.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const sleep = (seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, seconds * 1000));

test('waits that overlap count once, and time between waits not at all', async () => {
  const waiting = new Waiting();
  const first = waiting.during(sleep(3));
  await vi.advanceTimersByTimeAsync(2000);
  const second = waiting.during(sleep(3));
  expect(waiting.seconds).toBe(2);
  await vi.advanceTimersByTimeAsync(3000);
  await Promise.all([first, second]);
  await vi.advanceTimersByTimeAsync(4000);
  expect(waiting.seconds).toBe(5);
  const third = waiting.during(sleep(1));
  await vi.advanceTimersByTimeAsync(1000);
  await third;
  expect(waiting.seconds).toBe(6);
});

test('a wait gives what its promise gives, and ends with a failure too', async () => {
  const waiting = new Waiting();
  expect(await waiting.during(Promise.resolve('done'))).toBe('done');
  await expect(waiting.during(Promise.reject(new Error('no')))).rejects.toThrow('no');
  await vi.advanceTimersByTimeAsync(1000);
  expect(waiting.seconds).toBe(0);
});
