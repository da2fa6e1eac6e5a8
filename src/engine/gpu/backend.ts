/**
 * Conversions on the GPU. A batch is uploaded, gathered and converted in one dispatch, and read back with its counts.
 *
 *     const backend = await openGpuBackend();   // undefined where there is no adapter
 *
 * A device that fails stays silent: work on a lost device, or with a buffer that could not be made, gives zeros without
 * an error where it is used. So no byte is taken over before the error scopes are empty and the mark that the shader
 * left, the job's id and its number of elements, has been compared.
 *
 * @module
 */

import { mapBounded } from '../../base/concurrent.js';
import { bytesOf } from '../../base/dtype.js';
import { assert } from '../../base/errors.js';
import { addStats, emptyStats, valueOfF32 } from '../../numeric/stats.js';
import type { Backend, ConvertJob, ConvertStats } from '../backend.js';
import { checkJob } from '../job.js';
import { nameAdapter } from './adapter.js';
import { type Alignment, alignmentOf, type Batch, batchesOf, encodeTable, tableWords } from './batches.js';
import { deviceFailed, deviceLost, resultUntrusted } from './failures.js';
import { Ring } from './ring.js';
import { shaderCode, shaderConstants, TALLY_HEADER, TALLY_SLOT, WORKGROUP_ELEMENTS } from './shader.js';
import { GRANULE_BYTES, Staging, type StagingSizes } from './staging.js';
import { Waiting } from './waiting.js';

/** Batches under way at once: while one is computed, the other is uploaded or read back. More gain nothing. */
const RING_SLOTS = 2;

/** Largest buffer, 1 GiB: byte offsets in the shader are 32 bits, and larger batches are not faster. */
const MAX_BUFFER_BYTES = 2 ** 30;

/** What can go wrong on the device, each with a scope of its own. */
const ERROR_FILTERS = ['validation', 'internal', 'out-of-memory'] as const satisfies readonly GPUErrorFilter[];

/** Choices of the caller. */
export interface GpuOptions {
  /**
   * Most bytes of one buffer, at least 1024; larger jobs go in several batches. Default: what the device allows, up to
   * 1 GiB.
   */
  readonly maxBufferBytes?: number;
}

/** A backend on a GPU. */
export interface GpuBackend extends Backend {
  readonly name: 'gpu';
  /** True where the adapter is the CPU posing as a GPU: it gives the same bytes, but slower than the CPU backend. */
  readonly software: boolean;
  readonly waitedSeconds: number;
}

/** The GPU backend on the adapter of highest performance, or undefined where there is none or it gives no device. */
export async function openGpuBackend(options: GpuOptions = {}): Promise<GpuBackend | undefined> {
  const gpu = typeof navigator === 'undefined' ? undefined : navigator.gpu;
  const adapter = await gpu?.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) return undefined;
  const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
  const requiredLimits = { maxBufferSize, maxStorageBufferBindingSize };
  const device = await adapter.requestDevice({ label: 'unshard', requiredLimits }).catch(() => undefined);
  return device && gpuBackend(device, adapter.info, options);
}

/** The GPU backend on a device, which it owns from now on. */
export function gpuBackend(device: GPUDevice, info: GPUAdapterInfo, options: GpuOptions = {}): GpuBackend {
  const { description, software } = nameAdapter(info);
  const converter = new GpuConverter(device, description, options);
  return {
    name: 'gpu',
    description,
    software,
    get waitedSeconds() {
      return converter.waiting.seconds;
    },
    convert: (job) => converter.convert(job),
    close: async () => converter.close(),
  };
}

/** Owns the device, its pipelines and the ring of staging buffers. */
class GpuConverter {
  readonly waiting = new Waiting();
  readonly #adapter: string;
  readonly #device: GPUDevice;
  readonly #maxBytes: number;
  readonly #layout: GPUBindGroupLayout;
  readonly #slots: readonly Staging[];
  readonly #ring: Ring<Staging>;
  readonly #pipelines = new Map<string, Promise<GPUComputePipeline>>();
  readonly #lost: Promise<never>;
  #jobs = 0;

