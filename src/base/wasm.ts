/**
 * WebAssembly that is a part of the code. The bytes of a module travel as text in a JavaScript module, so that nothing
 * is fetched, and every bundler and Node take it alike.
 *
 * @module
 */

import { fromBase64 } from './base64.js';

/**
 * Instantiates a module that imports `unshard.memory`. Undefined where it cannot be had, for whatever reason: an engine
 * without WebAssembly SIMD, or a page whose policy forbids WebAssembly.
 */
export function instantiate<Exports extends WebAssembly.Exports>(
  base64: string,
  memory: WebAssembly.Memory,
): Exports | undefined {
  try {
    const module = new WebAssembly.Module(fromBase64(base64));
    return new WebAssembly.Instance(module, { unshard: { memory } }).exports as Exports;
  } catch {
    return undefined;
  }
}
