import { describe, expect, it } from 'vitest';
import { resolveOptions } from '../../../src/plan/options.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { ESTIMATES, type Paces, secondsOf } from '../../../src/ui/paces.js';
import { fasterWays, type Way, type WaysOptions, waysOf } from '../../../src/ui/ways.js';

const GB = 1e9;

function options(sizes: readonly number[], more: Partial<WaysOptions> = {}, made: PlanOptions = {}): WaysOptions {
  const files = sizes.map((size, i) => ({ path: `file-${i}`, byteLength: size * GB }));
  const outputBytes = files.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const totals = { tensors: 1, elements: 1, outputBytes, inputBytes: outputBytes };
  return {
    plan: { files, totals, options: resolveOptions(made) },
    checks: { verify: true, sha256: false },
    to: 'folder',
    folders: true,
    paces: ESTIMATES,
    ...more,
  };
}

const kinds = (ways: readonly Way[]) => ways.map(({ kind }) => kind);
const chosen = (ways: readonly Way[]) => kinds(ways.filter((way) => way.chosen));

describe('the ways to write', () => {
  it('are one file, files of a size, and a download, of which one is chosen', () => {
    const ways = waysOf(options([10]));
    expect(kinds(ways)).toEqual(['one', 'shards', 'download']);
    expect(chosen(ways)).toEqual(['one']);
    expect(chosen(waysOf(options([10], { to: 'download' })))).toEqual(['download']);
    expect(chosen(waysOf(options([5, 5], {}, { maxShardSize: 5 * GB })))).toEqual(['shards']);
  });

  it.each([
    [1.9, 500_000_000],
    [7.9, 500_000_000],
    [8, 2_000_000_000],
    [100, 5_000_000_000],
  ])('offer for %d GB the largest size that makes four files', (size, shardSize) => {
    expect(waysOf(options([size])).find(({ kind }) => kind === 'shards')?.shardSize).toBe(shardSize);
  });

  it('take the time of their own files', () => {
    const job = { inputBytes: 2 * GB, verify: true, sha256: false };
    const [one, shards, download] = waysOf(options([2]));
    expect(one?.seconds).toBe(secondsOf({ ...job, files: [{ byteLength: 2 * GB }] }, 'folder', ESTIMATES));
    const quarters = Array(4).fill({ byteLength: GB / 2 });
    expect(shards?.seconds).toBe(secondsOf({ ...job, files: quarters }, 'folder', ESTIMATES));
    expect(download?.seconds).toBe(secondsOf({ ...job, files: [{ byteLength: 2 * GB }] }, 'download', ESTIMATES));
    const [whole, own] = waysOf(options([0.5, 0.5, 0.5, 0.5], {}, { maxShardSize: GB / 2 }));
    expect(whole?.seconds).toBe(one?.seconds);
    expect(own?.seconds).toBe(shards?.seconds);
    expect(own).not.toHaveProperty('shardSize');
  });

  it('have no smaller files where all fit in one, or an adapter is written', () => {
    expect(kinds(waysOf(options([0.4])))).toEqual(['one', 'download']);
    expect(kinds(waysOf(options([0.6])))).toEqual(['one', 'shards', 'download']);
    expect(kinds(waysOf(options([0.6], {}, { output: 'adapter' })))).toEqual(['one', 'download']);
  });

  it('are downloads alone where the browser cannot write to folders', () => {
    expect(kinds(waysOf(options([10], { folders: false, to: 'download' })))).toEqual(['download']);
  });

  it('say which of them were seen on this machine', () => {
    const seen = (...measured: Paces['measured']) =>
      kinds(waysOf(options([10], { paces: { ...ESTIMATES, measured } })).filter((way) => way.measured));
    expect(seen()).toEqual([]);
    expect(seen('one', 'download')).toEqual(['one', 'download']);
    expect(seen('one', 'several', 'download')).toEqual(['one', 'shards', 'download']);
  });
});

describe('a far faster way', () => {
  const way = (kind: Way['kind'], seconds: number, isChosen = false): Way => {
    return { kind, seconds, chosen: isChosen, measured: true };
  };

  it('saves half of the time and more than twenty seconds', () => {
    expect(fasterWays([way('one', 60, true), way('shards', 29)])).toEqual([way('shards', 29)]);
    expect(fasterWays([way('one', 60, true), way('shards', 30)])).toEqual([]);
    expect(fasterWays([way('one', 20, true), way('shards', 1)])).toEqual([]);
    expect(fasterWays([way('one', 23, true), way('shards', 2)])).toHaveLength(1);
  });

  it('comes first where it is the fastest', () => {
    const ways = [way('one', 100, true), way('shards', 40), way('download', 20)];
    expect(kinds(fasterWays(ways))).toEqual(['download', 'shards']);
  });

  it('is not looked for where downloads are chosen', () => {
    expect(fasterWays([way('shards', 1), way('download', 100, true)])).toEqual([]);
  });
});
