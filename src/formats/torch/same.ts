/**
 * Whether two objects say the same but for the devices that their tensors were on.
 *
 * @module
 */

import { PyGlobal, PyObject, type PyValue } from '../pickle/values.js';
import type { TorchObject } from './objects.js';
import { StorageView } from './storages.js';
import { TorchStorage, TorchTensor } from './tensor.js';

/** A value, or what several of them are together. */
type Part = PyValue | undefined | readonly Part[];

/** True where all of two objects is the same, but for the devices of their storages and the files that they are in. */
export function isSameButForDevices(a: TorchObject, b: TorchObject): boolean {
  return isSame(allOf(a), allOf(b));
}

function allOf({ value, globals, uninterpreted, declared, notices }: TorchObject): Part {
  const storages = [...declared.values()].flatMap(({ storage, className, numel }) => [storage, className, numel]);
  return [value, [...globals.keys()], uninterpreted, storages, notices.map(({ message }) => message)];
}

/** Compares two graphs. Values may contain themselves, and be nested as deep as a pickle is long. */
function isSame(a: Part, b: Part): boolean {
  const partners = new Map<Part, Part>();
  const open: [Part, Part][] = [[a, b]];
  for (let pair = open.pop(); pair; pair = open.pop()) {
    const [left, right] = pair;
    if (partners.has(left)) {
      if (partners.get(left) !== right) return false;
      continue;
    }
    const [parts, others] = [partsOf(left), partsOf(right)];
    if (!parts || !others || parts.length !== others.length) return false;
    partners.set(left, right);
    for (let i = 0; i < parts.length; i++) {
      const [part, other] = [parts[i], others[i]];
      if (!Object.is(part, other)) open.push([part, other]);
    }
  }
  return true;
}

/** What a value is made of, its kind first. Undefined for a number, a text and the like, which have no parts. */
function partsOf(value: Part): readonly Part[] | undefined {
  if (Array.isArray(value)) return [Object.isFrozen(value) ? 'tuple' : 'list', ...value];
  if (value instanceof Map) return ['dict', ...value.keys(), ...value.values()];
  if (value instanceof Set) return ['set', ...value];
  if (value instanceof Uint8Array) return ['bytes', ...value];
  if (value instanceof PyGlobal) return ['global', value.module, value.name];
  if (value instanceof PyObject) return ['object', value.type, value.args, value.state, value.items, value.entries];
  if (value instanceof TorchStorage) return ['storage', value.key, value.byteLength, value.dtype];
  if (value instanceof StorageView) return ['view', value.storage, value.start, value.byteLength];
  if (!(value instanceof TorchTensor)) return undefined;
  const { dtype, shape, stride, offset, storage, flip } = value;
  return ['tensor', dtype, shape, stride, offset, storage, flip];
}
