/**
 * The sample checkpoint that is served beside the page. Its files are listed in `manifest.json`.
 *
 * @module
 */

import { type FileTree, memoryTree, UnshardError } from '../index.js';

/** The manifest of a sample. */
export interface SampleManifest {
  /** Name of the folder, shown to the user. */
  readonly name: string;
  /** Paths relative to the folder of the manifest. */
  readonly files: readonly string[];
}

/** Fetches a sample into memory. `url` ends with `/`. Rejects with kind `source` where a file is not to be had. */
export async function fetchSample(url: string, signal: AbortSignal): Promise<FileTree> {
  const { name, files } = (await (await get(new URL('manifest.json', url), signal)).json()) as SampleManifest;
  const contents = await Promise.all(
    files.map(async (path): Promise<[string, Uint8Array]> => {
      const response = await get(new URL(path, url), signal);
      return [path, new Uint8Array(await response.arrayBuffer())];
    }),
  );
  return { ...memoryTree(Object.fromEntries(contents)), name };
}

async function get(url: URL, signal: AbortSignal): Promise<Response> {
  try {
    const response = await fetch(url, { signal });
    if (response.ok) return response;
  } catch (error) {
    signal.throwIfAborted();
    throw unavailable(url, error);
  }
  throw unavailable(url);
}

function unavailable({ pathname }: URL, cause?: unknown): UnshardError {
  return new UnshardError(
    {
      kind: 'source',
      code: 'sample-unavailable',
      message: `The sample file ${pathname} could not be loaded.`,
      advice: 'Check the connection, or open a folder of your own.',
      facts: { file: pathname },
    },
    { cause },
  );
}
