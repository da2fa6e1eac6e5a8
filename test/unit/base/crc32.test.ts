import { crc32 as zlibCrc32 } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { combineCrc32, crc32 } from '../../../src/base/crc32.js';

const ascii = (text: string) => new TextEncoder().encode(text);

/** The CRC one bit at a time, as the definition has it. */
function slowCrc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ~crc >>> 0;
}

/** Bytes without a pattern; the same on every run. */
function noise(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = 0x12345678;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

/** `zlib.crc32` of Python, taken over 2^33 zero bytes. */
const CRC_OF_EIGHT_GIB_OF_ZEROS = 0x41d912ff;

describe('crc32', () => {
  it('gives the check value of the CRC catalogue', () => {
    expect(crc32(ascii('123456789'))).toBe(0xcbf43926);
  });

  it('is 0 for no bytes, whatever the alignment of the view', () => {
    const buffer = new ArrayBuffer(8);
    for (let offset = 0; offset < 8; offset++) expect(crc32(new Uint8Array(buffer, offset, 0))).toBe(0);
  });

  it('agrees with the definition at every alignment and length around its steps', () => {
    const bytes = noise(80);
    for (let offset = 0; offset < 5; offset++) {
      for (let length = 0; offset + length <= bytes.length; length++) {
        const view = bytes.subarray(offset, offset + length);
        expect(crc32(view), `offset ${offset}, length ${length}`).toBe(slowCrc32(view));
      }
    }
  });

  it('goes on from the CRC of what came before', () => {
    const bytes = noise(1000);
    for (const cut of [0, 1, 15, 16, 17, 500, 999, 1000]) {
      expect(crc32(bytes.subarray(cut), crc32(bytes.subarray(0, cut)))).toBe(slowCrc32(bytes));
    }
  });
});

describe.each([
  { way: 'shortened by WebAssembly', platform: WebAssembly },
  { way: 'in JavaScript alone', platform: undefined },
])('the crc32 of long runs, $way', ({ platform }) => {
  let longCrc32: typeof crc32;
  let reserve: (length: number) => Uint8Array;

  beforeEach(async () => {
    vi.stubGlobal('WebAssembly', platform);
    vi.resetModules();
    ({ crc32: longCrc32 } = await import('../../../src/base/crc32.js'));
    ({ reserveBytes: reserve } = await import('../../../src/base/kernel-memory.js'));
  });
  afterEach(() => vi.unstubAllGlobals());

  const bytes = noise(3 * 262_144);

  it.each([0, 1, 2, 3, 5])('agrees with another implementation, %i bytes after a word', (offset) => {
    const steps = [-17, -16, -15, -1, 0, 1, 15, 16, 17];
    for (const around of [16_384, 262_144, 262_144 + 16_384, 524_288]) {
      for (const step of steps) {
        const view = bytes.subarray(offset, offset + around + step);
        expect(longCrc32(view), `length ${around + step}`).toBe(zlibCrc32(view));
      }
    }
  });

  it('takes bytes in the memory of the kernels where they lie, at any alignment, and leaves them as they are', () => {
    const reserved = reserve(bytes.length + 16);
    for (const offset of [0, 1, 8, 15]) {
      for (const length of [16_384, 131_072 + 4815, 131_072 + 4816, 300_001, bytes.length]) {
        const view = reserved.fill(0xff).subarray(offset, offset + length);
        view.set(bytes.subarray(0, length));
        expect(longCrc32(view, 7), `offset ${offset}, length ${length}`).toBe(zlibCrc32(view, 7));
        expect(Buffer.compare(view, bytes.subarray(0, length))).toBe(0);
      }
    }
  });

  it('goes on from the CRC of what came before, and leaves the bytes as they are', () => {
    const wanted = zlibCrc32(bytes);
    const cut = 300_001;
    expect(longCrc32(bytes.subarray(cut), longCrc32(bytes.subarray(0, cut)))).toBe(wanted);
    expect(zlibCrc32(bytes)).toBe(wanted);
  });

  it('sees every bit', () => {
    const flipped = bytes.slice(0, 40_000);
    const whole = zlibCrc32(flipped);
    for (let bit = 0; bit < flipped.length * 8; bit += 997) {
      const at = bit >> 3;
      flipped[at] = (flipped[at] ?? 0) ^ (1 << (bit & 7));
      expect(longCrc32(flipped), `bit ${bit}`).not.toBe(whole);
      flipped[at] = (flipped[at] ?? 0) ^ (1 << (bit & 7));
    }
  });
});

describe('combineCrc32', () => {
  it('equals the CRC of both pieces in a row', () => {
    const bytes = noise(70_000);
    for (const cut of [0, 1, 7, 32_768, 65_535, 69_999, 70_000]) {
      const [head, tail] = [bytes.subarray(0, cut), bytes.subarray(cut)];
      expect(combineCrc32(slowCrc32(head), slowCrc32(tail), tail.length), `cut at ${cut}`).toBe(slowCrc32(bytes));
    }
  });

  it('does not depend on how three pieces are joined, for lengths of many GiB', () => {
    const [a, b, c] = [0xdeadbeef, 0x00c0ffee, 0xffffffff];
    const [lengthOfB, lengthOfC] = [2 ** 33 + 5, 2 ** 52 + 12_345];
    const leftFirst = combineCrc32(combineCrc32(a, b, lengthOfB), c, lengthOfC);
    const rightFirst = combineCrc32(a, combineCrc32(b, c, lengthOfC), lengthOfB + lengthOfC);
    expect(leftFirst).toBe(rightFirst);
  });

  it('knows the CRC of 8 GiB of zeros', () => {
    let crc = crc32(new Uint8Array(1));
    for (let length = 1; length < 2 ** 33; length *= 2) crc = combineCrc32(crc, crc, length);
    expect(crc).toBe(CRC_OF_EIGHT_GIB_OF_ZEROS);
  });
});
