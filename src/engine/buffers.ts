import { releaseBytes, reserveBytes } from '../base/kernel-memory.js';
import type { TileWork } from './work.js';

/** The buffers that one tile is filled in, each exactly as long as its work asks for. */
export interface TileBuffers {
  /** What jobs gather from. */
  readonly input: Uint8Array;
  /** The tile. */
  readonly output: Uint8Array;
  /** Stored bits that something must equal. */
  readonly proof: Uint8Array;
  /** What must equal them, where it had to be made. */
  readonly rounded: Uint8Array;
}

/** Buffers grow in steps of this (1 MiB), so that tiles of nearly the same size use the same one. */
const BUFFER_STEP = 2 ** 20;

/** A length for tiles of nearly `length` bytes. */
export function roomFor(length: number): number {
  return Math.ceil(length / BUFFER_STEP) * BUFFER_STEP;
}

/** The memory of one lane: kept from tile to tile, and grown where a tile needs more. */
export class LaneBuffers {
  readonly #kept: Record<keyof TileBuffers, Uint8Array<ArrayBuffer>> = {
    input: new Uint8Array(0),
    output: new Uint8Array(0),
    proof: new Uint8Array(0),
    rounded: new Uint8Array(0),
  };

  readonly #allocate: (length: number) => Uint8Array<ArrayBuffer>;

  /** With `reserveBytes` the kernels take the buffers without a copy; `release` then has to be called. */
  constructor(allocate: (length: number) => Uint8Array<ArrayBuffer> = (length) => new Uint8Array(length)) {
    this.#allocate = allocate;
  }

  /** Buffers for a tile; what they held before is lost. The tile is filled in `output` where one is given. */
  fit(work: TileWork, output?: Uint8Array): TileBuffers {
    return {
      input: this.#take('input', work.inputLength),
      output: output ?? this.#take('output', work.tile.length),
      proof: this.#take('proof', work.proofLength),
      rounded: this.#take('rounded', work.proofJobs.length > 0 ? work.proofLength : 0),
    };
  }

  /** Gives the memory back. Nothing may be reading into it any more. */
  release(): void {
    for (const which of ['input', 'output', 'proof', 'rounded'] as const) {
      releaseBytes(this.#kept[which]);
      this.#kept[which] = new Uint8Array(0);
    }
  }

  #take(which: keyof TileBuffers, length: number): Uint8Array {
    if (this.#kept[which].length < length) {
      releaseBytes(this.#kept[which]);
      this.#kept[which] = this.#allocate(roomFor(length));
    }
    return this.#kept[which].subarray(0, length);
  }
}

/** Memory for reads that are copied on at once. What is given back is used again while it is in the cache of the processor. */
export class Scratch {
  readonly #idle: Uint8Array[] = [];

  /** At least `length` bytes, which hold anything. */
  take(length: number): Uint8Array {
    const memory = this.#idle.pop();
    if (memory && memory.length >= length) return memory;
    if (memory) releaseBytes(memory);
    return reserveBytes(roomFor(length));
  }

  /** Gives back what `take` gave. */
  give(memory: Uint8Array): void {
    this.#idle.push(memory);
  }

  /** Frees all that was given back. */
  release(): void {
    for (const memory of this.#idle.splice(0)) releaseBytes(memory);
  }
}
