/**
 * One memory of WebAssembly for a whole thread. Kernels take bytes that lie in it where they lie; all others are copied
 * into it first. So whoever fills large buffers reserves them here:
 *
 *     const tile = reserveBytes(length);
 *     …
 *     releaseBytes(tile);
 *
 * @module
 */

import { once } from './once.js';

/** Size of the memory (160 MiB): the tiles of a run by default, and 32 MiB. It is real memory only where it was written to. */
const MEMORY_BYTES = 2 ** 27 + 2 ** 25;

/** Its size where so much cannot be had (16 MiB): what the kernels need to copy to, and some reads. */
const SMALL_MEMORY_BYTES = 2 ** 24;

/** Size of a page of WebAssembly memory, in bytes. */
const PAGE_BYTES = 65_536;

/** What is reserved starts at a multiple of this, in bytes: a line of the cache. */
const LINE_BYTES = 64;

/** The memory of this thread; undefined where there is no WebAssembly. It never grows, so that views of it stay good. */
export const kernelMemory = once((): WebAssembly.Memory | undefined => {
  const memory = newMemory(MEMORY_BYTES) ?? newMemory(SMALL_MEMORY_BYTES);
  // Kernels read whole vectors, beyond the end of what they are given: the last line is nobody's.
  if (memory) free.push({ start: 0, end: memory.buffer.byteLength - LINE_BYTES });
  return memory;
});

/** A memory of at least `bytes` that never grows; undefined where it cannot be had. */
export function newMemory(bytes: number): WebAssembly.Memory | undefined {
  const pages = Math.ceil(bytes / PAGE_BYTES);
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages });
  } catch {
    return undefined;
  }
}

/**
 * Bytes for the caller alone, until `releaseBytes`: in the memory of the kernels as far as there is room, else ordinary
 * ones. They hold anything.
 */
export function reserveBytes(length: number): Uint8Array<ArrayBuffer> {
  return reserveInMemory(length) ?? new Uint8Array(length);
}

/** As `reserveBytes`; undefined where there is no room in the memory of the kernels. */
export function reserveInMemory(length: number): Uint8Array<ArrayBuffer> | undefined {
  const memory = kernelMemory();
  const size = Math.max(1, Math.ceil(length / LINE_BYTES)) * LINE_BYTES;
  const index = free.findIndex((gap) => gap.end - gap.start >= size);
  const gap = free[index];
  if (!memory || !gap) return undefined;
  const { start } = gap;
  gap.start += size;
  if (gap.start === gap.end) free.splice(index, 1);
  reserved.set(start, start + size);
  return new Uint8Array(memory.buffer, start, length);
}

/** Gives back what `reserveBytes` gave; nobody may use it any more. Ordinary bytes are left to the garbage collector. */
export function releaseBytes(bytes: Uint8Array): void {
  const start = addressOf(bytes);
  const end = start === undefined ? undefined : reserved.get(start);
  if (start === undefined || end === undefined) return;
  reserved.delete(start);
  const at = free.findIndex((gap) => gap.start > start);
  const index = at < 0 ? free.length : at;
  const [before, after] = [free[index - 1], free[index]];
  const joinsBefore = before?.end === start;
  const joinsAfter = after?.start === end;
  const gap = { start: joinsBefore ? before.start : start, end: joinsAfter ? after.end : end };
  free.splice(index - (joinsBefore ? 1 : 0), (joinsBefore ? 1 : 0) + (joinsAfter ? 1 : 0), gap);
}

/** Where bytes lie in the memory of the kernels; undefined where they lie elsewhere. */
export function addressOf(bytes: Uint8Array): number | undefined {
  return bytes.buffer === kernelMemory()?.buffer ? bytes.byteOffset : undefined;
}

/** What is free, in ascending order, no two next to each other. */
const free: { start: number; end: number }[] = [];

/** Where each reserved range ends, by its start. */
const reserved = new Map<number, number>();
