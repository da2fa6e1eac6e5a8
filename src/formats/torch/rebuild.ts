/**
 * What torch's own functions make of their arguments: tensors, checked against their storage, and a few small values.
 * What cannot be converted (quantized, sparse, nested, meta tensors) has no entry here and stays an inert record.
 *
 * @module
 */

import { bytesOf, type DType, dtypeOfTorch } from '../../base/dtype.js';
import type { Reducer } from '../pickle/read.js';
import { PyGlobal, type PyValue } from '../pickle/values.js';
import { badTorch } from './fault.js';
import { isCount, StorageView } from './storages.js';
import { type Flip, TorchStorage, TorchTensor } from './tensor.js';

/** torch itself has no more dimensions. */
const MAX_DIMENSIONS = 64;

/** Classes of tensors that say nothing about the values. */
const PLAIN_TENSORS = new Set(['torch.Tensor', 'torch.nn.parameter.Parameter', 'torch.nn.parameter.Buffer']);

/** Lazy operations that the metadata of a tensor can ask for. */
const FLIP_KEYS: ReadonlySet<PyValue> = new Set(['neg', 'conj']);

/** Called with what is ignored about a tensor. */
export type Warn = (code: string, message: string) => void;

/** The reducers for the pickle of one file. */
export function torchReducers(file: string, warn: Warn): ReadonlyMap<string, Reducer> {
  const rebuild = (args: readonly PyValue[], dtype: PyValue | undefined, metadata: PyValue | undefined) => {
    const flip = flipOf(metadata, warn);
    return flip === 'unknown' ? undefined : tensorOf(file, args, dtype, flip);
  };
  const reducers = new Map<string, Reducer>([
    ['torch._utils._rebuild_tensor', (args) => rebuild(args, undefined, undefined)],
    [
      'torch._utils._rebuild_tensor_v2',
      (args) => {
        checkFlags(args[4], args[5], warn);
        return rebuild(args, undefined, args[6]);
      },
    ],
    [
      'torch._utils._rebuild_tensor_v3',
      (args) => {
        checkFlags(args[4], args[5], warn);
        return rebuild(args, args[6] ?? null, args[7]);
      },
    ],
    ['torch._utils._rebuild_parameter', parameterOf],
    ['torch._utils._rebuild_parameter_with_state', parameterOf],
    ['torch.Size', ([size]) => (Array.isArray(size) ? size : undefined)],
    ['torch.serialization._get_layout', ([name]) => layoutOf(name)],
    ['torch.device', ([type, index]) => deviceOf(type, index)],
  ]);
  const fromType: Reducer = ([callable, type, args]) => {
    const tensor =
      callable instanceof PyGlobal && Array.isArray(args) ? reducers.get(callable.path)?.(args) : undefined;
    if (!(tensor instanceof TorchTensor) || !(type instanceof PyGlobal)) return undefined;
    if (!PLAIN_TENSORS.has(type.path)) {
      warn('tensor-subclass', `Tensors of the class ${type.path} are taken as plain tensors.`);
    }
    return tensor;
  };
  return new Map([
    ...reducers,
    ['torch._tensor._rebuild_from_type', fromType],
    ['torch._tensor._rebuild_from_type_v2', fromType],
  ]);
}

