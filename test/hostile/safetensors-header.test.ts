import { describe, expect, it } from 'vitest';
import { readSafetensorsHeader } from '../../src/formats/safetensors/read.js';
import { refusalOf } from '../helpers/refusal.js';
import { bytesSource, type RecordingSource, sparseSource } from '../helpers/source.js';

/** Headers that the reference reader of safetensors 0.8 was asked about, with what it and Unshard say. */

/** A file of `header` behind its own length, or behind `claimed`, and `data` zero bytes. */
function file(header: string | Uint8Array, data: number, claimed?: bigint): RecordingSource {
  const text = typeof header === 'string' ? new TextEncoder().encode(header) : header;
  const bytes = new Uint8Array(8 + text.length + data);
  new DataView(bytes.buffer).setBigUint64(0, claimed ?? BigInt(text.length), true);
  bytes.set(text, 8);
  return bytesSource(bytes);
}

const tensor = (shape: string, offsets: string, dtype = 'U8') =>
  `{"dtype":"${dtype}","shape":${shape},"data_offsets":${offsets}}`;
const one = tensor('[1]', '[0,1]');

describe('a header that the format allows', () => {
  it.each([
    ['a plain tensor', `{"a":${one}}`, 1],
    ['no tensors', '{}', 0],
    [
      'whitespace around every token',
      ` {\n\t"a" :\r{ "dtype" : "U8" , "shape" : [ 1 ] , "data_offsets" : [ 0 , 1 ] } } `,
      1,
    ],
    ['fields in another order', '{"a":{"data_offsets":[0,1],"shape":[1],"dtype":"U8"}}', 1],
    ['metadata that is null', `{"__metadata__":null,"a":${one}}`, 1],
    ['metadata behind the tensors', `{"a":${one},"__metadata__":{"k":"v"}}`, 1],
    ['data that is not aligned', `{"a":${one},"b":${tensor('[1]', '[1,5]', 'F32')}}`, 5],
    ['tensors out of order', `{"b":${tensor('[1]', '[1,2]')},"a":${one}}`, 2],
    [
      'empty tensors at every boundary',
      `{"x":${tensor('[0]', '[0,0]')},"a":${one},"y":${tensor('[2,0]', '[1,1]')}}`,
      1,
    ],
    ['sizes up to 2^53 - 1 behind a 0', `{"a":${tensor('[0,9007199254740991,9007199254740991]', '[0,0]')}}`, 0],
    ['9,000 dimensions', `{"a":${tensor(`[${Array(9000).fill(1).join()}]`, '[0,1]')}}`, 1],
    ['an empty name', `{"":${one}}`, 1],
    ['a name of one NUL', `{"\\u0000":${one}}`, 1],
    ['names that differ in Unicode normalization', `{"\u00e9":${one},"e\u0301":${tensor('[1]', '[1,2]')}}`, 2],
    ['an escaped surrogate pair', `{"\\ud83d\\ude00":${one}}`, 1],
  ])('takes %s', async (_, header, data) => {
    const { entries } = await readSafetensorsHeader(file(header, data));
    expect(entries.at(-1)?.end ?? 0).toBe(data);
  });

  it('keeps names and metadata keys of object members as data', async () => {
    const header = `{"__metadata__":{"__proto__":"x","constructor":"y"},"__proto__":${one},"toString":${tensor('[1]', '[1,2]')}}`;
    const { entries, metadata } = await readSafetensorsHeader(file(header, 2));
    expect(entries.map((entry) => entry.name)).toEqual(['__proto__', 'toString']);
    expect(Object.entries(metadata)).toEqual([
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ]);
    expect(Object.getPrototypeOf(metadata)).toBe(Object.prototype);
    expect(Object.hasOwn(Object.prototype, 'x')).toBe(false);
  });
});

