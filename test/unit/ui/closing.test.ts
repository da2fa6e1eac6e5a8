import { describe, expect, it } from 'vitest';
import { checkSecondsLeft, type RunTimes, runSecondsLeft } from '../../../src/ui/closing.js';

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

  const left = (progress: RunTimes['progress'], more: Partial<RunTimes> = {}) =>
    runSecondsLeft({ plan, progress, samples, check: 5, readBack: 2, read: 0, now: 4000, ...more });

  it('is that of the bytes that are left, of the check of a last large file, and of reading it back', () => {
    expect(left({ written: GB, closing: [] })).toBe(20 + 10 + 4);
    expect(left({ written: GB, closing: [] }, { readBack: 0 })).toBe(20 + 10);
  });

  it('is that of a check where that takes longer than all else', () => {
    expect(left({ written: 2 * GB, closing: [closing(20, 4000)] })).toBe(100 + 4);
  });

  it('is that of the check and of reading back when all is written, then of reading back alone', () => {
    expect(left({ written: 3 * GB, closing: [closing(2, 0)] })).toBe(6 + 4);
    expect(left({ written: 3 * GB, closing: [] }, { read: 1 })).toBe(3);
    expect(left({ written: 3 * GB, closing: [] }, { read: 57 })).toBe(0);
  });

  it('is not known before the speed is', () => {
    expect(left({ written: 0, closing: [] }, { samples: [] })).toBeUndefined();
  });
});
