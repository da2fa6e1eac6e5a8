import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { crc32 } from '../../../src/base/crc32.js';
import { CrcAudit } from '../../../src/engine/audit.js';
import { PlanSources } from '../../../src/engine/sources.js';
import { patternBytes } from '../../helpers/pattern.js';
import { bytesSource } from '../../helpers/source.js';

const SIZE = 200;
const OFFSET = 7;
const FILE = patternBytes(0, OFFSET + SIZE);

/** An audit of one range, which has seen `runs` of the file; a byte of the range is not the recorded one where `damaged` says. */
async function audited(runs: readonly (readonly [start: number, length: number])[], extra: number, damaged?: number) {
  const recorded = FILE.slice(OFFSET);
  if (damaged !== undefined) recorded[damaged] = (recorded[damaged] ?? 0) ^ 1;
  const source = { path: 'a.pt', size: FILE.length, modified: 0 };
  const file = bytesSource(FILE, source.path);
  const sources = new PlanSources(async () => file, [source]);
  const audit = new CrcAudit([{ source: 0, offset: OFFSET, length: SIZE, crc32: crc32(recorded) }], extra);
  for (const [start, length] of runs)
    audit.add(0, OFFSET + start, FILE.subarray(OFFSET + start, OFFSET + start + length));
  const report = await audit.finish(sources, [source], undefined);
  return { status: report.status, read: file.reads.reduce((sum, { length }) => sum + length, 0) };
}

describe('a recorded CRC-32', () => {
  test.each([
    [
      'of runs that follow each other',
      [
        [100, 100],
        [0, 100],
      ],
      0,
    ],
    [
      'of runs with a gap between them, and before and behind them',
      [
        [10, 40],
        [60, 130],
      ],
      30,
    ],
    [
      'of runs that overlap',
      [
        [0, 120],
        [100, 100],
      ],
      20,
    ],
    [
      'of runs that lie in others, from one place on and from another',
      [
        [0, 90],
        [0, 200],
        [50, 10],
      ],
      0,
    ],
    [
      'of runs that overlap twice, with gaps',
      [
        [0, 60],
        [50, 50],
        [95, 5],
        [110, 40],
        [140, 60],
      ],
      30,
    ],
  ] as const)('is compared with that %s', async (_, runs, read) => {
    expect(await audited(runs, 30)).toEqual({ status: 'passed', read });
    await expect(audited(runs, 30, 115)).rejects.toMatchObject({ detail: { code: 'crc-mismatch' } });
  });

  test.each([
    [
      'left out',
      [
        [0, 80],
        [100, 100],
      ],
      20,
    ],
    [
      'read twice by runs that overlap',
      [
        [0, 120],
        [100, 100],
      ],
      20,
    ],
    [
      'either',
      [
        [0, 120],
        [110, 80],
      ],
      20,
    ],
  ] as const)(
    'is not compared where more bytes than allowed were %s, and none of them is read',
    async (_, runs, needed) => {
      expect(await audited(runs, needed)).toEqual({ status: 'passed', read: needed });
      expect(await audited(runs, needed - 1)).toEqual({ status: 'not-checkable', read: 0 });
    },
  );

  test.each([
    ['padding', 0, 0],
    ['other bytes', 1, 30],
  ])('needs no read of gaps that are zeros (%s)', async (_, value, read) => {
    const [gap, length] = [[20, 50], 100] as const;
    const bytes = patternBytes(0, length).fill(value, ...gap);
    const file = bytesSource(bytes, 'a.pt');
    const source = { path: 'a.pt', size: length, modified: 0 };
    const sources = new PlanSources(async () => file, [source]);
    const check = async (seen: Uint8Array) => {
      const audit = new CrcAudit([{ source: 0, offset: 0, length, crc32: crc32(bytes) }]);
      audit.add(0, 0, seen.subarray(0, gap[0]));
      audit.add(0, gap[1], seen.subarray(gap[1]));
      return (await audit.finish(sources, [source], undefined)).status;
    };
    expect(await check(bytes)).toBe('passed');
    expect(file.reads.reduce((sum, { length }) => sum + length, 0)).toBe(read);
    const damaged = bytes.slice().fill(7, 60, 61);
    await expect(check(damaged)).rejects.toMatchObject({ detail: { code: 'crc-mismatch' } });
  });

  test('is compared with that of any runs, and damage is found wherever it is', async () => {
    const run = fc
      .nat(SIZE - 1)
      .chain((start) => fc.tuple(fc.constant(start), fc.integer({ min: 1, max: SIZE - start })));
    const runs = fc.array(run, { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(runs, fc.nat(SIZE - 1), async (list, damaged) => {
        expect((await audited(list, 10 * SIZE)).status).toBe('passed');
        await expect(audited(list, 10 * SIZE, damaged)).rejects.toMatchObject({ detail: { code: 'crc-mismatch' } });
      }),
    );
  });
});
