import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { DType } from '../../../../src/base/dtype.js';
import { compareUtf8 } from '../../../../src/formats/safetensors/layout.js';
import { layoutSafetensors } from '../../../../src/formats/safetensors/write.js';
import { refusalOf } from '../../../helpers/refusal.js';

/**
 * `save-file.safetensors` is what `safetensors.torch.save_file` of safetensors 0.8 writes with
 * `metadata={"format": "pt"}` for these tensors, given in this order: three elements of each dtype that torch has, one
 * int8 under each odd name, and three shapes.
 */
const TENSORS: readonly { name: string; dtype: DType; shape: number[] }[] = [
  ...(
    [
      ['bool', 'BOOL'],
      ['uint8', 'U8'],
      ['int8', 'I8'],
      ['float8_e5m2', 'F8_E5M2'],
      ['float8_e4m3fn', 'F8_E4M3'],
      ['float8_e8m0fnu', 'F8_E8M0'],
      ['float8_e4m3fnuz', 'F8_E4M3FNUZ'],
      ['float8_e5m2fnuz', 'F8_E5M2FNUZ'],
      ['int16', 'I16'],
      ['uint16', 'U16'],
      ['float16', 'F16'],
      ['bfloat16', 'BF16'],
      ['int32', 'I32'],
      ['uint32', 'U32'],
      ['float32', 'F32'],
      ['complex64', 'C64'],
      ['float64', 'F64'],
      ['int64', 'I64'],
      ['uint64', 'U64'],
    ] as const
  ).map(([name, dtype]) => ({ name, dtype, shape: [3] })),
  ...[
    '\uffff',
    '\ue000',
    '\u{1f600}',
    '\u00e9',
    'e\u0301',
    'a"b',
    'back\\slash',
    'tab\t',
    '\x01',
    '\x7f',
    '\u2028',
    '/',
    '__proto__',
    '10',
    '9',
    'A',
    'a',
    '',
  ].map((name) => ({ name, dtype: 'I8' as const, shape: [1] })),
  { name: 'scalar', dtype: 'F32', shape: [] },
  { name: 'none', dtype: 'F32', shape: [3, 0] },
  { name: 'matrix', dtype: 'F32', shape: [2, 3] },
];

const PT = { format: 'pt' };
const text = (header: Uint8Array) => new TextDecoder().decode(header.subarray(8));

describe('layoutSafetensors', () => {
  const expected = readFileSync(new URL('save-file.safetensors', import.meta.url));

  it('writes the header of save_file byte for byte', () => {
    const { header, byteLength } = layoutSafetensors(TENSORS, PT);
    expect(Buffer.from(header).toString('latin1')).toBe(expected.subarray(0, header.length).toString('latin1'));
    expect(byteLength).toBe(expected.length);
  });

  it('does not depend on the order of its input', () => {
    const { header } = layoutSafetensors([...TENSORS].reverse(), PT);
    expect(header).toEqual(layoutSafetensors(TENSORS, PT).header);
  });

  it('says where the data of each given tensor goes, and in which order', () => {
    const layout = layoutSafetensors(
      [
        { name: 'flags', dtype: 'BOOL', shape: [5] },
        { name: 'b', dtype: 'F32', shape: [2, 2] },
        { name: 'steps', dtype: 'I64', shape: [] },
        { name: 'a', dtype: 'F32', shape: [0] },
      ],
      {},
    );
    expect(text(layout.header).trimEnd()).toBe(
      '{"steps":{"dtype":"I64","shape":[],"data_offsets":[0,8]},' +
        '"a":{"dtype":"F32","shape":[0],"data_offsets":[8,8]},' +
        '"b":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},' +
        '"flags":{"dtype":"BOOL","shape":[5],"data_offsets":[24,29]}}',
    );
    const data = layout.header.length;
    expect(data % 8).toBe(0);
    expect(layout.order).toEqual([2, 3, 1, 0]);
    expect(layout.offsets).toEqual([data + 24, data + 8, data, data + 8]);
    expect(layout.byteLength).toBe(data + 29);
  });

  it('writes a file without tensors as save_file does, with and without metadata', () => {
    const latin1 = (header: Uint8Array) => Buffer.from(header).toString('latin1');
    expect(latin1(layoutSafetensors([], {}).header)).toBe('\x08\0\0\0\0\0\0\0{}      ');
    expect(latin1(layoutSafetensors([], PT).header)).toBe(' \0\0\0\0\0\0\0{"__metadata__":{"format":"pt"}}');
  });

  it('sorts metadata by the UTF-8 bytes of its keys', () => {
    const { header } = layoutSafetensors([], {
      'lm_head.weight': 'embed',
      '\u{1f600}': '',
      '\ue000': '',
      format: 'pt',
    });
    expect(text(header).trimEnd()).toBe(
      '{"__metadata__":{"format":"pt","lm_head.weight":"embed","\ue000":"","\u{1f600}":""}}',
    );
  });

  it.each([
    ['the key of the metadata', [{ name: '__metadata__', dtype: 'F32' as const, shape: [1] }], {}],
    ['half of a surrogate pair', [{ name: 'a\ud800', dtype: 'F32' as const, shape: [1] }], {}],
    ['half of a surrogate pair in the metadata', [], { alias: 'b\udc00' }],
    [
      'a name that is there twice',
      [
        { name: 'a', dtype: 'F32' as const, shape: [1] },
        { name: 'a', dtype: 'I64' as const, shape: [1] },
      ],
      {},
    ],
  ])('refuses %s', async (_, tensors, metadata) => {
    const detail = await refusalOf(() => layoutSafetensors(tensors, metadata));
    expect(detail).toMatchObject({ kind: 'unsupported', code: 'safetensors-bad-name' });
  });

  it('refuses a header above 100 MB and takes one just below it', async () => {
    // 100,000,000 bytes less `{"__metadata__":{"":""}}`.
    const room = 100_000_000 - 24;
    expect(layoutSafetensors([], { '': 'x'.repeat(room) }).header.length).toBe(8 + 100_000_000);
    const detail = await refusalOf(() => layoutSafetensors([], { '': 'x'.repeat(room + 1) }));
    expect(detail.code).toBe('safetensors-header-too-large');
    expect(detail.facts).toEqual({ limit: 100_000_000, found: 100_000_008 });
  });
});

describe('compareUtf8', () => {
  it('orders names as their UTF-8 bytes are ordered', () => {
    const names = [
      '',
      'a',
      'ab',
      'b',
      '\x7f',
      '\u0080',
      '\ud7ff',
      '\ue000',
      '\uffff',
      '\u{10000}',
      '\u{10ffff}',
      'a\u{10000}',
    ];
    for (const a of names) {
      for (const b of names) {
        const expected = Buffer.compare(Buffer.from(a), Buffer.from(b));
        expect(Math.sign(compareUtf8(a, b)), `${JSON.stringify(a)} and ${JSON.stringify(b)}`).toBe(expected);
      }
    }
  });
});
