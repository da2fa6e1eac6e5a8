import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { type Expected, verifyOutput } from '../../bench/checkpoint/expected.js';

const home = mkdtempSync(join(tmpdir(), 'unshard-verify-'));
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** SHA-256, by sha256sum, of the fp32 numbers 1, and 1 and 2. */
const ONE = 'e00e5eb9444182f352323374ef4e08ebcb784725fdd4fd612d7730540b3e0c8c';
const ONE_AND_TWO = 'b9c80b5adeca450753a16950c3cc655d271f7bef7a485bc83f112b72fef21d37';

const EXPECTED: Expected = {
  elements: 3,
  tensors: {
    a: { shape: [1], fp32: ONE, fp16: '', bf16: '' },
    b: { shape: [1, 2], fp32: ONE_AND_TWO, fp16: '', bf16: '' },
  },
};

const A = { dtype: 'F32', shape: [1], data_offsets: [0, 4] };
const B = { dtype: 'F32', shape: [1, 2], data_offsets: [4, 12] };

test('the expected tensors pass, in any order', () => {
  expect(verify({ __metadata__: { format: 'pt' }, b: B, a: A })).toEqual([]);
});

test.each([
  ['a tensor that is missing', { a: A }, ['b is missing']],
  ['a tensor that is not expected', { a: A, b: B, c: A }, ['c is not expected']],
  ['another dtype', { a: { ...A, dtype: 'BF16' }, b: B }, ['a is BF16, not F32']],
  ['another shape', { a: A, b: { ...B, shape: [2, 1] } }, ['b has shape [2,1], not [1,2]']],
  ['the place of other values', { a: { ...A, data_offsets: [8, 12] }, b: B }, ['a has other values']],
])('%s is found', (_, header, failures) => {
  expect(verify(header)).toEqual(failures);
});

test('a single flipped bit is found', () => {
  const data = new Uint8Array(new Float32Array([1, 1, 2]).buffer);
  data[11] = (data[11] ?? 0) ^ 1;
  expect(verify({ a: A, b: B }, data)).toEqual(['b has other values']);
});

test('a file that ends too early is found', () => {
  const data = new Uint8Array(new Float32Array([1, 1, 2]).buffer).subarray(0, 11);
  expect(() => verify({ a: A, b: B }, data)).toThrow('The output ends at');
});

function verify(header: object, data: Uint8Array = new Uint8Array(new Float32Array([1, 1, 2]).buffer)): string[] {
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const path = join(home, 'model.safetensors');
  writeFileSync(path, Buffer.concat([length, text, data]));
  return verifyOutput(path, EXPECTED, 'fp32');
}
