import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

let memory: typeof import('../../../src/base/kernel-memory.js');
beforeEach(async () => {
  vi.resetModules();
  memory = await import('../../../src/base/kernel-memory.js');
});
afterEach(() => void vi.unstubAllGlobals());

const MEBIBYTE = 2 ** 20;

test('a new memory has whole pages and cannot grow', () => {
  const made = memory.newMemory(65_537);
  expect(made?.buffer.byteLength).toBe(131_072);
  expect(() => made?.grow(1)).toThrow(RangeError);
});

test('reserved bytes have an address, others have none', () => {
  const bytes = memory.reserveBytes(100);
  expect(bytes.byteLength).toBe(100);
  expect(memory.addressOf(bytes)).toBe(bytes.byteOffset);
  expect(memory.addressOf(bytes.subarray(7))).toBe(bytes.byteOffset + 7);
  expect(memory.addressOf(new Uint8Array(100))).toBeUndefined();
});

test('what is reserved never overlaps, in whatever order it is given back', () => {
  const held: Uint8Array[] = [];
  let refused = 0;
  let state = 1;
  const random = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  for (let step = 0; step < 2000; step++) {
    if (held.length > 20 || (held.length > 0 && random(3) === 0)) {
      const [bytes] = held.splice(random(held.length), 1);
      if (bytes) memory.releaseBytes(bytes);
    } else {
      const bytes = memory.reserveInMemory(random(20 * MEBIBYTE));
      if (bytes) held.push(bytes);
      else refused++;
    }
    const sorted = held.toSorted((a, b) => a.byteOffset - b.byteOffset);
    for (const [i, bytes] of sorted.entries()) {
      const next = sorted[i + 1]?.byteOffset ?? bytes.buffer.byteLength;
      expect(bytes.byteOffset + bytes.byteLength).toBeLessThanOrEqual(next);
    }
  }
  expect(refused).toBeGreaterThan(0);
  for (const bytes of held) memory.releaseBytes(bytes);
  // All is free again, in one piece.
  expect(memory.addressOf(memory.reserveBytes(159 * MEBIBYTE))).toBe(0);
});

test('where there is no room, ordinary bytes are given', () => {
  const all = memory.reserveBytes(100 * MEBIBYTE);
  const more = memory.reserveBytes(100 * MEBIBYTE);
  expect(memory.addressOf(all)).toBe(0);
  expect(more.byteLength).toBe(100 * MEBIBYTE);
  expect(memory.addressOf(more)).toBeUndefined();
  expect(memory.reserveInMemory(100 * MEBIBYTE)).toBeUndefined();
  memory.releaseBytes(more);
  memory.releaseBytes(all);
  expect(memory.reserveInMemory(100 * MEBIBYTE)).toBeDefined();
});

test('giving back a part, or twice, frees nothing that is in use', () => {
  const first = memory.reserveBytes(1000);
  memory.releaseBytes(first.subarray(64));
  const second = memory.reserveBytes(1000);
  expect(second.byteOffset).toBeGreaterThanOrEqual(first.byteOffset + 1000);
  memory.releaseBytes(second);
  memory.releaseBytes(second);
  const [third, fourth] = [memory.reserveBytes(1000), memory.reserveBytes(1000)];
  expect(fourth.byteOffset).toBeGreaterThanOrEqual(third.byteOffset + 1000);
});

test('where a large memory cannot be had, a small one is', () => {
  const { Memory } = WebAssembly;
  const Small = function (this: unknown, descriptor: WebAssembly.MemoryDescriptor) {
    if (descriptor.initial > 1000) throw new RangeError('could not allocate memory');
    return new Memory(descriptor);
  };
  vi.stubGlobal('WebAssembly', { Memory: Small });
  const inside = memory.reserveBytes(10 * MEBIBYTE);
  expect(memory.addressOf(inside)).toBe(0);
  expect(memory.addressOf(memory.reserveBytes(10 * MEBIBYTE))).toBeUndefined();
});

describe('without WebAssembly', () => {
  test('bytes are ordinary ones', () => {
    vi.stubGlobal('WebAssembly', undefined);
    const bytes = memory.reserveBytes(10);
    expect(bytes.byteLength).toBe(10);
    expect(memory.addressOf(bytes)).toBeUndefined();
    memory.releaseBytes(bytes);
  });
});
