import { crc32, deflateRawSync } from 'node:zlib';

/** A zip writer for tests that can break any rule. It shares nothing with the writer of the product. */

/** One record of a test archive. What is left out is as `torch.save` has it. */
export interface TestRecord {
  readonly name: string | Uint8Array;
  /** Content. Default: none. */
  readonly content?: Uint8Array;
  /** 8 deflates the content. Default: stored. */
  readonly method?: 0 | 8;
  /** Where CRC and sizes are: behind the data in one of the four forms, or in the local header. */
  readonly descriptor?: 'signed32' | 'signed64' | 'plain32' | 'plain64' | 'none';
  /** Puts the sizes of the local header into a zip64 extra field. Only without a descriptor. */
  readonly localZip64?: boolean;
  /** Bytes of an extra field of the local header that nobody knows. Default: what aligns the data to 64. */
  readonly padding?: number;
  /** Bytes of garbage behind the record. */
  readonly gap?: number;
  /** CRC-32 to record in place of the right one. */
  readonly crc32?: number;
}

/** An archive and the offsets of its parts. */
export interface TestZip {
  readonly bytes: Uint8Array;
  readonly local: readonly number[];
  readonly data: readonly number[];
  readonly descriptor: readonly number[];
  readonly central: readonly number[];
  readonly end64: readonly number[];
  readonly locator: readonly number[];
  readonly end: readonly number[];
}

type Field = readonly [offset: number, width: 1 | 2 | 4 | 8];

/** Offset and width of every field of a fixed size. */
export const FIELDS = {
  local: {
    signature: [0, 4],
    needed: [4, 2],
    flags: [6, 2],
    method: [8, 2],
    time: [10, 2],
    date: [12, 2],
    crc32: [14, 4],
    compressedSize: [18, 4],
    size: [22, 4],
    nameLength: [26, 2],
    extraLength: [28, 2],
  },
  central: {
    signature: [0, 4],
    madeBy: [4, 2],
    needed: [6, 2],
    flags: [8, 2],
    method: [10, 2],
    time: [12, 2],
    date: [14, 2],
    crc32: [16, 4],
    compressedSize: [20, 4],
    size: [24, 4],
    nameLength: [28, 2],
    extraLength: [30, 2],
    commentLength: [32, 2],
    disk: [34, 2],
    internal: [36, 2],
    external: [38, 4],
    headerOffset: [42, 4],
    nameStart: [46, 1],
  },
  end64: {
    signature: [0, 4],
    recordSize: [4, 8],
    madeBy: [12, 2],
    needed: [14, 2],
    disk: [16, 4],
    directoryDisk: [20, 4],
    countOnDisk: [24, 8],
    count: [32, 8],
    directorySize: [40, 8],
    directoryOffset: [48, 8],
  },
  locator: { signature: [0, 4], disk: [4, 4], endOffset: [8, 8], disks: [16, 4] },
  end: {
    signature: [0, 4],
    disk: [4, 2],
    directoryDisk: [6, 2],
    countOnDisk: [8, 2],
    count: [10, 2],
    directorySize: [12, 4],
    directoryOffset: [16, 4],
    commentLength: [20, 2],
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Field>>>>;

type Part = keyof typeof FIELDS;

/** Writes an archive. `zip64` is false for one without the zip64 end records. */
export function buildZip(records: readonly TestRecord[], { zip64 = true } = {}): TestZip {
  const out: Uint8Array[] = [];
  let length = 0;
  const append = (bytes: Uint8Array): number => {
    out.push(bytes);
    length += bytes.length;
    return length - bytes.length;
  };
  const local: number[] = [];
  const data: number[] = [];
  const descriptor: number[] = [];
  const directory: Uint8Array[] = [];
  for (const record of records) {
    const described = describe(record);
    local.push(append(localHeader(record, described, length)));
    data.push(append(described.data));
    descriptor.push(append(descriptorOf(described)));
    append(new Uint8Array(record.gap ?? 0).fill(0xaa));
    directory.push(centralHeader(described, local.at(-1) ?? 0));
  }
  const central = directory.map(append);
  const directoryOffset = central[0] ?? length;
  const directorySize = length - directoryOffset;
  const count = records.length;
  const end64 = zip64
    ? [
        append(
          pack(
            [4, 0x06064b50],
            [8, 44],
            [2, 0x031e],
            [2, 45],
            [4, 0],
            [4, 0],
            [8, count],
            [8, count],
            [8, directorySize],
            [8, directoryOffset],
          ),
        ),
      ]
    : [];
  const locator = end64.map((at) => append(pack([4, 0x07064b50], [4, 0], [8, at], [4, 1])));
  const end = append(
    pack([4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count], [4, directorySize], [4, directoryOffset], [2, 0]),
  );
  return { bytes: Uint8Array.from(Buffer.concat(out)), local, data, descriptor, central, end64, locator, end: [end] };
}

/** A copy of `zip` with one field of the record `index` (or of an end record) set to `value`. */
export function tamper<P extends Part>(
  zip: TestZip,
  part: P,
  field: keyof (typeof FIELDS)[P] & string,
  value: number | bigint,
  index = 0,
): TestZip {
  const [offset, width] = (FIELDS[part] as Readonly<Record<string, Field>>)[field] ?? [0, 4];
  const at = (zip[part][index] ?? Number.NaN) + offset;
  const bytes = Uint8Array.from(zip.bytes);
  bytes.set(pack([width, value]), at);
  return { ...zip, bytes };
}

/** Bytes of text, one per character. */
export function latin1(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, 'latin1'));
}

