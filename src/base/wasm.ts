/**
 * WebAssembly that is a part of the code. The bytes of a module travel as text in a JavaScript module, so that nothing
 * is fetched, and every bundler and Node take it alike.
 *
 * @module
 */

import { fromBase64 } from './base64.js';

/** A module that is ready to be called. */
export interface Instance<Exports> {
  readonly exports: Exports;
  /** The memory that its functions work on. It never grows, so that views of it stay good. */
  readonly memory: WebAssembly.Memory;
}

/** Size of a page of memory, in bytes. */
const PAGE_BYTES = 65_536;

/**
 * Instantiates a module that imports `unshard.memory`, of at least `memoryBytes`. Undefined where it cannot be had,
 * for whatever reason: an engine without WebAssembly SIMD, or a page whose policy forbids WebAssembly.
 */
export function instantiate<Exports extends WebAssembly.Exports>(
  base64: string,
  memoryBytes: number,
): Instance<Exports> | undefined {
  const pages = Math.ceil(memoryBytes / PAGE_BYTES);
  try {
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    const module = new WebAssembly.Module(fromBase64(base64));
    const { exports } = new WebAssembly.Instance(module, { unshard: { memory } });
    return { exports: exports as Exports, memory };
  } catch {
    return undefined;
  }
}
