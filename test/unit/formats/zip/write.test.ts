import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { emitZipTail, layoutZip, type PlacedBytes } from '../../../../src/formats/zip/write.js';

/**
 * `torch-save.pt` is what torch 2.13 writes for
 * `torch.save({'weight': torch.tensor([1.0, -2.0, 0.5]), 'empty': torch.zeros(0), 'steps': torch.arange(70)}, 'vector.pt')`.
 * Its records, as Python's zipfile lists them: name, local header, data, length, CRC-32.
 */
const SMALL: Listing = [
  ['vector/data.pkl', 0, 64, 309, 0x66b9ba42],
  ['vector/.format_version', 389, 448, 1, 0x83dcefb7],
  ['vector/.storage_alignment', 465, 576, 2, 0xe971773f],
  ['vector/byteorder', 594, 704, 6, 0x19e33d85],
  ['vector/data/0', 726, 832, 12, 0x332b058b],
  ['vector/data/1', 860, 960, 0, 0x00000000],
  ['vector/data/2', 960, 1024, 560, 0xf8f19dc1],
  ['vector/version', 1600, 1664, 2, 0x55679ed1],
  ['vector/.data/serialization_id', 1682, 1792, 40, 0x8489c1d9],
];

/**
 * What `torch._C.PyTorchFileWriter('big.pt')` of torch 2.13 writes for `write_record` of `data/0` to `data/3` with 10,
 * 0xffffffff, 5 and 0 bytes: a record of the largest 32-bit size, then records that start beyond it.
 */
const BIG: Listing = [
  ['big/data/0', 0, 64, 10, 0xe38a6876],
  ['big/data/1', 90, 192, 0xffffffff, 0x00000000],
  ['big/data/2', 4294967511, 4294967616, 5, 0xc622f71d],
  ['big/data/3', 4294967645, 4294967744, 0, 0x00000000],
  ['big/version', 4294967744, 4294967808, 2, 0x55679ed1],
  ['big/byteorder', 4294967834, 4294967936, 6, 0x19e33d85],
  ['big/.data/serialization_id', 4294967966, 4294968064, 40, 0x3a34deb5],
];

/** The same with `edge.pt`, whose second record starts 10 bytes below the largest 32-bit offset. */
const EDGE: Listing = [
  ['edge/data/0', 0, 64, 4294967206, 0x265fa600],
  ['edge/data/1', 4294967286, 4294967360, 7, 0x9d6cdf7e],
  ['edge/version', 4294967383, 4294967488, 2, 0x55679ed1],
  ['edge/byteorder', 4294967514, 4294967616, 6, 0x19e33d85],
  ['edge/.data/serialization_id', 4294967646, 4294967744, 40, 0xd0606496],
];

type Listing = readonly (readonly [name: string, header: number, at: number, length: number, crc32: number])[];

function emit(listing: Listing) {
  const layout = layoutZip(listing.map(([name, , , length, crc32]) => ({ name, length, crc32 })));
  const tail = emitZipTail(layout.records.map((record, i) => ({ ...record, crc32: listing[i]?.[4] ?? -1 })));
  return { ...layout, tail };
}

const hexAt = (pieces: readonly PlacedBytes[], at: number) => {
  const piece = pieces.find((piece) => piece.at === at);
  return piece && Buffer.from(piece.bytes).toString('hex');
};

const BIG_DIRECTORY =
  '504b010200000000080800000000000076688ae30a0000000a0000000a00000000000000000000000000000000006269672f646174612f30' +
  '504b010200000000080800000000000000000000ffffffffffffffff0a001400000000000000000000005a0000006269672f646174612f31' +
  '01001000ffffffff00000000ffffffff00000000504b01020000000008080000000000001df722c605000000050000000a000c0000000000' +
  '000000000000ffffffff6269672f646174612f3201000800d700000001000000504b01020000000000080000000000000000000000000000' +
  '000000000a000c0000000000000000000000ffffffff6269672f646174612f33010008005d01000001000000504b01020000000008080000' +
  '00000000d19e675502000000020000000b000c0000000000000000000000ffffffff6269672f76657273696f6e01000800c0010000010000' +
  '00504b0102000000000808000000000000853de31906000000060000000d000c0000000000000000000000ffffffff6269672f627974656f' +
  '72646572010008001a02000001000000504b0102000000000808000000000000b5de343a28000000280000001a000c000000000000000000' +
  '0000ffffffff6269672f2e646174612f73657269616c697a6174696f6e5f6964010008009e02000001000000504b06062c00000000000000' +
  '1e032d00000000000000000007000000000000000700000000000000ec010000000000004003000001000000504b0607000000002c050000' +
  '0100000001000000504b05060000000007000700ec010000ffffffff0000';

