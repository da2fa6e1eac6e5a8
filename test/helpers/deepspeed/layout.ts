/** What the files of a checkpoint have in common: the order of parameters, their shapes and values, the optimizer. */

import { bytesOf } from '../../../src/base/dtype.js';
import { encodeFloats, type NaiveFloat } from '../naive-floats.js';
import { roundRobin, shareOf, subGroups } from './flat.js';
import {
  type Py,
  PyCall,
  PyFloat,
  type PyMap,
  PyOrdered,
  PyTuple,
  type TensorView,
  tensorOf,
  torchSize,
} from './python.js';
import { type CheckpointSpec, type Param, since, sizeOf, valuesOf } from './spec.js';

/** Byte of padding whose content the format leaves open. */
export const POISON = 0x5c;

/** Byte of every optimizer state. */
export const MOMENT = 0xa5;

/** The trainable parameters in the order of the model. */
export function named({ groups, namedOrder }: CheckpointSpec): Param[] {
  const all = groups.flat();
  const at = (name: string) => (namedOrder ? namedOrder.indexOf(name) : 0);
  return all.toSorted((a, b) => at(a.name) - at(b.name));
}

/** The groups as their flat buffers have them at stage 1 and 2. */
export function flatGroups(spec: CheckpointSpec): (readonly Param[])[] {
  const isFirst = since(spec.version, '0.4.0') && !since(spec.version, '0.4.4');
  const isDealt = spec.roundRobin || (isFirst && spec.stage < 3);
  return spec.groups.map((group) => (isDealt ? roundRobin(group, spec.ranks) : group));
}

/** The sub-groups of all groups at stage 3. */
export function zero3Groups(spec: CheckpointSpec): Param[][] {
  return spec.groups.flatMap((group) => subGroups(group, spec.ranks, spec.subGroupSize));
}

/** `param_shapes` as the version writes it. */
export function paramShapes(spec: CheckpointSpec): Py {
  // The first versions list every parameter in the order of the model, and 0.4.3 those of the groups in theirs.
  if (!since(spec.version, '0.4.3')) return shapesOf(spec, [...named(spec), ...(spec.frozen ?? [])]);
  if (!since(spec.version, '0.4.4')) return shapesOf(spec, spec.groups.flat());
  const groups = spec.stage === 3 ? zero3Groups(spec) : flatGroups(spec);
  return since(spec.version, '0.5.4') ? groups.map((group) => shapesOf(spec, group)) : shapesOf(spec, groups.flat());
}

/** Names and shapes as an ordered dict. */
export function shapesOf({ shapesAs = 'size' }: CheckpointSpec, params: readonly Param[]): Py {
  const write = {
    size: torchSize,
    tuple: (s: readonly number[]) => new PyTuple(s),
    list: (s: readonly number[]) => [...s],
  };
  return new PyOrdered(new Map(params.map(({ name, shape }) => [name, write[shapesAs](shape)])));
}

/** A rank's shares of parameters, one after another, as a flat tensor. What fills a share up is not defined. */
export function shareTensor(
  { ranks }: CheckpointSpec,
  params: readonly Param[],
  rank: number,
  dtype: NaiveFloat,
  role: 'weights' | 'other' = 'other',
): TensorView {
  const itemBytes = bytesOf(dtype);
  const parts = params.map((param) => {
    const length = shareOf(param, ranks) * itemBytes;
    const share = new Uint8Array(length).fill(POISON);
    share.set(valuesOf(param, dtype).subarray(rank * length, (rank + 1) * length));
    return share;
  });
  const bytes = Uint8Array.from(Buffer.concat(parts));
  return tensorOf(dtype, [bytes.length / itemBytes], bytes, role);
}

/** The values of parameters, one after another. */
export function joined(group: readonly Param[], dtype: NaiveFloat): Uint8Array {
  return Uint8Array.from(Buffer.concat(group.map((param) => valuesOf(param, dtype))));
}

/** Elements of parameters together. */
export function totalOf(group: readonly Param[]): number {
  return group.reduce((sum, param) => sum + sizeOf(param), 0);
}

/** State of an Adam optimizer for tensors of these lengths. */
export function adam({ masterDtype = 'F32' }: CheckpointSpec, lengths: readonly number[]): PyMap {
  const moment = (length: number) =>
    tensorOf(masterDtype, [length], new Uint8Array(length * bytesOf(masterDtype)).fill(MOMENT), 'moments');
  const states = lengths.map((length, i): [number, Py] => [
    i,
    new Map<string, Py>([
      ['step', tensorOf('F32', [], encodeFloats('F32', [7]), 'moments')],
      ['exp_avg', moment(length)],
      ['exp_avg_sq', moment(length)],
    ]),
  ]);
  const group = new Map<string, Py>([
    ['lr', new PyFloat(1e-3)],
    ['betas', new PyTuple([new PyFloat(0.9), new PyFloat(0.999)])],
    ['params', [0]],
  ]);
  return new Map<string, Py>([
    ['state', new Map(states)],
    ['param_groups', [group]],
  ]);
}

/** A stage as 0.7.0 and later pickle it. */
export function stageEnum(stage: number): PyCall {
  return new PyCall('deepspeed.runtime.zero.config', 'ZeroStageEnum', [stage]);
}

/** The configuration of the run. */
export function dsConfig({ stage, modelDtype, roundRobin = false }: CheckpointSpec): Py {
  const zero = new Map<string, Py>([
    ['stage', stage],
    ['round_robin_gradients', roundRobin],
  ]);
  return new Map<string, Py>([
    ['zero_optimization', zero],
    ['bf16', new Map([['enabled', modelDtype === 'BF16']])],
  ]);
}
