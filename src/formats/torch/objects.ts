/**
 * Objects that were parsed before. The files of many ranks hold the same pickle byte for byte, but for the digit that
 * numbers the device; it is parsed and kept once.
 *
 * @module
 */

import { alignedCopy, differingPlaces } from '../../base/bytes.js';
import { crc32 } from '../../base/crc32.js';
import type { Unpickled } from '../pickle/read.js';
import type { DirectoryPattern } from '../zip/read.js';
import type { FileNotice } from './file.js';
import { isSameButForDevices } from './same.js';
import type { DeclaredStorage } from './storages.js';

/** Objects kept: as many as there may be kinds of files, and some more. */
const MAX_OBJECTS = 64;

/** Bytes of pickles kept to compare others with (256 MiB). */
const MAX_BYTES = 2 ** 28;

/** Digits in which pickles may differ and still be compared: those of two devices of three digits. */
const MAX_PLACES = 6;

/** What a pickle says, whichever file it is in. */
export interface TorchObject extends Pick<Unpickled, 'value' | 'globals' | 'uninterpreted'> {
  /** Its storages by key. */
  readonly declared: ReadonlyMap<string, DeclaredStorage>;
  readonly notices: readonly FileNotice[];
  /** Number of records that no tensor uses, by the directories that all storages were found in. */
  readonly unusedIn: WeakMap<DirectoryPattern, number>;
}

/** An object that was just parsed, and whether the byte to look out for is a part of a string. */
export interface Parsed extends Pick<Unpickled, 'isWatchedInString'> {
  readonly object: TorchObject;
}

/** What is known of a pickle before it is parsed. */
export interface Looked {
  /** CRC-32 of the pickle. */
  readonly crc32: number;
  /** Its object, where that is known. */
  readonly object?: TorchObject;
  /** The byte to look out for when it is parsed: a known pickle has another digit there, and is the same in all else. */
  readonly watched?: number;
}

/** A pickle and what it says. */
interface Known {
  readonly pickle: Uint8Array;
  readonly object: TorchObject;
  /** Places of digits that say nothing but which device a tensor was on. */
  readonly digits: Set<number>;
  /** CRC-32s of the pickles with other digits there, by these. */
  readonly crcs: Map<string, number>;
}

/** The objects of the files of one checkpoint. */
export class KnownObjects {
  /** Directories of the files, for `readZip`. */
  readonly directories: DirectoryPattern[] = [];
  readonly #known: Known[] = [];
  #bytes = 0;

  /** Looks for a pickle. Its object is found where a known one has the same bytes, but for digits of devices. */
  look(pickle: Uint8Array): Looked {
    let watched: number | undefined;
    for (const { pickle: like, object, digits, crcs } of this.#known) {
      const places = like.length === pickle.length ? differingPlaces(like, pickle, MAX_PLACES) : undefined;
      if (!places?.every((place) => isDigit(like[place]) && isDigit(pickle[place]))) continue;
      if (places.every((place) => digits.has(place))) {
        const key = keyOf(pickle, places);
        const crc = crcs.get(key) ?? crc32(pickle);
        crcs.set(key, crc);
        return { object, crc32: crc };
      }
      if (places.length === 1) watched ??= places[0];
    }
    return { crc32: crc32(pickle), ...(watched === undefined ? {} : { watched }) };
  }

  /**
   * Keeps the object of a pickle that was looked for, unless enough are kept. Gives the one to use in its place: that of a
   * known pickle, where the watched digit turns out to say nothing but the device.
   */
  keep(pickle: Uint8Array, { crc32: crc, watched }: Looked, { object, isWatchedInString }: Parsed): TorchObject {
    if (watched !== undefined && isWatchedInString) {
      for (const { pickle: like, object: other, digits, crcs } of this.#known) {
        const places = like.length === pickle.length ? differingPlaces(like, pickle, 1) : undefined;
        if (places?.[0] !== watched || !isSameButForDevices(other, object)) continue;
        digits.add(watched);
        crcs.set(keyOf(pickle, places), crc);
        return other;
      }
    }
    if (this.#known.length === MAX_OBJECTS || this.#bytes + pickle.length > MAX_BYTES) return object;
    // A copy: what it was read into may be used again.
    this.#known.push({ pickle: alignedCopy(pickle), object, digits: new Set(), crcs: new Map([['', crc]]) });
    this.#bytes += pickle.length;
    return object;
  }
}

function isDigit(byte = 0): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** What a pickle has at these places. */
function keyOf(pickle: Uint8Array, places: readonly number[]): string {
  return places.map((place) => `${place}:${pickle[place]}`).join();
}
