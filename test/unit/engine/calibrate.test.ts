import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { DType, TargetDType } from '../../../src/base/dtype.js';
import { UnshardError } from '../../../src/base/errors.js';
import type { Backend, ConvertJob } from '../../../src/engine/backend.js';
import { calibrate, decide, mainConversion, measureRate } from '../../../src/engine/calibrate.js';
import { cpuBackend } from '../../../src/engine/cpu.js';
import type { PlannedTensor } from '../../../src/plan/plan.js';
import { expectedOf } from '../../helpers/piece-jobs.js';

describe('the decision', () => {
  const measured = (gigabytesPerSecond: number) => ({ kind: 'measured', gigabytesPerSecond }) as const;

  test.each([
    { title: 'a GPU that files cannot feed', cpu: 5, gpu: measured(11), chosen: 'gpu' },
    { title: 'a GPU that is slower than the CPU, but not than files', cpu: 5, gpu: measured(0.8), chosen: 'gpu' },
    { title: 'the CPU where the GPU is slower than files', cpu: 5, gpu: measured(0.6), chosen: 'cpu' },
    { title: 'a slow GPU where the CPU is slower still', cpu: 0.3, gpu: measured(0.6), chosen: 'gpu' },
    { title: 'the CPU in place of a software adapter', cpu: 0.3, gpu: { kind: 'software' }, chosen: 'cpu' },
    { title: 'the CPU where there is no adapter', cpu: 0.3, gpu: { kind: 'none' }, chosen: 'cpu' },
    { title: 'the CPU where the GPU failed', cpu: 0.3, gpu: { kind: 'failed', message: 'Lost.' }, chosen: 'cpu' },
  ] as const)('takes $title', ({ cpu, gpu, chosen }) => {
    expect(decide('auto', cpu, gpu, 0.7).chosen).toBe(chosen);
  });

  test('is that of the user, whatever was measured', () => {
    expect(decide('gpu', 5, measured(0.1), 0.7).chosen).toBe('gpu');
    expect(decide('cpu', 0.1, measured(11), 0.7).chosen).toBe('cpu');
  });

  test('says why, with the figures it was made from', () => {
    expect(decide('auto', 5.123, measured(11.04), 0.73)).toEqual({
      chosen: 'gpu',
      reason: 'The GPU converts 11 GB/s, faster than files give (0.73 GB/s).',
      rates: [
        { name: 'cpu', gigabytesPerSecond: 5.123 },
        { name: 'gpu', gigabytesPerSecond: 11.04 },
        { name: 'files', gigabytesPerSecond: 0.73 },
      ],
    });
    expect(decide('auto', 5.123, { kind: 'none' }, 0.73)).toEqual({
      chosen: 'cpu',
      reason: 'There is no GPU adapter. The CPU converts 5.1 GB/s.',
      rates: [{ name: 'cpu', gigabytesPerSecond: 5.123 }],
    });
    expect(decide('auto', 5, measured(0.5), 0.73).reason).toBe(
      'The GPU converts 0.5 GB/s, slower than files give (0.73 GB/s); the CPU 5 GB/s.',
    );
    expect(decide('auto', 5, { kind: 'failed', message: 'The GPU (x) was lost: y.' }, 0.73).reason).toBe(
      'The GPU (x) was lost: y. The CPU converts 5 GB/s.',
    );
  });
});

describe('the main conversion of a plan', () => {
  test('is the one of most bytes', () => {
    const tensors = [tensor('F32', 'BF16', [10]), tensor('F16', 'BF16', [3, 8]), tensor('I64', 'I64', [99])];
    expect(mainConversion({ tensors })).toEqual({ from: 'F16', to: 'BF16' });
    expect(mainConversion({ tensors: [...tensors, tensor('F32', 'BF16', [3])] })).toEqual({ from: 'F32', to: 'BF16' });
  });

  test('may be one whose results are only compared', () => {
    const copied = tensor('F32', 'F32', [10], 'BF16');
    expect(mainConversion({ tensors: [copied] })).toEqual({ from: 'F32', to: 'BF16' });
  });

  test('is none where bits are copied', () => {
    expect(mainConversion({ tensors: [tensor('F32', 'F32', [10]), tensor('I64', 'I64', [9])] })).toBeUndefined();
  });
});

