import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { bytesOf } from '../../../src/base/dtype.js';
import { cpuBackend, scanBytes } from '../../../src/engine/cpu.js';
import { scan } from '../../../src/numeric/scan.js';
import { emptyStats } from '../../../src/numeric/stats.js';
import { concat, firstDifference, mixedBytes, PAIRS, randomBytes, wholeJob } from '../../helpers/float-vectors.js';
import { expectedOf, jobOf, type Run } from '../../helpers/piece-jobs.js';

describe.each(['wasm', 'js'] as const)('%s', (kernel) => {
  const cpu = cpuBackend({ kernel });

  async function expectRight(job: ReturnType<typeof jobOf>): Promise<void> {
    const wanted = expectedOf(job);
    const stats = await cpu.convert(job);
    expect(firstDifference(job.output, wanted.output, job.to)).toBeUndefined();
    expect(stats).toEqual(wanted.stats);
  }

  test.each(PAIRS)('%s to %s as one piece', async (from, to) => {
    await expectRight(wholeJob(from, to, mixedBytes(from)));
    await expectRight(wholeJob(from, to, mixedBytes(from), 'clamp'));
  });

  describe.each([0, 1, 2, 3, 4, 5, 6, 7, 8])('input %i bytes after a word', (inputOffset) => {
    test.each(PAIRS)('%s to %s, short and long pieces, output at every offset', async (from, to) => {
      for (const outputOffset of [0, 1, 2, 3, 4, 5, 6, 7, 8]) {
        for (const count of [1, 3, 1001]) {
          const input = randomBytes(inputOffset + count * bytesOf(from), 5 + count);
          await expectRight(jobOf(from, to, input, [{ input: inputOffset, count }], { outputOffset }));
        }
      }
    });
  });

  test('an input that lies anywhere in a larger buffer', async () => {
    const shifted = concat([new Uint8Array(3), mixedBytes('F32')]).subarray(3);
    await expectRight(wholeJob('F32', 'F16', shifted));
  });

  test('bytes around an output stay as they are', async () => {
    const around = new Uint8Array(5 + 2002 + 5).fill(0xaa);
    const job = { ...wholeJob('F32', 'F16', randomBytes(4004)), output: around.subarray(5, 2007) };
    await cpu.convert(job);
    expect([...around.subarray(0, 5), ...around.subarray(2007)]).toEqual(Array(10).fill(0xaa));
  });

  describe('many pieces', () => {
    const input = randomBytes(1 << 20, 11);

    test('single elements in reverse order', async () => {
      const runs = Array.from({ length: 20_001 }, (_, i): Run => ({ input: 4 * (20_000 - i), count: 1 }));
      await expectRight(jobOf('F32', 'BF16', input, runs));
    });

    test('lengths from 0 to beyond a block, at odd offsets, in three slots', async () => {
      const counts = [0, 1, 2, 7, 16, 17, 255, 256, 257, 511, 513, 8191, 8192, 8193, 20_000, 3, 0];
      const runs = counts.map((count, i): Run => ({ input: 37 * i, count, slot: i % 3 }));
      await expectRight(jobOf('F32', 'F16', input, runs));
      await expectRight(jobOf('F16', 'F32', input, runs, { outputOffset: 1 }));
      await expectRight(jobOf('F64', 'BF16', input, runs, { outputOffset: 3 }));
    });

    test('small pieces of one slot between large ones of another', async () => {
      const runs = Array.from({ length: 60 }, (_, i): Run => ({ input: i * 4, count: i % 2 ? 5 : 3000, slot: i % 2 }));
      await expectRight(jobOf('F32', 'F16', input, runs));
    });

    test('the same bytes twice', async () => {
      await expectRight(
        jobOf('BF16', 'F32', input, [
          { input: 0, count: 99 },
          { input: 0, count: 99, slot: 1 },
        ]),
      );
    });
  });

  test('no elements give no bytes and empty statistics', async () => {
    const job = { ...jobOf('F32', 'F16', new Uint8Array(), []), slots: 2 };
    expect(await cpu.convert(job)).toEqual([emptyStats(), emptyStats()]);
  });

  test('a job that breaks the rules is refused', async () => {
    const job = { ...wholeJob('F32', 'F16', randomBytes(8)), output: new Uint8Array(2) };
    await expect(cpu.convert(job)).rejects.toThrow('the pieces make 4 bytes, the output has 2');
  });

  describe('scanBytes', () => {
    test.each(['F16', 'BF16', 'F32', 'F64'] as const)('of %s is the same at every alignment', (dtype) => {
      const bytes = mixedBytes(dtype);
      const wanted = emptyStats();
      scan(dtype)(bytes, wanted);
      expect(wanted.nan).toBeGreaterThan(0);
      for (let offset = 0; offset <= 8; offset++) {
        expect(scanBytes(dtype, concat([new Uint8Array(offset), bytes]).subarray(offset), { kernel })).toEqual(wanted);
      }
    });

    test('of nothing is empty', () => {
      expect(scanBytes('F32', new Uint8Array(), { kernel })).toEqual(emptyStats());
    });
  });
});

describe('the choice of the kernel', () => {
  test('is WebAssembly, unless JavaScript is asked for', () => {
    expect(cpuBackend().description).toBe('WebAssembly SIMD');
    expect(cpuBackend({ kernel: 'js' }).description).toBe('JavaScript');
  });

  test('is JavaScript where there is no WebAssembly, which cannot be asked for then', async () => {
    vi.stubGlobal('WebAssembly', undefined);
    onTestFinished(() => void vi.unstubAllGlobals());
    vi.resetModules();
    const fresh = await import('../../../src/engine/cpu.js');
    expect(fresh.cpuBackend().description).toBe('JavaScript');
    const detail = expect.objectContaining({ kind: 'usage', code: 'no-webassembly' });
    expect(() => fresh.cpuBackend({ kernel: 'wasm' })).toThrow(expect.objectContaining({ detail }));
    expect(fresh.scanBytes('F32', mixedBytes('F32'))).toEqual(scanBytes('F32', mixedBytes('F32')));
  });
});
