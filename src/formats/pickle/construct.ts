/**
 * The classes of Python's own library that become plain values. They are looked up by name in a table; no name of a
 * pickle ever reaches a JavaScript object or function.
 *
 * @module
 */

import type { Machine } from './machine.js';
import { encodeLatin1 } from './text.js';
import type { PyDict, PyGlobal, PyValue } from './values.js';

/** Makes a value of the arguments of a call; undefined leaves the object uninterpreted. */
export type Reducer = (args: readonly PyValue[]) => PyValue | undefined;

type Constructor = (machine: Machine, args: readonly PyValue[]) => PyValue | undefined;

const CONSTRUCTORS: ReadonlyMap<string, Constructor> = new Map<string, Constructor>([
  ['collections.OrderedDict', (machine, args) => attributed(machine, dictOf(machine, args))],
  ['collections.Counter', (machine, args) => attributed(machine, dictOf(machine, args))],
  // The first argument is the factory of missing values.
  [
    'collections.defaultdict',
    (machine, args) => attributed(machine, args.length > 2 ? undefined : dictOf(machine, args.slice(1))),
  ],
  ['builtins.dict', dictOf],
  ['builtins.set', setOf],
  ['builtins.frozenset', (machine, args) => freeze(setOf(machine, args))],
  ['builtins.list', listOf],
  ['builtins.tuple', (machine, args) => freeze(listOf(machine, args))],
  ['builtins.bytes', bytesOf],
  ['builtins.bytearray', bytesOf],
  ['_codecs.encode', (machine, args) => (args.length === 2 ? bytesOf(machine, args) : undefined)],
]);

/** The plain value of a call of a known class, or undefined. */
export function construct(machine: Machine, callable: PyGlobal, args: readonly PyValue[]): PyValue | undefined {
  // Protocols before 3 name the builtins as Python 2 did.
  const module = callable.module === '__builtin__' ? 'builtins' : callable.module;
  return CONSTRUCTORS.get(`${module}.${callable.name}`)?.(machine, args);
}

/** A dict of nothing, of another dict, or of pairs. */
function dictOf(machine: Machine, args: readonly PyValue[]): PyDict | undefined {
  if (args.length > 1) return undefined;
  const [from] = args;
  const dict: PyDict = new Map();
  if (from === undefined) return dict;
  if (!(from instanceof Map) && !Array.isArray(from)) return undefined;
  machine.countCopied(from instanceof Map ? from.size : from.length);
  for (const pair of from) {
    if (!Array.isArray(pair) || pair.length !== 2) return undefined;
    machine.setItem(dict, pair[0] as PyValue, pair[1] as PyValue);
  }
  return dict;
}

function setOf(machine: Machine, args: readonly PyValue[]): Set<PyValue> | undefined {
  const items = listOf(machine, args);
  return items && new Set(items.map((item) => machine.hashable(item)));
}

function listOf(machine: Machine, args: readonly PyValue[]): PyValue[] | undefined {
  const [from = []] = args;
  if (args.length > 1 || !Array.isArray(from)) return undefined;
  machine.countCopied(from.length);
  return from.slice();
}

/** Bytes of nothing, of other bytes, or of text whose characters each stand for a byte. */
function bytesOf(machine: Machine, args: readonly PyValue[]): Uint8Array | undefined {
  const [from, encoding] = args;
  if (args.length === 0) return new Uint8Array(0);
  if (args.length === 1 && from instanceof Uint8Array) {
    machine.countCopied(from.length);
    return from.slice();
  }
  if (args.length !== 2 || typeof from !== 'string' || (encoding !== 'latin1' && encoding !== 'latin-1')) {
    return undefined;
  }
  machine.countCopied(from.length);
  return encodeLatin1(from);
}

function attributed(machine: Machine, dict: PyDict | undefined): PyDict | undefined {
  return dict && machine.allowAttributes(dict);
}

function freeze<T extends PyValue>(value: T | undefined): T | undefined {
  return value === undefined ? undefined : Object.freeze(value);
}
