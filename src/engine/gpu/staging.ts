/**
 * The buffers of one batch on its way through the device. They are kept from batch to batch and grow to the largest, so
 * that a run allocates nothing after its first tiles.
 *
 * @module
 */

/** Bytes that a batch needs of each buffer; multiples of 4. */
export interface StagingSizes {
  readonly input: number;
  readonly table: number;
  readonly output: number;
  readonly tally: number;
  readonly readback: number;
}

/** The buffers of one batch. */
export type StagingBuffers = Readonly<Record<keyof StagingSizes, GPUBuffer>>;

/** Buffers are a multiple of this, 1 MiB, so that batches of almost one size do not grow them again and again. */
export const GRANULE_BYTES = 2 ** 20;

/** One slot of the ring. */
export class Staging {
  readonly #device: GPUDevice;
  readonly #layout: GPUBindGroupLayout;
  readonly #label: string;
  #buffers: Partial<Record<keyof StagingSizes, GPUBuffer>> = {};
  #bindGroup: GPUBindGroup | undefined;
  #table = new Uint32Array(0);

  constructor(device: GPUDevice, layout: GPUBindGroupLayout, label: string) {
    this.#device = device;
    this.#layout = layout;
    this.#label = label;
  }

  /** The buffers, each at least as large as asked, and the group that binds them. Failures go to the error scopes. */
  prepare(sizes: StagingSizes): { readonly buffers: StagingBuffers; readonly bindGroup: GPUBindGroup } {
    const buffers = {
      input: this.#buffer('input', sizes.input),
      table: this.#buffer('table', sizes.table),
      output: this.#buffer('output', sizes.output),
      tally: this.#buffer('tally', sizes.tally),
      readback: this.#buffer('readback', sizes.readback),
    };
    this.#bindGroup ??= this.#device.createBindGroup({
      label: this.#label,
      layout: this.#layout,
      // The shader sees the input twice: by the word, and by four.
      entries: [buffers.input, buffers.input, buffers.table, buffers.output, buffers.tally].map((buffer, binding) => ({
        binding,
        resource: { buffer },
      })),
    });
    return { buffers, bindGroup: this.#bindGroup };
  }

  /** Words to put a table in, before it is written to its buffer. */
  table(words: number): Uint32Array<ArrayBuffer> {
    if (this.#table.length < words) this.#table = new Uint32Array(2 * words);
    return this.#table.subarray(0, words);
  }

  /** Frees the buffers; the next batch makes new ones. */
  reset(): void {
    for (const buffer of Object.values(this.#buffers)) buffer.destroy();
    this.#buffers = {};
    this.#bindGroup = undefined;
  }

  #buffer(name: keyof StagingSizes, bytes: number): GPUBuffer {
    const existing = this.#buffers[name];
    if (existing !== undefined && existing.size >= bytes) return existing;
    existing?.destroy();
    this.#bindGroup = undefined;
    const created = this.#device.createBuffer({
      label: `${this.#label} ${name}`,
      size: Math.ceil(bytes / GRANULE_BYTES) * GRANULE_BYTES,
      usage: usageOf(name),
    });
    this.#buffers[name] = created;
    return created;
  }
}

function usageOf(name: keyof StagingSizes): GPUBufferUsageFlags {
  return name === 'readback'
    ? GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST
    : GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
}
