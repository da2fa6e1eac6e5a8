/**
 * Which backend converts on this machine: a few milliseconds of the plan's own conversion on each, and a rule.
 *
 *     const choice = await calibrate(plan, { asked: 'auto', cpu, gpu });
 *     // { chosen: 'gpu', reason: 'The GPU converts 11 GB/s, files give 0.73 GB/s.', rates: […] }
 *
 * @module
 */

import { bytesOf, type FloatDType, isFloat, isTarget, type TargetDType } from '../base/dtype.js';
import { isUnshardError } from '../base/errors.js';
import { convertBytes } from '../numeric/convert.js';
import type { Plan } from '../plan/plan.js';
import type { Backend, ConvertJob } from './backend.js';

/** What the user asks for: `auto` leaves it to the measurement. */
export type BackendChoice = 'auto' | 'gpu' | 'cpu';

/** How fast something is, in 10^9 bytes of a conversion's input a second. `files` is what the file API gives. */
export interface Rate {
  readonly name: 'cpu' | 'gpu' | 'files';
  readonly gigabytesPerSecond: number;
}

/** What converts, and why. Plain data, for people and for the report. */
export interface BackendDecision {
  readonly chosen: 'cpu' | 'gpu';
  /** A sentence or two. */
  readonly reason: string;
  /** What the decision was made from; empty where nothing had to be measured. */
  readonly rates: readonly Rate[];
}

/** A pair of dtypes. */
export interface Conversion {
  readonly from: FloatDType;
  readonly to: TargetDType;
}

/** What is known of the GPU: its rate in 10^9 bytes a second, or why it was not measured. */
export type GpuFinding =
  | { readonly kind: 'measured'; readonly gigabytesPerSecond: number }
  | { readonly kind: 'software' | 'none' }
  | { readonly kind: 'failed'; readonly message: string };

/** What there is to choose from. */
export interface CalibrateOptions {
  readonly asked: BackendChoice;
  readonly cpu: Backend;
  /** Absent where there is no adapter. */
  readonly gpu?: Backend & { readonly software: boolean };
  /** 10^9 bytes a second that files give. Default `FILE_GIGABYTES_PER_SECOND`. */
  readonly fileRate?: number;
}

/** The fastest that a browser's file API was seen to read, 16 MiB at a time and 8 at once. Writing is slower. */
export const FILE_GIGABYTES_PER_SECOND = 0.73;

/** Bytes of the job that is timed (4 MiB): more than the second cache holds, and done in milliseconds on every road. */
const SAMPLE_BYTES = 2 ** 22;

/** Elements that are repeated to fill the sample. */
const SAMPLE_PERIOD = 4096;

/** Jobs are timed until this has passed (15 ms): engines optimize their code meanwhile, and nobody notices the wait. */
const TIMED_SECONDS = 0.015;

/** Jobs that are timed together: a run, too, has the next one uploaded while one is computed. */
const JOBS_AT_ONCE = 2;

/**
 * Measures the plan's main conversion and decides.
 *
 * @throws UnshardError of kind `gpu` where the GPU was asked for and fails.
 */
export async function calibrate(
  plan: Pick<Plan, 'tensors'> | undefined,
  options: CalibrateOptions,
): Promise<BackendDecision> {
  const { asked, cpu, gpu, fileRate = FILE_GIGABYTES_PER_SECOND } = options;
  const conversion = plan ? mainConversion(plan) : DEFAULT_CONVERSION;
  if (!conversion && asked !== 'gpu')
    return { chosen: 'cpu', reason: 'Nothing is converted: the CPU copies bytes.', rates: [] };
  const measured = conversion ?? DEFAULT_CONVERSION;
  const cpuRate = await measureRate(cpu, measured);
  return decide(asked, cpuRate, await findGpu(asked, gpu, measured), fileRate);
}

/** Decides. Pure. Rates are in 10^9 bytes a second. */
export function decide(asked: BackendChoice, cpu: number, gpu: GpuFinding, files: number): BackendDecision {
  const cpuText = `The CPU converts ${rateText(cpu)}`;
  const cpuRate: Rate = { name: 'cpu', gigabytesPerSecond: cpu };
  if (asked === 'cpu') return { chosen: 'cpu', reason: `As chosen. ${cpuText}.`, rates: [cpuRate] };
  if (gpu.kind !== 'measured') return { chosen: 'cpu', reason: `${withoutGpu(gpu)} ${cpuText}.`, rates: [cpuRate] };
  const { gigabytesPerSecond } = gpu;
  const gpuText = `The GPU converts ${rateText(gigabytesPerSecond)}`;
  const rates: Rate[] = [cpuRate, { name: 'gpu', gigabytesPerSecond }];
  if (asked === 'gpu') {
    return { chosen: 'gpu', reason: `As chosen. ${gpuText}, the CPU ${rateText(cpu)}.`, rates };
  }
  rates.push({ name: 'files', gigabytesPerSecond: files });
  if (gigabytesPerSecond >= files) {
    return { chosen: 'gpu', reason: `${gpuText}, faster than files give (${rateText(files)}).`, rates };
  }
  const slow = `${gpuText}, slower than files give (${rateText(files)})`;
  return cpu > gigabytesPerSecond
    ? { chosen: 'cpu', reason: `${slow}; the CPU ${rateText(cpu)}.`, rates }
    : { chosen: 'gpu', reason: `${slow}, but the CPU only ${rateText(cpu)}.`, rates };
}

