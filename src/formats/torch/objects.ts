/**
 * Objects that were parsed before. The files of many ranks hold the same pickle byte for byte; it is parsed and kept once.
 *
 * @module
 */

import { equalBytes } from '../../base/bytes.js';
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
    // A copy: what it was read into may be used again.
    this.#known.push({ pickle: pickle.slice(), crc32, object });
    this.#bytes += pickle.length;
  }
}
