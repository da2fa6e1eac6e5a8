import { describe, expect, it } from 'vitest';
import { parseSize } from '../../../src/base/size.js';

describe('parseSize', () => {
  it.each([
    ['4096', 4096],
    ['1B', 1],
    ['5GB', 5_000_000_000],
    [' 500 mb ', 500_000_000],
    ['1.5 kB', 1500],
    ['20K', 20_000],
    ['2TB', 2_000_000_000_000],
    ['0.1GB', 100_000_000],
  ])('reads %s', (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
  });

  it.each(['', 'GB', '0', '0.0001 kB', '-5GB', '5GiB', '5 G B', '1e9', '5.GB', '99999999TB'])('refuses %j', (text) => {
    expect(parseSize(text)).toBeUndefined();
  });
});
