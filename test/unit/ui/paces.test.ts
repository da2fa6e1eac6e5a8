import { describe, expect, it } from 'vitest';
import {
  ESTIMATES,
  folderRoad,
  type Job,
  LEAST_BYTES,
  learn,
  type Paces,
  parsePaces,
  secondsOf,
} from '../../../src/ui/paces.js';
import type { Costs } from '../../../src/worker/stopwatch.js';

const GB = 1e9;

/** Round figures: a second to read, two to write and ten to check a gigabyte alone; one and two among four. */
const PACES: Paces = {
  paces: {
    one: { read: 1, write: 2, close: 10 },
    several: { read: 1, write: 1, close: 2 },
    download: { read: 1, write: 0.5, close: 1.5 },
  },
  measured: [],
};

function job(inputGigabytes: number, ...fileGigabytes: number[]): Job {
  const files = fileGigabytes.map((size) => ({ byteLength: size * GB }));
  return { inputBytes: inputGigabytes * GB, files, verify: false, sha256: false };
}

describe('the seconds of a job', () => {
  it.each([
    ['one file', job(4, 2), 'folder', 4 * 1 + 2 * (2 + 10)],
    ['four files of a size', job(4, 1, 1, 1, 1), 'folder', 4 * 1 + 4 * (1 + 2)],
    ['eight files of a size, four at once', job(4, 1, 1, 1, 1, 1, 1, 1, 1), 'folder', 4 * 1 + 8 * (1 + 2)],
    // Half of a file is alone, and two lanes are two thirds of the way from one to four.
    ['two files of a size', job(0, 1, 1), 'folder', 2 * (2 - 2 / 3 + 10 - (8 * 2) / 3)],
    ['a download', job(4, 2), 'download', 4 * 1 + 2 * (0.5 + 1.5)],
    ['no file', job(0), 'folder', 0],
    ['an empty file', job(0, 0), 'folder', 0],
  ] as const)('%s', (_, asked, to, seconds) => {
    expect(secondsOf(asked, to, PACES)).toBeCloseTo(seconds, 9);
  });

  it.each([
    [false, false, 0, 0],
    [true, false, 1, 1],
    [false, true, 1, 1],
    // A file of a folder is read back as a whole, a download while it is written.
    [true, true, 1, 2],
  ])('count what is read back as well (verify %s, sha256 %s)', (verify, sha256, folder, download) => {
    const checked = { ...job(4, 2), verify, sha256 };
    expect(secondsOf(checked, 'folder', PACES)).toBe(4 + 2 * folder + 2 * 12);
    expect(secondsOf(checked, 'download', PACES)).toBe(4 + 2 * download + 2 * 2);
  });

  it('are far fewer by four files than by one, and by download than by these, as long as nothing was measured', () => {
    const [one, four, download] = [
      secondsOf(job(2, 2), 'folder', ESTIMATES),
      secondsOf(job(2, 0.5, 0.5, 0.5, 0.5), 'folder', ESTIMATES),
      secondsOf(job(2, 2), 'download', ESTIMATES),
    ];
    expect(one).toBeGreaterThan(2 * four);
    expect(four).toBeGreaterThan(download);
  });
});

it('a set of files goes the way of one, of several, or of neither', () => {
  const files = (...sizes: number[]) => sizes.map((byteLength) => ({ byteLength }));
  expect(folderRoad(files(1000, 10, 20))).toBe('one');
  expect(folderRoad(files(1000, 1000))).toBeUndefined();
  expect(folderRoad(files(1000, 1000, 1000, 900))).toBe('several');
});

/** Costs of a run that read, wrote and closed as many gigabytes in so many seconds. */
function costs(gigabytes: number, read: number, write: number, close: number): Costs {
  const cost = (seconds: number) => ({ bytes: gigabytes * GB, seconds });
  return { read: cost(read), write: cost(write), close: cost(close) };
}

describe('what a run teaches', () => {
  it('takes the place of the estimate of its way, and of what was measured before', () => {
    const once = learn(ESTIMATES, 'one', costs(2, 4, 8, 12));
    expect(once.paces.one).toEqual({ read: 2, write: 4, close: 6 });
    expect(once.paces.several).toEqual(ESTIMATES.paces.several);
    expect(once.measured).toEqual(['one']);
    const twice = learn(once, 'one', costs(2, 2, 2, 2));
    expect(twice.paces.one).toEqual({ read: 1, write: 1, close: 1 });
    expect(twice.measured).toEqual(['one']);
  });

  it('makes the estimate of the same run what it took', () => {
    const learned = learn(ESTIMATES, 'one', costs(2, 4, 8, 12));
    expect(secondsOf(job(2, 2), 'folder', learned)).toBeCloseTo(24, 9);
  });

  it('says nothing of how the browser saves a download', () => {
    const { download } = learn(ESTIMATES, 'download', costs(2, 4, 8, 0)).paces;
    expect(download).toEqual({ read: 2, write: 4, close: ESTIMATES.paces.download.close });
  });

  it('is nothing where little was written', () => {
    expect(learn(ESTIMATES, 'one', costs((LEAST_BYTES - 1) / GB, 1, 1, 1))).toBe(ESTIMATES);
    expect(learn(ESTIMATES, 'one', costs(LEAST_BYTES / GB, 1, 1, 1))).not.toBe(ESTIMATES);
  });
});

describe('what is kept', () => {
  it('comes back', () => {
    const learned = learn(PACES, 'several', costs(2, 4, 8, 12));
    expect(parsePaces(JSON.stringify(learned))).toEqual(learned);
  });

  it.each([
    '',
    '{',
    'null',
    '[]',
    '{"paces":{},"measured":[]}',
    JSON.stringify({ ...PACES, measured: ['other'] }),
    JSON.stringify({ ...PACES, measured: undefined }),
    JSON.stringify({ ...PACES, paces: { ...PACES.paces, one: { read: 1, write: 'fast', close: 1 } } }),
    JSON.stringify({ ...PACES, paces: { ...PACES.paces, one: { read: -1, write: 1, close: 1 } } }),
  ])('is forgotten where it is not what was kept: %s', (text) => {
    expect(parsePaces(text)).toBe(ESTIMATES);
  });
});
