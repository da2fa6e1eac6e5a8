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

/** SHA-256 in hexadecimal. */
export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