  constructor(device: GPUDevice, adapter: string, { maxBufferBytes = MAX_BUFFER_BYTES }: GpuOptions) {
    assert(maxBufferBytes >= 1024, `buffers of ${maxBufferBytes} bytes are too small`);
    this.#adapter = adapter;
    this.#device = device;
    this.#maxBytes = Math.min(maxBufferBytes, largestBuffer(device.limits));
    this.#layout = device.createBindGroupLayout({
      label: 'unshard',
      entries: (['read-only-storage', 'read-only-storage', 'read-only-storage', 'storage', 'storage'] as const).map(
        (type, binding) => ({
          binding,
          visibility: GPUShaderStage.COMPUTE,
          buffer: { type },
        }),
      ),
    });
    this.#slots = Array.from({ length: RING_SLOTS }, (_, i) => new Staging(device, this.#layout, `unshard ${i}`));
    this.#ring = new Ring(this.#slots);
    this.#lost = device.lost.then(({ reason, message }) => {
      throw deviceLost(adapter, message || reason);
    });
    // Nobody may be waiting when the device is lost; whoever converts next is told.
    this.#lost.catch(() => {});
  }

  async convert(job: ConvertJob): Promise<ConvertStats[]> {
    checkJob(job);
    const totals = Array.from({ length: job.slots }, emptyStats);
    await mapBounded([...batchesOf(job, this.#maxBytes)], RING_SLOTS, async (batch) => {
      const alignment = alignmentOf(batch, bytesOf(job.from));
      const pipeline = await Promise.race([this.#lost, this.#pipeline(job, alignment)]);
      const stats = await this.#ring.use((slot) => this.#run(job, batch, pipeline, slot));
      for (const [i, total] of totals.entries()) addStats(total, stats[i] as ConvertStats);
    });
    return totals;
  }

  close(): void {
    for (const slot of this.#slots) slot.reset();
    this.#device.destroy();
  }

  #pipeline(job: ConvertJob, alignment: Alignment): Promise<GPUComputePipeline> {
    const label = `unshard ${job.from} to ${job.to}, ${job.overflow}, aligned to ${alignment}`;
    let pipeline = this.#pipelines.get(label);
    if (pipeline === undefined) {
      const device = this.#device;
      pipeline = device
        .createComputePipelineAsync({
          label,
          layout: device.createPipelineLayout({ label, bindGroupLayouts: [this.#layout] }),
          compute: {
            module: device.createShaderModule({ label, code: shaderCode(job.from, job.to) }),
            constants: shaderConstants(job, alignment),
          },
        })
        .catch((error: Error) => {
          throw deviceFailed(this.#adapter, error.message);
        });
      this.#pipelines.set(label, pipeline);
    }
    return pipeline;
  }

  /** Converts one batch in the slot's buffers; `job.output` is written only when the result can be trusted. */
  async #run(job: ConvertJob, batch: Batch, pipeline: GPUComputePipeline, slot: Staging): Promise<ConvertStats[]> {
    this.#jobs = (this.#jobs + 1) >>> 0;
    const id = this.#jobs;
    const sizes = sizesOf(job, batch);
    try {
      // Everything between push and pop is synchronous, so that the scopes of two batches never cross.
      for (const filter of ERROR_FILTERS) this.#device.pushErrorScope(filter);
      let readback: GPUBuffer;
      let mapped: Promise<undefined>;
      let errors: Promise<GPUError | null>[];
      try {
        readback = this.#submit(job, batch, pipeline, slot, sizes, id);
        mapped = readback.mapAsync(GPUMapMode.READ, 0, sizes.readback);
      } finally {
        errors = ERROR_FILTERS.map(() => this.#device.popErrorScope());
      }
      await this.waiting.during(Promise.race([this.#lost, this.#settle(errors, mapped)]));
      const bytes = readback.getMappedRange(0, sizes.readback);
      const stats = this.#accept(job, batch, sizes, id, bytes);
      readback.unmap();
      return stats;
    } catch (error) {
      // A buffer may be invalid or still mapped: the next batch starts afresh.
      slot.reset();
      throw error;
    }
  }

  /** Uploads, dispatches and copies to the readback buffer, which it returns. */
  #submit(
    job: ConvertJob,
    batch: Batch,
    pipeline: GPUComputePipeline,
    slot: Staging,
    sizes: StagingSizes,
    id: number,
  ): GPUBuffer {
    const device = this.#device;
    const { buffers, bindGroup } = slot.prepare(sizes);
    upload(device.queue, buffers.input, job.input.subarray(batch.inputStart, batch.inputEnd));
    const table = slot.table(tableWords(batch));
    encodeTable(batch, id, table);
    device.queue.writeBuffer(buffers.table, 0, table);
    const encoder = device.createCommandEncoder({ label: pipeline.label });
    encoder.clearBuffer(buffers.tally, 0, sizes.tally);
    const pass = encoder.beginComputePass({ label: pipeline.label });
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, bindGroup);
    pass.dispatchWorkgroups(Math.ceil(batch.elements / WORKGROUP_ELEMENTS));
    pass.end();
    encoder.copyBufferToBuffer(buffers.tally, 0, buffers.readback, 0, sizes.tally);
    encoder.copyBufferToBuffer(buffers.output, 0, buffers.readback, sizes.tally, sizes.output);
    device.queue.submit([encoder.finish()]);
    return buffers.readback;
  }

  /** Waits for the scopes and the mapping; the first error of a scope says more than a mapping that failed. */
  async #settle(scopes: readonly Promise<GPUError | null>[], mapped: Promise<undefined>): Promise<void> {
    const [mapping] = await Promise.allSettled([mapped]);
    const error = (await Promise.all(scopes)).find((found) => found !== null);
    if (error) throw deviceFailed(this.#adapter, error.message);
    if (mapping.status === 'rejected') throw deviceLost(this.#adapter, 'its result cannot be read', mapping.reason);
  }

  /** Takes the result over, once it carries the mark of the batch. */
  #accept(job: ConvertJob, batch: Batch, sizes: StagingSizes, id: number, bytes: ArrayBuffer): ConvertStats[] {
    const tally = new Uint32Array(bytes, 0, sizes.tally / 4);
    const [foundJob = 0, foundElements = 0] = tally;
    if (foundJob !== id || foundElements !== batch.elements) {
      throw resultUntrusted(
        this.#adapter,
        { expected: id, found: foundJob },
        { expected: batch.elements, found: foundElements },
      );
    }
    const width = bytesOf(job.to);
    job.output.set(new Uint8Array(bytes, sizes.tally, batch.elements * width), batch.outputStart * width);
    return Array.from({ length: job.slots }, (_, slot) => {
      const at = TALLY_HEADER + slot * TALLY_SLOT;
      const [overflow = 0, underflow = 0, nan = 0, inf = 0, largest = 0] = tally.subarray(at, at + TALLY_SLOT);
      return { overflow, underflow, nan, inf, largest: valueOfF32(largest) };
    });
  }
}

/** The largest buffer to use: the readback buffer holds an output and its counts, so an output is half of a buffer. */
function largestBuffer({ maxBufferSize, maxStorageBufferBindingSize }: GPUSupportedLimits): number {
  const bytes = Math.min(maxBufferSize / 2, maxStorageBufferBindingSize, MAX_BUFFER_BYTES);
  return Math.floor(bytes / GRANULE_BYTES) * GRANULE_BYTES;
}

function sizesOf(job: ConvertJob, batch: Batch): StagingSizes {
  const output = wholeWords(batch.elements * bytesOf(job.to));
  const tally = 4 * (TALLY_HEADER + TALLY_SLOT * job.slots);
  return {
    input: wholeWords(batch.inputEnd - batch.inputStart),
    table: 4 * tableWords(batch),
    output,
    tally,
    readback: tally + output,
  };
}

function wholeWords(bytes: number): number {
  return Math.ceil(bytes / 4) * 4;
}

/** Writes bytes of any length: the queue takes whole words, so the last bytes go in a word of their own. */
function upload(queue: GPUQueue, buffer: GPUBuffer, bytes: Uint8Array): void {
  const whole = bytes.byteLength - (bytes.byteLength % 4);
  queue.writeBuffer(buffer, 0, bytes, 0, whole);
  if (whole === bytes.byteLength) return;
  const last = new Uint8Array(4);
  last.set(bytes.subarray(whole));
  queue.writeBuffer(buffer, whole, last);
}