describe('a header that is not what a header must be', () => {
  it.each([
    // The reference reader lets the last of these win; which one a reader takes must not matter.
    ['a name that is there twice', `{"a":${one},"a":${one}}`],
    ['a name that is there twice, once escaped', `{"a":${one},"\\u0061":${one}}`],
    ['a key twice in the metadata', `{"__metadata__":{"k":"1","k":"2"},"a":${one}}`],
    ['an unknown field', '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]}}'],
    // These the reference reader refuses as well.
    ['a name twice with other offsets', `{"a":${one},"a":${tensor('[1]', '[1,2]')}}`],
    ['metadata twice', `{"__metadata__":{},"__metadata__":{},"a":${one}}`],
    ['a field twice', '{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}'],
    ['a missing field', '{"a":{"dtype":"U8","shape":[1]}}'],
    ['a number in the metadata', `{"__metadata__":{"k":1},"a":${one}}`],
    ['an object in the metadata', `{"__metadata__":{"k":{}},"a":${one}}`],
    ['null in the metadata', `{"__metadata__":{"k":null},"a":${one}}`],
    ['metadata that is a list', `{"__metadata__":[],"a":${one}}`],
    ['a list', '[]'],
    ['a string', '"a"'],
    ['nothing', ''],
    ['only spaces', '        '],
    ['a tensor that is null', '{"a":null}'],
    ['a second object', `{"a":${one}}{}`],
    ['NUL bytes for padding', `{"a":${one}}\0\0`],
    ['a byte order mark', `\ufeff{"a":${one}}`],
    ['a comma at the end', `{"a":${one},}`],
    ['no end', `{"a":${one}`],
    ['a string without an end', '{"a'],
    ['a backslash at the end', '{"a\\'],
    ['a negative size', `{"a":${tensor('[-1]', '[0,1]')}}`],
    ['a size with a fraction', `{"a":${tensor('[1.0]', '[0,1]')}}`],
    ['a size with an exponent', `{"a":${tensor('[1e0]', '[0,1]')}}`],
    ['a size with a leading zero', `{"a":${tensor('[01]', '[0,1]')}}`],
    ['a size that is a string', `{"a":${tensor('["1"]', '[0,1]')}}`],
    ['a size above 2^64', `{"a":${tensor('[0,18446744073709551616]', '[0,0]')}}`],
    // The reference reader takes this one; no tensor has it.
    ['a size of 2^53', `{"a":${tensor('[0,9007199254740992]', '[0,0]')}}`],
    ['one offset', `{"a":${tensor('[1]', '[0]')}}`],
    ['three offsets', `{"a":${tensor('[1]', '[0,1,1]')}}`],
    ['half of a surrogate pair', `{"\\ud800":${one}}`],
    ['half of a surrogate pair in the metadata', `{"__metadata__":{"k":"\\udc00"},"a":${one}}`],
    ['a raw control character', `{"a\n":${one}}`],
    ['an escape that JSON does not know', `{"\\x61":${one}}`],
    ['true for a shape', '{"a":{"dtype":"U8","shape":true,"data_offsets":[0,1]}}'],
  ])('is refused: %s', async (_, header) => {
    const detail = await refusalOf(() => readSafetensorsHeader(file(header, 1)));
    expect(detail).toMatchObject({ kind: 'bad-file', code: 'safetensors-bad-header', facts: { file: 'test.pt' } });
  });

  it('is refused: bytes that are not UTF-8', async () => {
    const latin1 = new Uint8Array(Buffer.from(`{"\xe9":${one}}`, 'latin1'));
    expect((await refusalOf(() => readSafetensorsHeader(file(latin1, 1)))).code).toBe('safetensors-bad-header');
  });

  it('says where', async () => {
    const detail = await refusalOf(() => readSafetensorsHeader(file('{"a":{"dtype":7}}', 0)));
    expect(detail.facts).toEqual({ file: 'test.pt', offset: 14 });
    expect(detail.message).toContain("at character 14, '\"' was expected");
  });
});

describe('a header that contradicts its data', () => {
  it.each([
    ['a hole at the start', `{"a":${tensor('[1]', '[1,2]')}}`, 2, 'safetensors-gap-or-overlap'],
    ['a hole in the middle', `{"a":${one},"b":${tensor('[1]', '[2,3]')}}`, 3, 'safetensors-gap-or-overlap'],
    ['two tensors in one place', `{"a":${one},"b":${one}}`, 1, 'safetensors-gap-or-overlap'],
    [
      'two tensors that overlap',
      `{"a":${tensor('[2]', '[0,2]')},"b":${tensor('[2]', '[1,3]')}}`,
      3,
      'safetensors-gap-or-overlap',
    ],
    [
      'an empty tensor inside another',
      `{"a":${tensor('[4]', '[0,4]')},"b":${tensor('[0]', '[2,2]')}}`,
      4,
      'safetensors-gap-or-overlap',
    ],
    ['data behind the last tensor', `{"a":${one}}`, 2, 'safetensors-trailing-bytes'],
    ['data without tensors', '{}', 1, 'safetensors-trailing-bytes'],
    ['data that ends too early', `{"a":${tensor('[4]', '[0,4]')}}`, 3, 'safetensors-truncated'],
    ['offsets in reverse', `{"a":${tensor('[1]', '[1,0]')}}`, 1, 'safetensors-size-mismatch'],
    ['a shape larger than its bytes', `{"a":${tensor('[2]', '[0,1]')}}`, 1, 'safetensors-size-mismatch'],
    ['a dtype wider than its bytes', `{"a":${tensor('[1]', '[0,1]', 'BF16')}}`, 1, 'safetensors-size-mismatch'],
    [
      'a shape whose size overflows before a 0',
      `{"a":${tensor('[9007199254740991,9007199254740991,0]', '[0,0]')}}`,
      0,
      'safetensors-shape-too-large',
    ],
  ])('is refused: %s', async (_, header, data, code) => {
    expect(await refusalOf(() => readSafetensorsHeader(file(header, data)))).toMatchObject({ kind: 'bad-file', code });
  });

  it.each(['u8', 'F4', 'F6_E2M3', 'C128', '__proto__', ''])('is refused: dtype %j', async (dtype) => {
    const detail = await refusalOf(() => readSafetensorsHeader(file(`{"a":${tensor('[2]', '[0,1]', dtype)}}`, 1)));
    expect(detail).toMatchObject({
      kind: 'unsupported',
      code: 'safetensors-unknown-dtype',
      facts: { tensor: '"a"', found: JSON.stringify(dtype) },
    });
  });
});