/** A tensor of `(storage, offset, size, stride, …)`; undefined where its storage or dtype cannot be converted. */
function tensorOf(
  file: string,
  [base, viewOffset, size, stride]: readonly PyValue[],
  dtypeArgument: PyValue | undefined,
  flip: Flip | undefined,
): TorchTensor | undefined {
  const view = base instanceof TorchStorage ? new StorageView(base, 0, base.byteLength) : base;
  if (!(view instanceof StorageView)) return undefined;
  const { storage } = view;
  const dtype = dtypeArgument === undefined ? storage.dtype : dtypeOfGlobal(dtypeArgument);
  if (dtype === undefined) return undefined;
  const fail = (code: string, what: string, facts: Readonly<Record<string, string | number>> = {}) =>
    badTorch(file, code, `a tensor in storage ${storage.key} ${what}`, { storage: storage.key, ...facts });

  const dimensions = Array.isArray(size) ? size.length : 0;
  if (dimensions > MAX_DIMENSIONS) {
    const what = `has ${dimensions} dimensions; there are at most ${MAX_DIMENSIONS}`;
    throw fail('tensor-dimensions', what, { limit: MAX_DIMENSIONS, found: dimensions });
  }
  const shape = countsOf(size);
  const strides = countsOf(stride);
  if (!shape || !strides || !isCount(viewOffset)) {
    throw fail('tensor-geometry', 'has a size, stride or offset that is no whole number of 0 or more');
  }
  if (shape.length !== strides.length) {
    throw fail('tensor-geometry', `has ${shape.length} sizes and ${strides.length} strides`, {
      expected: shape.length,
      found: strides.length,
    });
  }
  const numel = productOf(shape);
  if (numel === undefined) throw fail('tensor-size', `has more elements than can be counted: [${shape.join(', ')}]`);
  const itemBytes = bytesOf(dtype);
  if (view.start % itemBytes !== 0) throw fail('tensor-geometry', `starts inside an element, at byte ${view.start}`);
  if (flip !== undefined && flip !== 'neg' && dtype !== 'C64') {
    throw fail('tensor-flip', `is conjugated, but its dtype is ${dtype}`, { found: dtype });
  }
  const found = view.byteLength;
  if (numel > 0 && !liesWithin(shape, strides, viewOffset, found / itemBytes)) {
    const last = shape.reduce((sum, n, i) => sum + BigInt(n - 1) * BigInt(strides[i] ?? 0), BigInt(viewOffset));
    const needed = (last + 1n) * BigInt(itemBytes);
    throw fail('tensor-outside-storage', `needs ${needed} bytes of it, but it has ${found}`, {
      expected: String(needed),
      found,
    });
  }
  return new TorchTensor(dtype, shape, strides, view.start / itemBytes + viewOffset, storage, flip);
}

/**
 * True where the last element lies within `count` ones. Numbers do: nothing is subtracted, so that a sum that is not exact
 * is too large in any case.
 */
function liesWithin(shape: readonly number[], strides: readonly number[], offset: number, count: number): boolean {
  let last = offset;
  for (let i = 0; i < shape.length; i++) last += ((shape[i] ?? 1) - 1) * (strides[i] ?? 0);
  return last + 1 <= count;
}

/** Whole numbers of a tuple, or a copy of those of a list, which the pickle could still change. */
function countsOf(value: PyValue | undefined): readonly number[] | undefined {
  if (!Array.isArray(value) || !value.every(isCount)) return undefined;
  return Object.isFrozen(value) ? (value as readonly number[]) : value.slice();
}

/** The product of the sizes; undefined where it is not exact, were it not for a size of 0. */
function productOf(sizes: readonly number[]): number | undefined {
  let product = 1;
  for (const size of sizes) product *= Math.max(size, 1);
  if (product > Number.MAX_SAFE_INTEGER) return undefined;
  return sizes.includes(0) ? 0 : product;
}

function dtypeOfGlobal(value: PyValue): DType | undefined {
  return value instanceof PyGlobal && value.module === 'torch' ? dtypeOfTorch(value.name) : undefined;
}

/** What the metadata says of lazy negation and conjugation; `unknown` where it says anything else. */
function flipOf(metadata: PyValue | undefined, warn: Warn): Flip | undefined | 'unknown' {
  if (metadata === undefined || metadata === null) return undefined;
  const understood =
    metadata instanceof Map && [...metadata].every(([key, on]) => FLIP_KEYS.has(key) && typeof on === 'boolean');
  if (!understood) {
    warn('tensor-metadata', 'Tensors with metadata that Unshard does not know are left uninterpreted.');
    return 'unknown';
  }
  const neg = metadata.get('neg') === true;
  const conj = metadata.get('conj') === true;
  if (neg && conj) return 'neg-conj';
  return neg ? 'neg' : conj ? 'conj' : undefined;
}

/** Flags of autograd do not change values. Anything but a bool and no hooks is odd enough to say so. */
function checkFlags(requiresGrad: PyValue | undefined, hooks: PyValue | undefined, warn: Warn): void {
  const hasHooks = hooks instanceof Map ? hooks.size > 0 : hooks !== undefined && hooks !== null;
  if (typeof requiresGrad === 'boolean' && !hasHooks) return;
  warn('tensor-flags', 'Tensors have a requires_grad that is no bool, or backward hooks. Both are ignored.');
}

/** A parameter is its data; the attributes that users hang on it are not kept. */
function parameterOf([data]: readonly PyValue[]): TorchTensor | undefined {
  return data instanceof TorchTensor ? data : undefined;
}

function layoutOf(name: PyValue | undefined): PyGlobal | undefined {
  return typeof name === 'string' && name.startsWith('torch.') ? new PyGlobal('torch', name.slice(6)) : undefined;
}

function deviceOf(type: PyValue | undefined, index: PyValue | undefined): string | undefined {
  if (typeof type !== 'string') return undefined;
  return typeof index === 'number' ? `${type}:${index}` : type;
}
