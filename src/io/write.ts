import type { OutputTree } from './types.js';

/**
 * Writes a small file as a whole. Nothing is left of it where that fails.
 *
 * @throws UnshardError of kind `sink`.
 */
export async function writeBytes(output: OutputTree, path: string, bytes: Uint8Array): Promise<void> {
  const sink = await output.create(path, bytes.length);
  try {
    await sink.write(0, bytes);
    await sink.close();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}
