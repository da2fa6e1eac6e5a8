import { expect } from 'vitest';
import type { ConvertJob } from '../../src/engine/backend.js';
import { type GpuBackend, type GpuOptions, gpuBackend, openGpuBackend } from '../../src/engine/gpu/backend.js';
import { firstDifference } from './float-vectors.js';
import { expectedOf } from './piece-jobs.js';

/** The backend of the browser's adapter. These tests are started with one; where it is missing they fail. */
export async function openTestBackend(options?: GpuOptions): Promise<GpuBackend> {
  const backend = await openGpuBackend(options);
  if (backend === undefined) throw new Error('this browser has no WebGPU adapter');
  return backend;
}

/** A backend with the device that it runs on, for tests that harm the device. */
export async function openTestDevice(): Promise<{ readonly device: GPUDevice; readonly backend: GpuBackend }> {
  const adapter = await navigator.gpu.requestAdapter();
  if (!adapter) throw new Error('this browser has no WebGPU adapter');
  const device = await adapter.requestDevice();
  return { device, backend: gpuBackend(device, adapter.info) };
}

/** Runs the job on `backend` and compares bytes and statistics with the specification. */
export async function expectRight(backend: GpuBackend, job: ConvertJob): Promise<void> {
  const wanted = expectedOf(job);
  const stats = await backend.convert(job);
  expect(firstDifference(job.output, wanted.output, job.to)).toBeUndefined();
  expect(stats).toEqual(wanted.stats);
}
