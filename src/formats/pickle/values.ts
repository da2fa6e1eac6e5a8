/**
 * What a pickle becomes: inert records. Python lists and tuples are arrays, dicts are `Map`s in insertion order, sets
 * are `Set`s, bytes are `Uint8Array`s, ints are numbers where they are safe and bigints beyond. An object of a class
 * that nobody registered is a `PyObject` that keeps its parts and does nothing.
 *
 * @module
 */

/** A value of a pickle. Shared and self-referencing values stay shared: walk with care. */
export type PyValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PyValue[]
  | PyDict
  | Set<PyValue>
  | PyGlobal
  | PyObject
  | PyExtension;

/** A dict, OrderedDict or defaultdict. */
export type PyDict = Map<PyValue, PyValue>;

/** A class or function that the pickle names. It is a name, nothing else. */
export class PyGlobal {
  constructor(
    readonly module: string,
    readonly name: string,
  ) {}

  /** `module.name`, as Python prints it. */
  get path(): string {
    return `${this.module}.${this.name}`;
  }
}

/** What `REDUCE`, `NEWOBJ` and `BUILD` would have made, kept as a record. */
export class PyObject {
  /** State given by `BUILD`; undefined where there was none. */
  state: PyValue | undefined;
  /** Items appended to the object, as to a list or a set. */
  readonly items: PyValue[] = [];
  /** Items set on the object, as on a dict. */
  readonly entries: PyDict = new Map();

  constructor(
    readonly type: PyGlobal,
    readonly args: readonly PyValue[],
  ) {}
}

/** Base of the records that other formats make of persistent ids and of registered globals: a tensor, a storage. */
export abstract class PyExtension {}