describe('a header length that lies', () => {
  it('is refused before anything is allocated for it', async () => {
    for (const claimed of [100_000_001n, 2n ** 63n, 2n ** 64n - 1n]) {
      const source = file('{}', 0, claimed);
      const detail = await refusalOf(() => readSafetensorsHeader(source));
      expect(detail.code).toBe('safetensors-header-too-large');
      expect(detail.facts).toEqual({ file: 'test.pt', limit: 100_000_000, found: String(claimed) });
      expect(source.reads).toHaveLength(1);
    }
  });

  it('is refused where it goes beyond the file', async () => {
    const detail = await refusalOf(() => readSafetensorsHeader(file('{}', 0, 3n)));
    expect(detail).toMatchObject({ code: 'safetensors-truncated', facts: { expected: 11, found: 10 } });
    const large = sparseSource(1000, [{ at: 0, bytes: Uint8Array.of(0, 0xe1, 0xf5, 5, 0, 0, 0, 0) }]);
    expect((await refusalOf(() => readSafetensorsHeader(large))).facts).toMatchObject({ expected: 100_000_008 });
  });

  it('is refused where the file ends before it', async () => {
    for (let length = 0; length < 8; length++) {
      const detail = await refusalOf(() => readSafetensorsHeader(bytesSource(new Uint8Array(length))));
      expect(detail).toMatchObject({ code: 'safetensors-truncated', facts: { expected: 8, found: length } });
    }
  });

  it('is refused where it is 0', async () => {
    expect((await refusalOf(() => readSafetensorsHeader(file('', 0)))).code).toBe('safetensors-bad-header');
  });
});

describe('a header made to exhaust its reader', () => {
  it('of 100,000 tensors over one block is refused', async () => {
    const names = Array.from({ length: 100_000 }, (_, i) => `"t${i}":${tensor('[200,200]', '[0,40000]')}`);
    const detail = await refusalOf(() => readSafetensorsHeader(file(`{${names.join()}}`, 40_000)));
    expect(detail.code).toBe('safetensors-gap-or-overlap');
  });

  it('of a string with ten million escapes is read', async () => {
    const { metadata } = await readSafetensorsHeader(file(`{"__metadata__":{"k":"${'\\n'.repeat(1e7)}"}}`, 0));
    expect(metadata['k']).toHaveLength(1e7);
  });

  it('of a number with ten million digits is refused', async () => {
    const header = `{"a":${tensor(`[${'9'.repeat(1e7)}]`, '[0,1]')}}`;
    const detail = await refusalOf(() => readSafetensorsHeader(file(header, 1)));
    expect(detail.code).toBe('safetensors-bad-header');
    expect(detail.message.length).toBeLessThan(300);
  });

  it('of a name of ten million characters is refused in a short message', async () => {
    const header = `{"${'x'.repeat(1e7)}":${tensor('[2]', '[0,1]')}}`;
    const detail = await refusalOf(() => readSafetensorsHeader(file(header, 1)));
    expect(detail.code).toBe('safetensors-size-mismatch');
    expect(detail.message.length).toBeLessThan(500);
  });

  it('of lists in lists is refused at the second', async () => {
    const header = `{"a":{"shape":${'['.repeat(1e6)}`;
    expect((await refusalOf(() => readSafetensorsHeader(file(header, 0)))).code).toBe('safetensors-bad-header');
  });
});
