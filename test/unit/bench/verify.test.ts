import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { type Expected, verifyOutput } from '../../bench/checkpoint/expected.js';
import { pickle, unicode } from '../../helpers/pickle.js';
import { storage, tensor, torchZip } from '../../helpers/torch.js';

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

test('the expected tensors pass, in any order', async () => {
  expect(await verify({ __metadata__: { format: 'pt' }, b: B, a: A })).toEqual([]);
});

test.each([
  ['a tensor that is missing', { a: A }, ['b is missing']],
  ['a tensor that is not expected', { a: A, b: B, c: A }, ['c is not expected']],
  ['another dtype', { a: { ...A, dtype: 'BF16' }, b: B }, ['a is BF16, not F32']],
  ['another shape', { a: A, b: { ...B, shape: [2, 1] } }, ['b has shape [2,1], not [1,2]']],
  ['the place of other values', { a: { ...A, data_offsets: [8, 12] }, b: B }, ['a has other values']],
])('%s is found', async (_, header, failures) => {
  expect(await verify(header)).toEqual(failures);
});

test('a single flipped bit is found', async () => {
  const data = new Uint8Array(new Float32Array([1, 1, 2]).buffer);
  data[11] = (data[11] ?? 0) ^ 1;
  expect(await verify({ a: A, b: B }, data)).toEqual(['b has other values']);
});

test('a file that ends too early is found', async () => {
  const data = new Uint8Array(new Float32Array([1, 1, 2]).buffer).subarray(0, 11);
  await expect(verify({ a: A, b: B }, data)).rejects.toThrow('The output ends at');
});

test('tensors are looked for in all files of the folder', async () => {
  const folder = emptyFolder();
  const one = new Uint8Array(new Float32Array([1]).buffer);
  const oneAndTwo = new Uint8Array(new Float32Array([1, 2]).buffer);
  write(join(folder, 'model-00001-of-00002.safetensors'), { a: A }, one);
  write(join(folder, 'model-00002-of-00002.safetensors'), { b: { ...B, data_offsets: [0, 8] } }, oneAndTwo);
  writeFileSync(join(folder, 'model.safetensors.index.json'), '{}');
  expect(await verifyOutput(folder, EXPECTED, 'fp32')).toEqual([]);
  rmSync(join(folder, 'model-00001-of-00002.safetensors'));
  expect(await verifyOutput(folder, EXPECTED, 'fp32')).toEqual(['a is missing']);
});

test('a torch file is compared as well', async () => {
  const folder = emptyFolder();
  const object = pickle(
    '\x80\x02}(',
    unicode('a'),
    tensor(storage('FloatStorage', '0', 1), [1], [1]),
    unicode('b'),
    tensor(storage('FloatStorage', '1', 2), [1, 2], [2, 1]),
    'u.',
  );
  const storages = { 0: floats(1), 1: floats(1, 2) };
  writeFileSync(join(folder, 'pytorch_model.bin'), torchZip({ object, storages, root: 'pytorch_model' }));
  expect(await verifyOutput(folder, EXPECTED, 'fp32')).toEqual([]);
  const other = { ...storages, 1: floats(1, 3) };
  writeFileSync(join(folder, 'pytorch_model.bin'), torchZip({ object, storages: other, root: 'pytorch_model' }));
  expect(await verifyOutput(folder, EXPECTED, 'fp32')).toEqual(['b has other values']);
});

async function verify(
  header: object,
  data: Uint8Array = new Uint8Array(new Float32Array([1, 1, 2]).buffer),
): Promise<string[]> {
  const folder = emptyFolder();
  write(join(folder, 'model.safetensors'), header, data);
  return verifyOutput(folder, EXPECTED, 'fp32');
}

function write(path: string, header: object, data: Uint8Array): void {
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(path, Buffer.concat([length, text, data]));
}

function emptyFolder(): string {
  return mkdtempSync(join(home, 'output-'));
}

function floats(...values: readonly number[]): Uint8Array {
  return new Uint8Array(new Float32Array(values).buffer);
}
