/**
 * The bytes `[offset, offset + length)` of a file whose content follows from the position: any part of it can be checked
 * by itself, and no two neighbouring parts are alike.
 */
export function patternBytes(offset: number, length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = Math.imul(offset + i, 0x9e3779b1) >>> 15;
  return bytes;
}

/**
 * The first index at which two arrays differ, undefined where they are equal. Comparing long arrays with `toEqual`
 * takes minutes.
 */
export function firstDifference(actual: Uint8Array, expected: Uint8Array): number | undefined {
  const length = Math.min(actual.length, expected.length);
  for (let i = 0; i < length; i++) if (actual[i] !== expected[i]) return i;
  return actual.length === expected.length ? undefined : length;
}
