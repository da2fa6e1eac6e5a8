import { afterEach, describe, expect, test, vi } from 'vitest';
import { toBase64 } from '../../../src/base/base64.js';
import { CRC32_FOLD_MODULE } from '../../../src/base/crc32-fold-module.js';
import { instantiate } from '../../../src/base/wasm.js';

afterEach(() => vi.unstubAllGlobals());

/** A module with this one function, which takes and gives nothing. */
const moduleOf = (...body: number[]) =>
  toBase64(
    Uint8Array.of(
      ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      ...[1, 4, 1, 0x60, 0, 0],
      ...[3, 2, 1, 0],
      ...[10, body.length + 4, 1, body.length + 2, 0, ...body, 0x0b],
    ),
  );

const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });

test('a module gives its functions', () => {
  expect(Object.keys(instantiate(CRC32_FOLD_MODULE, memory) ?? {})).toEqual(['fold']);
});

describe('there is no instance', () => {
  test('where the engine does not know an instruction', () => {
    expect(instantiate(moduleOf(), memory)).toBeDefined();
    expect(instantiate(moduleOf(0xff), memory)).toBeUndefined();
  });

  test('where there is no WebAssembly', () => {
    vi.stubGlobal('WebAssembly', undefined);
    expect(instantiate(CRC32_FOLD_MODULE, memory)).toBeUndefined();
  });

  test('where a policy forbids it', () => {
    const { Memory, CompileError } = WebAssembly;
    const Module = (): never => {
      throw new CompileError('Refused to compile or instantiate WebAssembly module');
    };
    vi.stubGlobal('WebAssembly', { Memory, Module });
    expect(instantiate(CRC32_FOLD_MODULE, memory)).toBeUndefined();
  });
});
