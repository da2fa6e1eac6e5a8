import { describe, expect, test } from 'vitest';
import { Pace } from '../../../src/engine/pace.js';

/** The lanes that a run had, tile by tile, on a machine that gives so many tiles a second with each number of lanes. */
function lanesOn(rates: readonly number[], most: number, tiles: number, least = 1): number[] {
  let time = 0;
  const pace = new Pace(most, least, () => time);
  return Array.from({ length: tiles }, () => {
    const { lanes } = pace;
    time += 1000 / (rates[lanes - 1] ?? 0);
    pace.add(1);
    return lanes;
  });
}

/** How often each number of lanes was there, the most frequent first. */
function usual(lanes: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const count of lanes) counts.set(count, (counts.get(count) ?? 0) + 1);
  return [...counts].toSorted((a, b) => b[1] - a[1])[0]?.[0] ?? 0;
}

describe('the lanes of a run', () => {
  test.each([
    ['are all that fit, where each makes it faster', [10, 20, 30, 40], 4, 4],
    ['are two, where more gain nothing', [10, 20, 20.5, 20.8], 4, 2],
    ['are three, where a fourth makes it slower', [10, 20, 30, 15], 4, 3],
    ['are one, where a disk has to seek for each', [40, 20, 10, 5], 4, 1],
    ['are many, where a network answers late', [1, 2, 3, 4, 5, 6, 7, 8], 8, 8],
  ])('%s', (_, rates, most, expected) => {
    const lanes = lanesOn(rates, most, 600);
    expect(usual(lanes.slice(200))).toBe(expected);
    expect(Math.max(...lanes)).toBeLessThanOrEqual(most);
    expect(Math.min(...lanes)).toBeGreaterThanOrEqual(1);
  });

  test('are never fewer than asked for, and still as many as make it faster', () => {
    expect(Math.min(...lanesOn([40, 20, 10, 5], 4, 600, 3))).toBe(3);
    expect(usual(lanesOn([10, 20, 30, 40], 4, 600, 3).slice(200))).toBe(4);
    expect(new Set(lanesOn([40, 20], 2, 100, 3))).toEqual(new Set([2]));
  });

  test('are never more than fit', () => {
    expect(new Set(lanesOn([10, 20], 1, 100))).toEqual(new Set([1]));
  });

  test('are two at the start, and not judged by a clock that stands still', () => {
    const pace = new Pace(8, 1, () => 5);
    for (let i = 0; i < 100; i++) pace.add(1000);
    expect(pace.lanes).toBe(2);
  });
});
