import { bytesOf, type DType } from '../../src/base/dtype.js';
import type { Partition, Piece } from '../../src/base/extent.js';

/** How the bytes of a tensor lie in its file. */
export type Placement = 'run' | 'runs' | 'strided' | 'cut';

/** A file that tensors are put into one after another, with bytes between them that belong to none. */
export class PlacedFile {
  readonly partitions: Partition[][] = [];
  readonly #source: number;
  readonly #bytes: number[] = [];

  constructor(source: number) {
    this.#source = source;
  }

  /** The file. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from([...this.#bytes, 0xee]);
  }

  /** Puts a tensor into the file. `firstList` is the number of the first of this file's partition lists. */
  place(dtype: DType, bytes: Uint8Array, placement: Placement, firstList = 0): Piece[] {
    const size = bytesOf(dtype);
    const count = bytes.length / size;
    const half = Math.ceil(count / 2) * size;
    const { length } = bytes;
    if (length === 0) return [];
    const source = this.#source;
    if (placement === 'run') return [{ source, offset: this.#put(bytes), length, at: 0 }];
    if (placement === 'strided') {
      const apart = new Uint8Array(count * 3 * size).fill(0xdd);
      for (let i = 0; i < count; i++) apart.set(bytes.subarray(i * size, (i + 1) * size), i * 3 * size);
      const offset = this.#put(apart);
      return [{ source, offset, length: size, at: 0, repeat: [{ count, from: 3 * size, to: size }] }];
    }
    const halves = [bytes.subarray(0, half), bytes.subarray(half)];
    const offsets = halves.map((part) => this.#put(part));
    if (placement === 'cut') {
      const over = firstList + this.partitions.push(offsets.map((offset) => ({ source, offset }))) - 1;
      return [{ over, offset: 0, share: half, length, at: 0 }];
    }
    return halves.flatMap((part, i) =>
      part.length === 0 ? [] : [{ source, offset: offsets[i] ?? 0, length: part.length, at: i * half }],
    );
  }

  #put(bytes: Uint8Array): number {
    this.#bytes.push(0xee, 0xee, 0xee);
    return this.#bytes.push(...bytes) - bytes.length;
  }
}
