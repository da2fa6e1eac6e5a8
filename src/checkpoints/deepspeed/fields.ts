/**
 * Typed access to the dicts of a DeepSpeed file: each function takes what was unpickled and gives a checked value, or
 * throws an error that names the file and the key.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';
import { type PyDict, PyObject, type PyValue } from '../../formats/pickle/values.js';
import { TorchTensor } from '../../formats/torch/tensor.js';

/** A value and where it was found, for messages. */
export interface Field {
  readonly file: string;
  /** Path of keys, for example `optimizer_state_dict.fp32_flat_groups[0]`. */
  readonly path: string;
  readonly value: PyValue | undefined;
}

/** The field of a dict under a string key; its value is undefined where the key is not there. */
export function fieldOf(dict: Field, key: string): Field {
  const path = dict.path === '' ? key : `${dict.path}.${key}`;
  return { file: dict.file, path, value: asDict(dict).get(key) };
}

/** True where the value is there and not None. */
export function isPresent(field: Field): boolean {
  return field.value !== undefined && field.value !== null;
}

/** A dict. */
export function asDict(field: Field): PyDict {
  if (field.value instanceof Map) return field.value;
  throw wrongType(field, 'a dict');
}

/** The items of a list or tuple, as fields. */
export function asList(field: Field): Field[] {
  const { file, path, value } = field;
  if (Array.isArray(value)) return value.map((item, i) => ({ file, path: `${path}[${i}]`, value: item }));
  throw wrongType(field, 'a list');
}

/** The entries of a dict whose keys are names, in order. */
export function asNamed(field: Field): [string, Field][] {
  return [...asDict(field)].map(([key, value]) => {
    if (typeof key !== 'string') throw wrongType({ ...field, value: key }, 'a string as key');
    return [key, { file: field.file, path: `${field.path}[${JSON.stringify(key)}]`, value }];
  });
}

/** A string. */
export function asString(field: Field): string {
  if (typeof field.value === 'string') return field.value;
  throw wrongType(field, 'a string');
}

/** A whole number of 0 or more, safe to count with. */
export function asCount(field: Field): number {
  const { value } = field;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw wrongType(field, 'a whole number of 0 or more');
}

/** A tensor. */
export function asTensor(field: Field): TorchTensor {
  if (field.value instanceof TorchTensor) return field.value;
  throw wrongType(field, 'a tensor');
}

/** A shape: torch.Size, tuple or list of sizes. */
export function asShape(field: Field): number[] {
  return asList(field).map(asCount);
}

/**
 * What lies under a path of keys in dicts, lists and the state of inert objects; undefined where anything on the way is
 * missing. For fields that are compared and may be anything.
 */
export function dig(value: PyValue | undefined, ...path: readonly (string | number)[]): PyValue | undefined {
  let found = value;
  for (const key of path) {
    if (found instanceof PyObject) found = found.state;
    if (found instanceof Map) found = found.get(key);
    else if (Array.isArray(found) && typeof key === 'number') found = found[key];
    else return undefined;
  }
  return found;
}

function wrongType(field: Field, expected: string): UnshardError {
  const found = typeName(field.value);
  return new UnshardError({
    kind: 'bad-file',
    code: 'bad-field',
    message: `${field.file}: ${field.path || 'the file'} must be ${expected}; it is ${found}.`,
    advice: 'The file was not written by DeepSpeed, or by a version that Unshard does not know.',
    facts: { file: field.file, field: field.path, expected, found },
  });
}

function typeName(value: PyValue | undefined): string {
  if (value === undefined) return 'not there';
  if (value === null) return 'None';
  if (value instanceof PyObject) return `an object of ${value.type.path}`;
  if (value instanceof TorchTensor) return `a tensor of shape [${value.shape.join(', ')}]`;
  if (Array.isArray(value)) return 'a list';
  if (value instanceof Map) return 'a dict';
  return typeof value === 'object' ? value.constructor.name : `${typeof value} ${String(value).slice(0, 40)}`;
}
