import { isDeepStrictEqual } from 'node:util';
import { describe, expect, test } from 'vitest';
import { bytesOf, type FloatDType, type TargetDType } from '../../../src/base/dtype.js';
import { converter } from '../../../src/numeric/convert.js';
import { scan } from '../../../src/numeric/scan.js';
import { emptyStats } from '../../../src/numeric/stats.js';
import { allHalves, firstDifference, mixedBytes, namedBytes, PAIRS, randomBytes } from '../../helpers/float-vectors.js';
import { simdImplementation } from '../../helpers/kernels.js';

const simd = simdImplementation();

function expectTheSame(from: FloatDType, to: TargetDType, input: Uint8Array): void {
  for (const overflow of ['inf', 'clamp'] as const) {
    const [found, wanted] = [simd, { converter }].map((implementation) => {
      const output = new Uint8Array((input.byteLength / bytesOf(from)) * bytesOf(to));
      const stats = emptyStats();
      implementation.converter(from, to, overflow)(input, output, stats);
      return { output, stats };
    });
    if (!found || !wanted) throw new Error('nothing was converted');
    expect(firstDifference(found.output, wanted.output, to)).toBeUndefined();
    expect(found.stats).toEqual(wanted.stats);
  }
}

describe('WebAssembly equals the specification', () => {
  test.each(PAIRS)('%s to %s, random bits', (from, to) => {
    expectTheSame(from, to, randomBytes(2 ** 22, 17));
  });

  test.each(PAIRS)('%s to %s, of 0 to 67 elements', (from, to) => {
    const bytes = mixedBytes(from, 0).slice(-67 * bytesOf(from));
    for (let count = 0; count <= 67; count++) expectTheSame(from, to, bytes.subarray(0, count * bytesOf(from)));
  });

  test.each(['F32', 'F16', 'BF16'] as const)('F64 to %s, at every exponent and around every tie', (to) => {
    expectTheSame('F64', to, everyTie());
  });

  test.each(['F16', 'BF16', 'F32', 'F64'] as const)('counting over %s, of 0 to 67 elements and of many', (dtype) => {
    const bytes = mixedBytes(dtype);
    for (const count of [...Array(68).keys(), bytes.byteLength / bytesOf(dtype)]) {
      const [found, wanted] = [emptyStats(), emptyStats()];
      const part = bytes.subarray(bytes.byteLength - count * bytesOf(dtype)).slice();
      simd.scan(dtype)(part, found);
      scan(dtype)(part, wanted);
      expect(found).toEqual(wanted);
    }
  });
});

describe('an element that is alone in its block', () => {
  test.each([
    ['F16', 'F32'],
    ['F16', 'BF16'],
    ['BF16', 'F32'],
    ['BF16', 'F16'],
  ] as const)('of %s to %s, every one of 16 bits', (from, to) => {
    expectEachAlone(from, to, allHalves());
  });

  test.each([
    ['F32', 'F16'],
    ['F32', 'BF16'],
    ['F64', 'F32'],
    ['F64', 'F16'],
    ['F64', 'BF16'],
  ] as const)('of %s to %s, the named cases', (from, to) => {
    expectEachAlone(from, to, namedBytes(from));
  });

  test.each(['F16', 'BF16', 'F32', 'F64'] as const)('of %s, counted', (dtype) => {
    const [count, countAsSpecified] = [simd.scan(dtype), scan(dtype)];
    for (const element of elementsOf(dtype, namedBytes(dtype))) {
      const [found, wanted] = [emptyStats(), emptyStats()];
      count(element, found);
      countAsSpecified(element, wanted);
      if (!isDeepStrictEqual(found, wanted)) expect({ element, found }).toEqual({ element, found: wanted });
    }
  });
});

test('a copy is refused', () => {
  expect(() => simd.converter('BF16', 'BF16', 'inf')).toThrow('BF16 to BF16 is a copy');
});

/** Its limits alone decide whether a block is counted: beside others they could be missed. */
function expectEachAlone(from: FloatDType, to: TargetDType, input: Uint8Array): void {
  const [convert, convertAsSpecified] = [simd.converter(from, to, 'inf'), converter(from, to, 'inf')];
  const [output, wantedOutput] = [new Uint8Array(bytesOf(to)), new Uint8Array(bytesOf(to))];
  for (const element of elementsOf(from, input)) {
    const [found, wanted] = [emptyStats(), emptyStats()];
    convert(element, output, found);
    convertAsSpecified(element, wantedOutput, wanted);
    if (isDeepStrictEqual([found, output], [wanted, wantedOutput])) continue;
    expect({ element, output, found }).toEqual({ element, output: wantedOutput, found: wanted });
  }
}

function* elementsOf(dtype: FloatDType, bytes: Uint8Array): Generator<Uint8Array> {
  const size = bytesOf(dtype);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/**
 * fp64 of every exponent and both signs. Their mantissas are a single bit and its neighbours, these below a bit that is
 * set, and random ones.
 */
function everyTie(): Uint8Array {
  const mantissas = [0n, 2n ** 52n - 1n, ...new BigUint64Array(randomBytes(800, 23).buffer)];
  for (let bit = 0n; bit < 52n; bit++) {
    for (const odd of [0n, 2n]) for (const step of [-1n, 0n, 1n]) mantissas.push(((1n + odd) << bit) + step);
  }
  const words = new BigUint64Array(4096 * mantissas.length);
  for (let top = 0; top < 4096; top++) {
    words.set(
      mantissas.map((mantissa) => (BigInt(top) << 52n) | (mantissa & (2n ** 52n - 1n))),
      top * mantissas.length,
    );
  }
  return new Uint8Array(words.buffer);
}
