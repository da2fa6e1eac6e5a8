/**
 * Python values, and the pickle that `torch.save` makes of them. It knows nothing of checkpoints and shares no code with
 * the product.
 */

import { DTYPES, type DType } from '../../../src/base/dtype.js';
import { call, global, int, type PicklePart, pickle, tuple, unicode } from '../pickle.js';

/** A value that can be pickled. An array is a list, a `Map` a dict. */
export type Py =
  | null
  | boolean
  | number
  | bigint
  | string
  | Py[]
  | PyMap
  | PyTuple
  | PyFloat
  | PySet
  | PyOrdered
  | PyCall
  | PyRaw
  | TensorView;

/** A dict that can be edited before it is written. */
export type PyMap = Map<string | number, Py>;

/** A tuple. */
export class PyTuple {
  constructor(readonly items: readonly Py[]) {}
}

/** A float, also where its value is whole. */
export class PyFloat {
  constructor(readonly value: number) {}
}

/** A set. */
export class PySet {
  constructor(readonly items: readonly Py[]) {}
}

/** A `collections.OrderedDict`. */
export class PyOrdered {
  constructor(readonly map: PyMap) {}
}

/** What a class or function makes of its arguments; with `state`, an object whose attributes are set. */
export class PyCall {
  constructor(
    readonly module: string,
    readonly name: string,
    readonly args: readonly Py[] = [],
    readonly state?: Py,
  ) {}
}

/** A piece of a pickle as it is. */
export class PyRaw {
  constructor(readonly bytes: Uint8Array) {}
}

/** What the bytes of a storage are. */
export type Role = 'weights' | 'copy' | 'moments' | 'other';

/** The bytes behind tensors. Two tensors that hold the same object share it in the file. */
export interface Storage {
  readonly dtype: DType;
  readonly bytes: Uint8Array;
  readonly role: Role;
  /** Device that it was on. Default: `cpu` for every other one. */
  readonly location?: string;
}

/** A tensor. Offset and stride count elements. */
export class TensorView {
  constructor(
    readonly storage: Storage,
    readonly shape: readonly number[],
    readonly offset = 0,
    readonly stride: readonly number[] = contiguous(shape),
  ) {}
}

/** A tensor with a storage of its own. */
export function tensorOf(dtype: DType, shape: readonly number[], bytes: Uint8Array, role: Role): TensorView {
  return new TensorView({ dtype, bytes, role }, shape);
}

/** Strides of a tensor in row-major order. PyTorch takes a size of 0 as 1. */
export function contiguous(shape: readonly number[]): number[] {
  return shape.map((_, i) => shape.slice(i + 1).reduce((n, size) => n * Math.max(1, size), 1));
}

/** `torch.Size`. */
export function torchSize(shape: readonly number[]): PyCall {
  return new PyCall('torch', 'Size', [new PyTuple([...shape])]);
}

/** A pickle and the storages that it refers to. */
export interface Pickled {
  readonly bytes: Uint8Array;
  /** In the order of their keys: 0, 1, … */
  readonly storages: readonly Storage[];
}

/** Pickles a value as protocol 2. `legacy` adds the sixth item that persistent ids had. */
export function pickleOf(value: Py, legacy = false): Pickled {
  const keys = new Map<Storage, number>();
  const bytes = pickle('\x80\x02', write(value), '.');
  return { bytes, storages: [...keys.keys()] };

  function write(item: Py): PicklePart {
    if (item === null) return 'N';
    if (typeof item === 'boolean') return item ? '\x88' : '\x89';
    if (typeof item === 'number' || typeof item === 'bigint') return int(item);
    if (typeof item === 'string') return unicode(item);
    if (Array.isArray(item)) return pickle('](', ...item.map(write), 'e');
    if (item instanceof Map) return pickle('}', entries(item));
    if (item instanceof PyTuple) return tuple(...item.items.map(write));
    if (item instanceof PyFloat) return float(item.value);
    if (item instanceof PySet) return call('__builtin__', 'set', pickle('](', ...item.items.map(write), 'e'));
    if (item instanceof PyOrdered) return pickle(call('collections', 'OrderedDict'), entries(item.map));
    if (item instanceof PyRaw) return item.bytes;
    if (item instanceof TensorView) return tensor(item);
    const made = call(item.module, item.name, ...item.args.map(write));
    return item.state === undefined ? made : pickle(made, write(item.state), 'b');
  }

  function entries(map: PyMap): Uint8Array {
    return pickle('(', ...[...map].flatMap(([key, entry]) => [write(key), write(entry)]), 'u');
  }

  function tensor({ storage, shape, offset, stride }: TensorView): Uint8Array {
    const key = keys.get(storage) ?? keys.size;
    keys.set(storage, key);
    const { bytes: itemBytes, storage: className, torch } = DTYPES[storage.dtype];
    const id = [
      unicode('storage'),
      className === undefined ? global('torch.storage', 'UntypedStorage') : global('torch', className),
      unicode(String(key)),
      // Files of a run on GPUs name the GPU of each rank.
      unicode(storage.location ?? (key % 2 === 0 ? 'cpu' : 'cuda:1')),
      int(className === undefined ? storage.bytes.length : storage.bytes.length / itemBytes),
      ...(legacy ? ['N'] : []),
    ];
    const sizes = [tuple(...shape.map(int)), tuple(...stride.map(int))];
    const args = [pickle(tuple(...id), 'Q'), int(offset), ...sizes, '\x89', call('collections', 'OrderedDict')];
    return className === undefined
      ? call('torch._utils', '_rebuild_tensor_v3', ...args, global('torch', torch))
      : call('torch._utils', '_rebuild_tensor_v2', ...args);
  }
}

function float(value: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  return pickle('G', new Uint8Array(view.buffer));
}
