/**
 * Objects that were parsed before. The files of many ranks hold the same pickle byte for byte; it is parsed and kept once.
 *
 * @module
 */

import type { Unpickled } from '../pickle/read.js';
import type { DirectoryPattern } from '../zip/read.js';
import type { FileNotice } from './file.js';
import type { DeclaredStorage } from './storages.js';

/** Objects kept: as many as a node has devices, whose names the pickles of its ranks differ in, and some more. */
const MAX_OBJECTS = 64;

/** Bytes of pickles kept to compare others with (256 MiB). */
const MAX_BYTES = 2 ** 28;

/** What a pickle says, whichever file it is in. */
export interface TorchObject extends Pick<Unpickled, 'value' | 'globals' | 'uninterpreted'> {
  /** Its storages by key. */
  readonly declared: ReadonlyMap<string, DeclaredStorage>;
  readonly notices: readonly FileNotice[];
  /** Number of records that no tensor uses, by the directories that all storages were found in. */
  readonly unusedIn: WeakMap<DirectoryPattern, number>;
}

/** A pickle and what it says. */
interface Known {
  readonly pickle: Uint8Array;
  readonly crc32: number;
  readonly object: TorchObject;
}

/** The objects of the files of one checkpoint. */
export class KnownObjects {
  /** Directories of the files, for `readZip`. */
  readonly directories: DirectoryPattern[] = [];
  readonly #known: Known[] = [];
  #bytes = 0;

  /** The object of a pickle of this CRC-32. Only one whose every byte is the same is found. */
  find(pickle: Uint8Array, crc32: number): TorchObject | undefined {
    return this.#known.find((known) => known.crc32 === crc32 && equalBytes(known.pickle, pickle))?.object;
  }

  /** Keeps an object for files to come, unless enough are kept. */
  add(pickle: Uint8Array, crc32: number, object: TorchObject): void {
    if (this.#known.length === MAX_OBJECTS || this.#bytes + pickle.length > MAX_BYTES) return;
    this.#known.push({ pickle, crc32, object });
    this.#bytes += pickle.length;
  }
}

/** Compares words: some times as fast as bytes, and pickles of many tensors are long. */
function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  const words = a.byteOffset % 4 === 0 && b.byteOffset % 4 === 0 ? Math.floor(a.length / 4) : 0;
  const left = new Int32Array(a.buffer, a.byteOffset - (a.byteOffset % 4), words);
  const right = new Int32Array(b.buffer, b.byteOffset - (b.byteOffset % 4), words);
  for (let i = 0; i < words; i++) if (left[i] !== right[i]) return false;
  for (let i = words * 4; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
