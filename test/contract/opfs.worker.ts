/**
 * The worker in which the tests of `opfsOutput` run it, since it exists nowhere else. What is open has a number; calls
 * answer with their result or with the detail of their failure, which keeps the error's data.
 *
 * @module
 */

import { expose } from 'comlink';
import { type ErrorDetail, UnshardError } from '../../src/base/errors.js';
import { type OpfsOutput, opfsOutput } from '../../src/io/opfs.js';
import { readBytes } from '../../src/io/read.js';
import type { ByteSink, ByteSource } from '../../src/io/types.js';

/** What a call gave. */
export type Answer<T> = { readonly value: T } | { readonly detail: ErrorDetail } | { readonly message: string };

const outputs: OpfsOutput[] = [];
const sinks: ByteSink[] = [];
const sources: ByteSource[] = [];

const api = {
  openOutput: (folder: string) => answer(async () => outputs.push(await opfsOutput(folder)) - 1),
  has: (output: number, path: string) => answer(() => of(outputs, output).has(path)),
  remove: (output: number, path: string) => answer(() => of(outputs, output).remove(path)),
  file: (output: number, path: string) => answer(() => of(outputs, output).file(path)),
  clear: (output: number) => answer(() => of(outputs, output).clear()),
  create: (output: number, path: string, byteLength: number) =>
    answer(async () => sinks.push(await of(outputs, output).create(path, byteLength)) - 1),
  write: (sink: number, offset: number, bytes: Uint8Array) => answer(() => of(sinks, sink).write(offset, bytes)),
  closeSink: (sink: number) => answer(() => of(sinks, sink).close()),
  abort: (sink: number) => answer(() => of(sinks, sink).abort()),
  openFile: (output: number, path: string) =>
    answer(async () => {
      const source = await of(outputs, output).open(path);
      return { id: sources.push(source) - 1, name: source.name, size: source.size, modified: source.modified };
    }),
  read: (source: number, offset: number, length: number) =>
    answer(() => readBytes(of(sources, source), offset, length)),
  closeSource: (source: number) => answer(() => of(sources, source).close()),
};

/** What the worker can be asked. */
export type OpfsApi = typeof api;

expose(api);

async function answer<T>(call: () => Promise<T>): Promise<Answer<T>> {
  try {
    return { value: await call() };
  } catch (error) {
    return error instanceof UnshardError ? { detail: error.detail } : { message: String(error) };
  }
}

function of<T>(open: readonly T[], id: number): T {
  const found = open[id];
  if (found === undefined) throw new Error(`Nothing is open with the number ${id}.`);
  return found;
}
