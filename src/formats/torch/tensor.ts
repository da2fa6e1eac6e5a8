/**
 * A tensor as PyTorch stores it: a dtype, a shape, and a strided view of a storage.
 *
 * @module
 */

import type { DType } from '../../base/dtype.js';
import { numelOf } from '../../base/shape.js';
import { PyExtension } from '../pickle/values.js';

/**
 * The bytes behind one or more tensors. A file has one object per storage, so two tensors are tied when they hold the
 * same one. Where the bytes lie, `locateStorages` tells for those that are needed.
 */
export class TorchStorage extends PyExtension {
  constructor(
    /** Key of the storage in its file. */
    readonly key: string,
    /** Size in bytes. */
    readonly byteLength: number,
    /** Element type of a typed storage, bytes for an untyped one; undefined for a type that safetensors has not. */
    readonly dtype: DType | undefined,
    /** Name of the file, for messages. */
    readonly file: string,
    /**
     * Device that it was on when it was saved, such as `cuda:3`; undefined where it was not looked for. It says nothing about
     * the values.
     */
    readonly location?: string,
  ) {
    super();
  }
}

/** Where a storage lies in its file. */
export interface StorageRecord {
  /** Offset in the file. */
  readonly offset: number;
  readonly length: number;
  /** CRC-32 that the file records for all bytes of the storage; undefined where it records none. */
  readonly crc32?: number;
}

/** A strided view of a storage. Offset and strides count elements; the view lies inside its storage. */
export class TorchTensor extends PyExtension {
  constructor(
    readonly dtype: DType,
    readonly shape: readonly number[],
    readonly stride: readonly number[],
    readonly offset: number,
    readonly storage: TorchStorage,
    /** The view negates (`neg`), conjugates (`conj`), or does both to what is stored. */
    readonly flip: Flip | undefined,
  ) {
    super();
  }

  /** Number of elements. */
  get numel(): number {
    return numelOf(this.shape);
  }
}

/** What a lazy view does to the stored bits: the neg bit, the conj bit of PyTorch, or both. */
export type Flip = 'neg' | 'conj' | 'neg-conj';
