import { describe, expect, it } from 'vitest';
import { checkSecondsLeft, runSecondsLeft } from '../../../src/ui/closing.js';

const GB = 1e9;
const closing = (gigabytes: number, since: number) => ({ path: 'a', byteLength: gigabytes * GB, since });

describe('the check of finished files', () => {
  it('takes what a gigabyte took, less the time that has passed', () => {
    expect(checkSecondsLeft([closing(2, 10_000)], 5, 13_000)).toBe(7);
  });

  it('ends with the last of several files', () => {
    expect(checkSecondsLeft([closing(2, 0), closing(3, 1000)], 5, 4000)).toBe(12);
  });

  it('is over where it should be, and where nothing is checked', () => {
    expect(checkSecondsLeft([closing(1, 0)], 5, 60_000)).toBe(0);
    expect(checkSecondsLeft([], 5, 0)).toBe(0);
  });
});

describe('the time of a run', () => {
  const files = [
    { path: 'a', byteLength: 2 * GB },
    { path: 'b', byteLength: GB },
  ];
  const plan = { files, totals: { tensors: 1, elements: 1, inputBytes: 0, outputBytes: 3 * GB } };
  /** One gigabyte in ten seconds. */
  const samples = [
    { at: 0, bytes: 0 },
    { at: 10_000, bytes: GB },
  ];

  it('is that of the bytes that are left, and of the check of a last large file', () => {
    expect(runSecondsLeft(plan, { written: GB, closing: [] }, samples, 5, 0)).toBe(20 + 10);
  });

  it('is that of the check alone when all is written', () => {
    expect(runSecondsLeft(plan, { written: 3 * GB, closing: [closing(2, 0)] }, samples, 5, 4000)).toBe(6);
    expect(runSecondsLeft(plan, { written: 3 * GB, closing: [] }, samples, 5, 4000)).toBe(0);
  });

  it('is not known before the speed is', () => {
    expect(runSecondsLeft(plan, { written: 0, closing: [] }, [], 5, 0)).toBeUndefined();
  });
});