/** The conversion that most bytes of a plan's tensors go through, those that are only compared too; undefined for none. */
export function mainConversion(plan: Pick<Plan, 'tensors'>): Conversion | undefined {
  const bytes = new Map<string, { readonly conversion: Conversion; bytes: number }>();
  for (const { from, to, shape, compute, proofs = [] } of plan.tensors) {
    if (compute || !isFloat(from)) continue;
    const input = shape.reduce((product, size) => product * size, bytesOf(from));
    for (const target of new Set([to, ...proofs.map(({ dtype }) => dtype)])) {
      if (target === from || !isTarget(target)) continue;
      const entry = bytes.get(`${from} ${target}`) ?? { conversion: { from, to: target }, bytes: 0 };
      entry.bytes += input;
      bytes.set(`${from} ${target}`, entry);
    }
  }
  return [...bytes.values()].toSorted((a, b) => b.bytes - a.bytes)[0]?.conversion;
}

/** How fast a backend converts, in 10^9 bytes of input a second. What it has to make first is not counted. */
export async function measureRate(backend: Backend, { from, to }: Conversion): Promise<number> {
  const input = sampleOf(from);
  const count = input.byteLength / bytesOf(from);
  const jobs = Array.from({ length: JOBS_AT_ONCE }, (): ConvertJob => {
    const output = new Uint8Array(count * bytesOf(to));
    return { from, to, overflow: 'inf', input, pieces: [{ input: 0, output: 0, count, slot: 0 }], output, slots: 1 };
  });
  const convertAll = () => Promise.all(jobs.map((job) => backend.convert(job)));
  await convertAll();
  const start = performance.now();
  let seconds = 0;
  let bytes = 0;
  // The mean, not the best: browsers keep their clocks coarse.
  while (seconds < TIMED_SECONDS) {
    await convertAll();
    bytes += JOBS_AT_ONCE * SAMPLE_BYTES;
    seconds = (performance.now() - start) / 1000;
  }
  return bytes / 1e9 / seconds;
}

/** What is measured where the conversion is not known: the one of most runs. */
const DEFAULT_CONVERSION: Conversion = { from: 'F32', to: 'BF16' };

function withoutGpu(gpu: Exclude<GpuFinding, { kind: 'measured' }>): string {
  switch (gpu.kind) {
    case 'none':
      return 'There is no GPU adapter.';
    case 'software':
      return 'The GPU adapter is software, the CPU itself.';
    case 'failed':
      return gpu.message;
  }
}

async function findGpu(
  asked: BackendChoice,
  gpu: CalibrateOptions['gpu'],
  conversion: Conversion,
): Promise<GpuFinding> {
  if (!gpu || asked === 'cpu') return { kind: 'none' };
  // Its rate would change nothing, and compiling its shader takes longer than all else here.
  if (gpu.software && asked === 'auto') return { kind: 'software' };
  try {
    return { kind: 'measured', gigabytesPerSecond: await measureRate(gpu, conversion) };
  } catch (error) {
    if (asked === 'gpu' || !isUnshardError(error, 'gpu')) throw error;
    return { kind: 'failed', message: error.message };
  }
}

/** Ordinary weights: numbers of both signs below 1/32. */
function sampleOf(dtype: FloatDType): Uint8Array {
  const values = Float32Array.from({ length: SAMPLE_PERIOD }, (_, i) => Math.sin(i) / 32);
  const period =
    dtype === 'F64'
      ? new Uint8Array(Float64Array.from(values).buffer)
      : convertBytes(new Uint8Array(values.buffer), 'F32', dtype);
  const sample = new Uint8Array(SAMPLE_BYTES);
  for (let at = 0; at < SAMPLE_BYTES; at += period.byteLength) sample.set(period, at);
  return sample;
}

function rateText(gigabytesPerSecond: number): string {
  return `${Number(gigabytesPerSecond.toPrecision(2))} GB/s`;
}
