import { DTYPES, type DType } from '../../../src/base/dtype.js';
import { pickle, u64, unicode } from '../pickle.js';
import { buildZip, latin1 } from '../zip.js';
import { type Py, pickleOf, type Role } from './python.js';

/** A file as `torch.save` writes it, and where the bytes of its storages lie. */
export interface SavedFile {
  readonly bytes: Uint8Array;
  readonly regions: readonly Region[];
}

/** The bytes of one storage. */
export interface Region {
  readonly role: Role;
  readonly offset: number;
  readonly length: number;
}

/**
 * The zip container, as it is since PyTorch 1.6. After `set_crc32_options(False)` torch writes 0 for every CRC-32, so that
 * its digest of the names and the CRC-32s tells the names alone.
 */
export function saveZip(value: Py, root = 'archive', crcs = true): SavedFile {
  const { bytes: object, storages } = pickleOf(value);
  const records = [
    { name: `${root}/data.pkl`, content: object },
    { name: `${root}/byteorder`, content: latin1('little') },
    ...storages.map(({ bytes }, key) => ({ name: `${root}/data/${key}`, content: bytes })),
    { name: `${root}/version`, content: latin1('3\n') },
  ];
  const digest = { name: `${root}/.data/serialization_id`, content: latin1(String(storages.length).padStart(40, '0')) };
  const zip = buildZip(crcs ? records : [...records, digest].map((record) => ({ ...record, crc32: 0 })));
  const regions = storages.map(({ role, bytes }, key) => ({
    role,
    offset: zip.data[key + 2] ?? Number.NaN,
    length: bytes.length,
  }));
  return { bytes: zip.bytes, regions };
}

/** The container before 1.6: pickles in a row, then each storage behind its number of elements. */
export function saveLegacy(value: Py): SavedFile {
  const { bytes: object, storages } = pickleOf(value, true);
  const keys = storages.map((_, key) => unicode(String(key)));
  const pickles = [
    pickle('\x80\x02\x8a\x0a', [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19], '.'),
    pickle('\x80\x02M\xe9\x03.'),
    pickle('\x80\x02}(', unicode('protocol_version'), 'M\xe9\x03', unicode('little_endian'), '\x88u.'),
    object,
    pickle('\x80\x02](', ...keys, 'e.'),
  ];
  let offset = pickles.reduce((sum, { length }) => sum + length, 0);
  const regions = storages.map(({ role, bytes }) => {
    const region = { role, offset: offset + 8, length: bytes.length };
    offset += 8 + bytes.length;
    return region;
  });
  const data = storages.flatMap(({ dtype, bytes }) => [u64(BigInt(bytes.length / itemBytesOf(dtype))), bytes]);
  return { bytes: Uint8Array.from(Buffer.concat([...pickles, ...data])), regions };
}

/** Storages of dtypes that have no class of their own count bytes. */
function itemBytesOf(dtype: DType): number {
  const { storage, bytes } = DTYPES[dtype];
  return storage === undefined ? 1 : bytes;
}
