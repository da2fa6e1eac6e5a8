import { createHash } from 'node:crypto';

/** What a safetensors file holds, read without any code of the project. */
export interface ReadFile {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: ReadonlyMap<string, { readonly dtype: string; readonly shape: number[]; readonly sha256: string }>;
}

/** Reads a whole safetensors file. */
export function readSafetensors(bytes: Buffer): ReadFile {
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString('utf8')) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  > & { __metadata__?: Record<string, string> };
  const { __metadata__: metadata = {}, ...entries } = header;
  const data = bytes.subarray(8 + length);
  const tensors = Object.entries(entries).map(
    ([
      name,
      {
        dtype,
        shape,
        data_offsets: [begin, end],
      },
    ]) => {
      return [name, { dtype, shape, sha256: sha256(data.subarray(begin, end)) }] as const;
    },
  );
  return { metadata, tensors: new Map(tensors) };
}

/** The tensors of a file with their bytes, read without any code of the project. */
export function readTensors(file: Uint8Array): Record<string, WrittenTensor> {
  const bytes = Buffer.from(file);
  const length = Number(bytes.readBigUInt64LE(0));
  const { __metadata__: _, ...entries } = JSON.parse(bytes.subarray(8, 8 + length).toString('utf8')) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const tensors = Object.entries(entries).map(([name, { dtype, shape, data_offsets: range }]) => [
    name,
    { dtype, shape, bytes: Uint8Array.from(bytes.subarray(8 + length + range[0], 8 + length + range[1])) },
  ]);
  return Object.fromEntries(tensors) as Record<string, WrittenTensor>;
}

/** A tensor to be put into a file. */
export interface WrittenTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** A safetensors file with the tensors in the given order, written without any code of the project. */
export function writeSafetensors(tensors: Readonly<Record<string, WrittenTensor>>): Uint8Array<ArrayBuffer> {
  let end = 0;
  const header = Object.entries(tensors).map(([name, { dtype, shape, bytes }]) => {
    const begin = end;
    end += bytes.length;
    return [name, { dtype, shape, data_offsets: [begin, end] }] as const;
  });
  const text = Buffer.from(JSON.stringify(Object.fromEntries(header)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Uint8Array.from(Buffer.concat([length, text, ...Object.values(tensors).map(({ bytes }) => bytes)]));
}

/** The order in which `save_file` puts dtypes, last first. */
const DTYPES =
  'BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64'.split(' ');

/** The file that `save_file` makes of tensors, with metadata in the order of its keys; without any code of the project. */
export function saveSafetensors(
  tensors: Readonly<Record<string, WrittenTensor>>,
  metadata: Readonly<Record<string, string>>,
): Uint8Array<ArrayBuffer> {
  const byName = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  const rank = (name: string) => DTYPES.indexOf(tensors[name]?.dtype ?? '');
  const names = Object.keys(tensors).sort((a, b) => rank(b) - rank(a) || byName(a, b));
  const plain = writeSafetensors(
    Object.fromEntries(names.flatMap((name) => (tensors[name] ? [[name, tensors[name]]] : []))),
  );
  const end = 8 + new DataView(plain.buffer).getUint32(0, true);
  const notes = Object.fromEntries(Object.entries(metadata).sort(([a], [b]) => byName(a, b)));
  const fields = Buffer.from(plain.subarray(9, end)).toString('utf8');
  const json = Buffer.from(`{"__metadata__":${JSON.stringify(notes)}${fields === '}' ? '' : ','}${fields}`);
  const header = Buffer.concat([json, Buffer.alloc(-json.length & 7, ' ')]);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Uint8Array.from(Buffer.concat([length, header, plain.subarray(end)]));
}

/** SHA-256 in hexadecimal. */
export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
