import { crc32 } from '../../src/base/crc32.js';
import type { Extent } from '../../src/base/extent.js';
import { emitZipTail, layoutZip } from '../../src/formats/zip/write.js';
import { call, global, int, type PicklePart, pickle, tuple, u64, unicode } from './pickle.js';

/** A zip file of stored records, in this order. */
export function zipOf(records: readonly (readonly [name: string, data: Uint8Array])[]): Uint8Array<ArrayBuffer> {
  const layout = layoutZip(records.map(([name, data]) => ({ name, length: data.length, crc32: crc32(data) })));
  const file = new Uint8Array(layout.byteLength);
  const finished = layout.records.map((record) => ({ ...record, crc32: record.crc32 ?? 0 }));
  for (const { at, bytes } of [...layout.headers, ...emitZipTail(finished)]) file.set(bytes, at);
  for (const [i, record] of layout.records.entries()) file.set(records[i]?.[1] ?? [], record.at);
  return file;
}

/** What a torch zip file is made of. */
export interface TorchZipParts {
  /** The pickle of the object, with `STOP`. */
  readonly object: Uint8Array;
  /** Bytes of the storages by key. */
  readonly storages?: Readonly<Record<string, Uint8Array>>;
  /** Records beside them, in place of `version` and `byteorder`. */
  readonly records?: Readonly<Record<string, string>>;
  readonly root?: string;
}

/** A torch zip file. */
export function torchZip({ object, storages = {}, records, root = 'archive' }: TorchZipParts): Uint8Array<ArrayBuffer> {
  const small = records ?? { version: '3\n', byteorder: 'little' };
  return zipOf([
    [`${root}/data.pkl`, object],
    ...Object.entries(storages).map(([key, bytes]) => [`${root}/data/${key}`, bytes] as const),
    ...Object.entries(small).map(([name, text]) => [`${root}/${name}`, new TextEncoder().encode(text)] as const),
  ]);
}

/** What a legacy torch file is made of. */
export interface LegacyParts {
  /** The pickle of the object, with `STOP`. */
  readonly object: Uint8Array;
  /** Keys of the storages, as the file lists them. */
  readonly keys: readonly string[];
  /** What follows the pickles: for each storage the number of elements that its header says, and its bytes. */
  readonly storages: readonly (readonly [numel: number, bytes: Uint8Array])[];
  readonly magic?: Uint8Array;
  readonly protocol?: Uint8Array;
  readonly info?: Uint8Array;
}

/** A legacy torch file. */
export function legacyFile(parts: LegacyParts): Uint8Array<ArrayBuffer> {
  const {
    magic = pickle('\x80\x02\x8a\x0a', [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19], '.'),
    protocol = pickle('\x80\x02M\xe9\x03.'),
    info = pickle('\x80\x02}(', unicode('protocol_version'), 'M\xe9\x03', unicode('little_endian'), '\x88u.'),
  } = parts;
  return new Uint8Array(
    Buffer.concat([
      magic,
      protocol,
      info,
      parts.object,
      pickle('\x80\x02](', ...parts.keys.map(unicode), 'e.'),
      ...parts.storages.flatMap(([numel, bytes]) => [u64(BigInt(numel)), bytes]),
    ]),
  );
}

/** A storage that a pickle refers to. */
export function storage(className: string, key: PicklePart, numel: number, ...more: readonly PicklePart[]): Uint8Array {
  const module = className === 'UntypedStorage' ? 'torch.storage' : 'torch';
  const keyPart = typeof key === 'string' ? unicode(key) : key;
  return pickle(
    tuple(unicode('storage'), global(module, className), keyPart, unicode('cpu'), int(numel), ...more),
    'Q',
  );
}

/** A tensor of a storage: `_rebuild_tensor_v2`. */
export function tensor(
  ofStorage: Uint8Array,
  shape: readonly (number | bigint)[],
  stride: readonly (number | bigint)[],
  offset: number | bigint = 0,
  ...more: readonly PicklePart[]
): Uint8Array {
  const hooks = call('collections', 'OrderedDict');
  const sizes = [tuple(...shape.map(int)), tuple(...stride.map(int))];
  return call('torch._utils', '_rebuild_tensor_v2', ofStorage, int(offset), ...sizes, '\x89', hooks, ...more);
}

/** The bytes that extents of one source bring together, each run copied on its own. */
export function gather(file: Uint8Array, extents: readonly Extent[]): Uint8Array {
  const runs = extents.flatMap(({ offset, length, at, repeat = [] }) => {
    let starts = [{ from: offset, to: at }];
    for (const loop of repeat) {
      starts = starts.flatMap(({ from, to }) =>
        Array.from({ length: loop.count }, (_, i) => ({ from: from + i * loop.from, to: to + i * loop.to })),
      );
    }
    return starts.map((start) => ({ ...start, length }));
  });
  const bytes = new Uint8Array(Math.max(0, ...runs.map(({ to, length }) => to + length)));
  for (const { from, to, length } of runs) bytes.set(file.subarray(from, from + length), to);
  return bytes;
}
