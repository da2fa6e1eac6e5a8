/**
 * Watches the closing of output files: a browser checks each finished file before it appears, which may take longer than
 * writing it, and tells nothing meanwhile.
 *
 * @module
 */

import type { OutputTree } from '../index.js';
import { changedSink } from './sinks.js';

/** A file that is being closed. */
export interface ClosingFile {
  readonly path: string;
  readonly byteLength: number;
  /** When it began, in milliseconds since 1970. */
  readonly since: number;
}

/** What is known of the files that are being closed, and of those that were. */
export interface Closing {
  /** Files that are being closed, oldest first. */
  readonly closing: readonly ClosingFile[];
  /** Seconds of closing per gigabyte over the files that were closed; absent before the first one of any size. */
  readonly secondsPerGigabyte?: number;
}

/** Files smaller than this, in bytes, say nothing about the time that a gigabyte takes. */
const LEAST_BYTES = 1_000_000;

/** Wraps a tree of outputs, so that `watch` tells how its closing goes. `onChange` is called when that is news. */
export function watchClosing(
  output: OutputTree,
  onChange: () => void = () => {},
): { readonly output: OutputTree; watch(): Closing } {
  const closing = new Set<ClosingFile>();
  let bytes = 0;
  let seconds = 0;

  async function create(path: string, byteLength: number): ReturnType<OutputTree['create']> {
    const sink = await output.create(path, byteLength);
    return changedSink(sink, {
      async close() {
        const started = performance.now();
        const file = { path, byteLength, since: Date.now() };
        closing.add(file);
        onChange();
        try {
          await sink.close();
          if (byteLength < LEAST_BYTES) return;
          bytes += byteLength;
          seconds += (performance.now() - started) / 1000;
        } finally {
          closing.delete(file);
          onChange();
        }
      },
    });
  }

  return {
    output: {
      name: output.name,
      create,
      has: (path) => output.has(path),
      open: (path) => output.open(path),
      remove: (path) => output.remove(path),
    },
    watch: () => ({
      closing: [...closing],
      ...(bytes === 0 ? {} : { secondsPerGigabyte: (seconds * 1e9) / bytes }),
    }),
  };
}