const EDGE_DIRECTORY =
  '504b010200000000080800000000000000a65f26a6ffffffa6ffffff0b0000000000000000000000000000000000656467652f646174612f' +
  '30504b01020000000008080000000000007edf6c9d07000000070000000b00000000000000000000000000f6ffffff656467652f64617461' +
  '2f31504b0102000000000808000000000000d19e675502000000020000000c000c0000000000000000000000ffffffff656467652f766572' +
  '73696f6e010008005700000001000000504b0102000000000808000000000000853de31906000000060000000e000c000000000000000000' +
  '0000ffffffff656467652f627974656f7264657201000800da00000001000000504b0102000000000808000000000000966460d028000000' +
  '280000001b000c0000000000000000000000ffffffff656467652f2e646174612f73657269616c697a6174696f6e5f6964010008005e0100' +
  '0001000000504b06062c000000000000001e032d000000000000000000050000000000000005000000000000005501000000000000000200' +
  '0001000000504b060700000000550300000100000001000000504b0506000000000500050055010000ffffffff0000';

describe('layoutZip', () => {
  it.each([
    ['a small file', SMALL],
    ['a record of 4 GiB - 1', BIG],
    ['a record below the 4 GiB boundary', EDGE],
  ])('places every record where torch does: %s', (_, listing) => {
    const { records } = emit(listing);
    expect(records).toEqual(listing.map(([name, header, at, length, crc32]) => ({ name, header, at, length, crc32 })));
  });

  it('gives the size of the finished file', () => {
    expect(emit(SMALL).byteLength).toBe(2520);
    expect(emit(BIG).byteLength).toBe(4294968718);
    expect(emit(EDGE).byteLength).toBe(4294968247);
  });

  it('keeps the zip64 quirks of torch in local headers', () => {
    const { headers } = emit(BIG);
    const local = (flags: string, nameLength: string, extraLength: string) =>
      `504b03040000${flags}${'00'.repeat(18)}${nameLength}${extraLength}`;
    expect(hexAt(headers, 90)).toBe(
      `${local('0808', '0a00', '3e00')}6269672f646174612f3101001000ffffffff00000000000000000000000046422600${'5a'.repeat(38)}`,
    );
    expect(hexAt(headers, 4294967511)).toBe(
      `${local('0808', '0a00', '4100')}6269672f646174612f3201000800d70000000100000046423100${'5a'.repeat(49)}`,
    );
    expect(hexAt(headers, 4294967645)).toBe(
      `${local('0008', '0a00', '3b00')}6269672f646174612f33010008005d0100000100000046422b00${'5a'.repeat(43)}`,
    );
  });
});

describe('emitZipTail', () => {
  it('completes headers and data to the exact file of torch.save', () => {
    const expected = readFileSync(new URL('torch-save.pt', import.meta.url));
    const { byteLength, headers, tail } = emit(SMALL);
    const file = Buffer.alloc(byteLength, 0xee);
    for (const [, , at, length] of SMALL) expected.copy(file, at, at, at + length);
    for (const { at, bytes } of [...headers, ...tail]) file.set(bytes, at);
    expect(file.equals(expected)).toBe(true);
  });

  it('takes 8-byte sizes in the descriptors of large and far records only', () => {
    const { tail } = emit(BIG);
    expect(hexAt(tail, 64 + 10)).toBe('504b070876688ae30a0000000a000000');
    expect(hexAt(tail, 192 + 0xffffffff)).toBe('504b070800000000ffffffff00000000ffffffff00000000');
    expect(hexAt(tail, 4294967616 + 5)).toBe('504b07081df722c605000000000000000500000000000000');
    expect(hexAt(tail, 4294967744)).toBeUndefined();
  });

  it('writes the directory of torch for a file beyond 4 GiB', () => {
    expect(hexAt(emit(BIG).tail, 4294968128)).toBe(BIG_DIRECTORY);
    expect(hexAt(emit(EDGE).tail, 4294967808)).toBe(EDGE_DIRECTORY);
  });

  it('saturates the count of the end record above 65,535 records', () => {
    const listing: Listing = Array.from({ length: 65_536 }, (_, i) => [`d/${i}`, 0, 0, 0, 0]);
    const end = emit(listing).tail.at(-1)?.bytes.slice(-98);
    const view = new DataView(end?.buffer ?? new ArrayBuffer(98));
    expect(view.getUint16(76 + 8, true)).toBe(0xffff);
    expect(view.getUint16(76 + 10, true)).toBe(0xffff);
    expect(view.getBigUint64(24, true)).toBe(65_536n);
    expect(view.getBigUint64(32, true)).toBe(65_536n);
  });
});
