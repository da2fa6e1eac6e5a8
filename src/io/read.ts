import type { ByteSource } from './types.js';

/** Reads `[offset, offset + length)` into a fresh array. */
export async function readBytes(
  source: ByteSource,
  offset: number,
  length: number,
  signal?: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length);
  await source.read(offset, bytes, signal);
  return bytes;
}
