import { describe, expect, it } from 'vitest';
import { addSample, rateOf, type Sample, secondsLeft, WINDOW_MS } from '../../../src/ui/speed.js';

/** Samples once a second, each `bytes` further. */
function steady(count: number, bytes: number): readonly Sample[] {
  let samples: readonly Sample[] = [];
  for (let i = 0; i < count; i++) samples = addSample(samples, { at: i * 1000, bytes: i * bytes });
  return samples;
}

describe('rateOf', () => {
  it('is the bytes over the time', () => {
    expect(rateOf(steady(5, 300))).toBe(300);
  });

  it('is not known from one sample, nor from two close ones', () => {
    expect(rateOf([{ at: 0, bytes: 0 }])).toBeUndefined();
    expect(
      rateOf([
        { at: 0, bytes: 0 },
        { at: 499, bytes: 100 },
      ]),
    ).toBeUndefined();
    expect(
      rateOf([
        { at: 0, bytes: 0 },
        { at: 500, bytes: 100 },
      ]),
    ).toBe(200);
  });

  it('forgets what lies before the window', () => {
    const slow = steady(2, 10);
    const start = slow.at(-1)?.at ?? 0;
    let samples = slow;
    for (let i = 1; i <= 2 * (WINDOW_MS / 1000); i++)
      samples = addSample(samples, { at: start + i * 1000, bytes: 10 + i * 500 });
    expect(rateOf(samples)).toBe(500);
    expect(samples.length).toBeLessThanOrEqual(WINDOW_MS / 1000 + 1);
  });
});

describe('secondsLeft', () => {
  it('is what is left over the rate', () => {
    expect(secondsLeft(steady(5, 300), 600)).toBe(2);
  });

  it('is not known while nothing moves', () => {
    expect(secondsLeft(steady(5, 0), 600)).toBeUndefined();
  });
});