interface Described {
  readonly name: Uint8Array;
  readonly data: Uint8Array;
  readonly size: number;
  readonly crc32: number;
  readonly method: number;
  readonly flags: number;
  readonly form: NonNullable<TestRecord['descriptor']>;
}

function describe(record: TestRecord): Described {
  const content = record.content ?? new Uint8Array();
  const method = record.method ?? 0;
  const data = method === 8 ? Uint8Array.from(deflateRawSync(content)) : content;
  const form = record.descriptor ?? (content.length === 0 ? 'none' : 'signed32');
  return {
    name: typeof record.name === 'string' ? new TextEncoder().encode(record.name) : record.name,
    data,
    size: content.length,
    crc32: record.crc32 ?? crc32(content),
    method,
    flags: form === 'none' ? 0x0800 : 0x0808,
    form,
  };
}

function localHeader(record: TestRecord, described: Described, at: number): Uint8Array {
  const { name, data, size, method, flags, form } = described;
  const known = form === 'none';
  const wide = record.localZip64 === true ? pack([2, 1], [2, 16], [8, size], [8, data.length]) : new Uint8Array();
  const unpadded = at + 30 + name.length + wide.length + 4;
  const padding = record.padding ?? Math.ceil(unpadded / 64) * 64 - unpadded;
  const extra = Buffer.concat([wide, pack([2, 0x4246], [2, padding]), new Uint8Array(padding).fill(0x5a)]);
  const short = (value: number) => (record.localZip64 === true ? 0xffffffff : known ? value : 0);
  return Buffer.concat([
    pack([4, 0x04034b50], [2, 0], [2, flags], [2, method], [2, 0], [2, 0], [4, known ? described.crc32 : 0]),
    pack([4, short(data.length)], [4, short(size)], [2, name.length], [2, extra.length]),
    name,
    extra,
  ]);
}

function descriptorOf({ data, size, crc32, form }: Described): Uint8Array {
  if (form === 'none') return new Uint8Array();
  const width = form.endsWith('64') ? 8 : 4;
  const signature = form.startsWith('signed') ? pack([4, 0x08074b50]) : new Uint8Array();
  return Buffer.concat([signature, pack([4, crc32], [width, data.length], [width, size])]);
}

function centralHeader({ name, data, size, crc32, method, flags }: Described, at: number): Uint8Array {
  return Buffer.concat([
    pack([4, 0x02014b50], [2, 0], [2, 0], [2, flags], [2, method], [2, 0], [2, 0], [4, crc32]),
    pack([4, data.length], [4, size], [2, name.length], [2, 0], [2, 0], [2, 0], [2, 0], [4, 0], [4, at]),
    name,
  ]);
}

/** Little-endian integers of the given widths in bytes. */
function pack(...values: readonly (readonly [width: number, value: number | bigint])[]): Uint8Array {
  return Uint8Array.from(
    values.flatMap(([width, value]) => {
      return Array.from({ length: width }, (_, i) => Number((BigInt(value) >> BigInt(8 * i)) & 255n));
    }),
  );
}