describe('calibration', () => {
  const conversion = { tensors: [tensor('F16', 'F32', [4])] };

  test('measures the conversion of the plan, with jobs that convert ordinary values', async () => {
    const jobs: ConvertJob[] = [];
    const { rates } = await calibrate(conversion, { asked: 'auto', cpu: recording(jobs) });
    expect(rates).toEqual([{ name: 'cpu', gigabytesPerSecond: expect.any(Number) }]);
    expect(new Set(jobs.map(({ from, to }) => `${from} ${to}`))).toEqual(new Set(['F16 F32']));
    const [job] = jobs;
    if (!job) throw new Error('no job was run');
    expect(job.input.byteLength).toBe(2 ** 22);
    expect(expectedOf(job).stats).toMatchObject([{ overflow: 0, underflow: 0, nan: 0, inf: 0 }]);
  });

  test('leaves out what had to be made first', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    let calls = 0;
    const slowAtFirst: Backend = {
      ...cpuBackend(),
      convert: async () => {
        vi.advanceTimersByTime(calls++ < 2 ? 400 : 2);
        return [];
      },
    };
    // From then on two jobs of 4 MiB take 4 ms, so that 16 ms have passed when the 15 ms are over.
    expect(await measureRate(slowAtFirst, { from: 'F32', to: 'BF16' })).toBe((8 * 2 ** 22) / 1e9 / 0.016);
  });

  test('measures nothing where nothing is converted', async () => {
    const jobs: ConvertJob[] = [];
    const copies = { tensors: [tensor('F32', 'F32', [4])] };
    expect(await calibrate(copies, { asked: 'auto', cpu: recording(jobs) })).toEqual({
      chosen: 'cpu',
      reason: 'Nothing is converted: the CPU copies bytes.',
      rates: [],
    });
    expect(jobs).toEqual([]);
  });

  test('leaves a software adapter alone, unless it is asked for', async () => {
    const jobs: ConvertJob[] = [];
    const gpu = { ...recording(jobs), software: true };
    const cpu = cpuBackend();
    expect((await calibrate(conversion, { asked: 'auto', cpu, gpu })).chosen).toBe('cpu');
    expect(jobs).toEqual([]);
    const forced = await calibrate(conversion, { asked: 'gpu', cpu, gpu });
    expect(forced).toMatchObject({ chosen: 'gpu', rates: [{ name: 'cpu' }, { name: 'gpu' }] });
  });

  test('compares a hardware adapter with the rate of files', async () => {
    const cpu = cpuBackend();
    const gpu = { ...cpu, software: false };
    expect((await calibrate(conversion, { asked: 'auto', cpu, gpu, fileRate: 0.001 })).chosen).toBe('gpu');
    const { rates, reason } = await calibrate(conversion, { asked: 'auto', cpu, gpu, fileRate: 1000 });
    expect(rates.at(-1)).toEqual({ name: 'files', gigabytesPerSecond: 1000 });
    expect(reason).toContain('slower than files give (1000 GB/s)');
  });

  test('takes the CPU where the GPU fails, and fails where the GPU was asked for', async () => {
    const lost = new UnshardError({ kind: 'gpu', code: 'gpu-lost', message: 'Lost.', advice: '', facts: {} });
    const cpu = cpuBackend();
    const gpu = { ...cpu, software: false, convert: () => Promise.reject(lost) };
    expect(await calibrate(conversion, { asked: 'auto', cpu, gpu })).toMatchObject({
      chosen: 'cpu',
      reason: expect.stringMatching(/^Lost\. The CPU converts /),
    });
    await expect(calibrate(conversion, { asked: 'gpu', cpu, gpu })).rejects.toBe(lost);
  });
});

function tensor(from: DType, to: DType, shape: number[], compared?: TargetDType): PlannedTensor {
  const made = { name: 'w', shape, origin: 'master', from, to, fromCopy: false, pieces: [] } as const;
  return compared ? { ...made, proofs: [{ check: 'master-copy', dtype: compared, pieces: [] }] } : made;
}

/** The CPU, and what it was asked to do. */
function recording(jobs: ConvertJob[]): Backend {
  const cpu = cpuBackend();
  return {
    ...cpu,
    convert: (job) => {
      jobs.push(job);
      return cpu.convert(job);
    },
  };
}
