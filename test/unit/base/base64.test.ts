import { expect, test } from 'vitest';
import { fromBase64, toBase64 } from '../../../src/base/base64.js';

test.each([0, 1, 2, 3, 8191, 8192, 8193, 100_000])('%i bytes are the same in base64 and back', (length) => {
  const bytes = Uint8Array.from({ length }, (_, i) => (i * 7 + (i >> 8)) % 256);
  expect(toBase64(bytes)).toBe(Buffer.from(bytes).toString('base64'));
  expect(fromBase64(toBase64(bytes))).toEqual(bytes);
});
