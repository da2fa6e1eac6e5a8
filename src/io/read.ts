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

/** Reads `[offset, offset + length)`, or gives a view where the source holds these bytes already. They are not to be changed. */
export async function readView(
  source: ByteSource,
  offset: number,
  length: number,
  signal?: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  signal?.throwIfAborted();
  return source.held?.(offset, length) ?? readBytes(source, offset, length, signal);
}
