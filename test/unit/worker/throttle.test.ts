import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { throttle } from '../../../src/worker/throttle.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

it('passes the first value on at once and then the newest of each interval', () => {
  const seen: number[] = [];
  const { push } = throttle<number>((value) => seen.push(value), 100);
  for (let i = 0; i < 25; i++) {
    push(i);
    vi.advanceTimersByTime(10);
  }
  expect(seen).toEqual([0, 9, 19]);
  vi.advanceTimersByTime(100);
  expect(seen).toEqual([0, 9, 19, 24]);
});

it('passes a value on at once after a rest', () => {
  const seen: number[] = [];
  const { push } = throttle<number>((value) => seen.push(value), 100);
  push(1);
  vi.advanceTimersByTime(1000);
  push(2);
  expect(seen).toEqual([1, 2]);
});

it('never loses the last value when it is stopped', () => {
  const seen: number[] = [];
  const { push, stop } = throttle<number>((value) => seen.push(value), 100);
  push(1);
  push(2);
  push(3);
  stop();
  vi.advanceTimersByTime(1000);
  expect(seen).toEqual([1, 3]);
});

it('passes on at once what it is told to, and starts a new interval', () => {
  const seen: number[] = [];
  const { push, flush } = throttle<number>((value) => seen.push(value), 100);
  push(1);
  push(2);
  flush();
  expect(seen).toEqual([1, 2]);
  push(3);
  vi.advanceTimersByTime(99);
  expect(seen).toEqual([1, 2]);
  vi.advanceTimersByTime(1);
  expect(seen).toEqual([1, 2, 3]);
});
