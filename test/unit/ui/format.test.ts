import { describe, expect, it } from 'vitest';
import {
  formatAbout,
  formatBytes,
  formatCount,
  formatMagnitude,
  formatNames,
  formatRate,
  formatSeconds,
  formatShape,
  plural,
} from '../../../src/ui/format.js';

describe('formatBytes', () => {
  it.each([
    [0, '0 bytes'],
    [1, '1 byte'],
    [999, '999 bytes'],
    [1000, '1 kB'],
    [1500, '1.5 kB'],
    [12_345, '12.3 kB'],
    [999_499, '999 kB'],
    [999_500, '1 MB'],
    [26_953_662_464, '27 GB'],
    [1_234_000_000_000, '1.23 TB'],
    [5e18, '5000 PB'],
  ])('%d is %s', (bytes, text) => {
    expect(formatBytes(bytes)).toBe(text);
  });
});

describe('formatMagnitude', () => {
  it.each([
    [0, '0'],
    [9999, '9,999'],
    [10_000, '10 thousand'],
    [6_738_415_616, '6.74 billion'],
    [405_000_000_000, '405 billion'],
  ])('%d is %s', (count, text) => {
    expect(formatMagnitude(count)).toBe(text);
  });
});

describe('formatSeconds', () => {
  it.each([
    [0.04, '40 ms'],
    [0.0994, '99 ms'],
    [0.0996, '0.1 s'],
    [3.14, '3.1 s'],
    [9.96, '10 s'],
    [59.6, '1 min 0 s'],
    [185, '3 min 5 s'],
    [7800, '2 h 10 min'],
  ])('%d is %s', (seconds, text) => {
    expect(formatSeconds(seconds)).toBe(text);
  });
});

it('separates thousands in counts', () => {
  expect(formatCount(1_234_567)).toBe('1,234,567');
});

it('speaks of one and of many', () => {
  expect([plural(1, 'file'), plural(0, 'file'), plural(1200, 'rank')]).toEqual(['1 file', '0 files', '1,200 ranks']);
});

it('gives rates in bytes per second', () => {
  expect(formatRate(121_400_000.7)).toBe('121 MB/s');
});

it('gives shapes, and a word for none', () => {
  expect([formatShape([4096, 11_008]), formatShape([7]), formatShape([])]).toEqual(['4096 × 11008', '7', 'scalar']);
});

describe('formatAbout', () => {
  it.each([
    [0, 'under 2 s'],
    [1.99, 'under 2 s'],
    [2, 'about 2 s'],
    [59.4, 'about 59 s'],
    [59.6, 'about 1 min'],
    [100, 'about 1.5 min'],
    [584, 'about 9.5 min'],
    [586, 'about 10 min'],
    [3569, 'about 59 min'],
    [3571, 'about 1 h'],
    [7500, 'about 2 h 10 min'],
    [7700, 'about 2 h 10 min'],
    [10_750, 'about 3 h'],
  ])('%d seconds', (seconds, text) => {
    expect(formatAbout(seconds)).toBe(text);
  });
});

describe('formatNames', () => {
  it.each([
    ['', ''],
    ['a', 'a'],
    ['abcde', 'a, b, c, d, e'],
    ['abcdefg', 'a, b, c, d, e and 2 more'],
  ])('of %s', (names, text) => {
    expect(formatNames([...names])).toBe(text);
  });
});
