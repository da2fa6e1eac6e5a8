import fc from 'fast-check';
import { bytesOf, type DType } from '../../../src/base/dtype.js';
import type { CheckpointSpec, NamedBuffer, Param } from './spec.js';
import { since, sizeOf } from './spec.js';

/** Versions of DeepSpeed on both sides of every change of the layout since the model file lists the shapes. */
const VERSIONS = [
  '0.6.0',
  '0.6.5',
  '0.7.0',
  '0.9.0',
  '0.9.1',
  '0.9.2',
  '0.10.1',
  '0.16.3',
  '0.16.4',
  '0.19.6',
] as const;

const BUFFER_DTYPES: readonly DType[] = [
  'F32',
  'F16',
  'BF16',
  'I64',
  'I32',
  'I16',
  'I8',
  'U8',
  'BOOL',
  'F8_E4M3',
  'U16',
];

const shape = fc.oneof(
  { weight: 6, arbitrary: fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 3 }) },
  { weight: 1, arbitrary: fc.constantFrom([0], [0, 3], [2, 0]) },
  { weight: 1, arbitrary: fc.integer({ min: 40, max: 90 }).map((n) => [n]) },
);

const params = (prefix: string, maxLength: number) =>
  fc.array(shape, { maxLength }).map((shapes) => shapes.map((s, i): Param => ({ name: `${prefix}.${i}`, shape: s })));

const buffers = fc
  .array(fc.tuple(fc.constantFrom(...BUFFER_DTYPES), shape, fc.integer({ min: 0, max: 255 })), { maxLength: 3 })
  .map((all) => all.map(([dtype, s, seed], i) => bufferOf(`buffers.${i}`, dtype, s, seed)));

/** Any checkpoint of the given stage that DeepSpeed could have written, with at least one trainable element. */
export function randomSpec(stage: CheckpointSpec['stage']): fc.Arbitrary<CheckpointSpec> {
  return fc
    .record({
      ranks: fc.integer({ min: 1, max: 6 }),
      version: fc.constantFrom(...VERSIONS),
      modelDtype: fc.constantFrom('F32', 'F16', 'BF16'),
      lowPrecision: fc.boolean(),
      groups: fc.array(params('layers', 5), { minLength: 1, maxLength: 3 }),
      frozen: params('base', 3),
      tied: fc.array(fc.nat(), { maxLength: 2 }),
      buffers,
      roundRobin: fc.boolean(),
      bf16Optimizer: fc.boolean(),
      excludeFrozen: fc.boolean(),
      subGroupSize: fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
      shapesAs: fc.constantFrom('size', 'tuple', 'list'),
      container: fc.constantFrom('zip', 'zip', 'legacy'),
      rootNames: fc.constantFrom('archive', 'file'),
      crcs: fc.boolean(),
    } as const)
    .map(({ lowPrecision, subGroupSize, ...made }): CheckpointSpec => {
      const groups = made.groups.map((group, g) => group.map((param) => ({ ...param, name: `g${g}.${param.name}` })));
      const first = { name: 'embed.weight', shape: [3, 2] };
      const all = [[first, ...(groups[0] ?? [])], ...groups.slice(1)];
      const owners = all.flat().filter((param) => sizeOf(param) > 0);
      return {
        ...made,
        stage,
        groups: all,
        masterDtype: lowPrecision && since(made.version, '0.18.3') ? made.modelDtype : 'F32',
        tied: made.tied.map((owner, i) => [`tied.${i}`, owners[owner % owners.length]?.name ?? first.name]),
        excludeFrozen: made.excludeFrozen && since(made.version, '0.10.1'),
        roundRobin: made.roundRobin && stage === 2,
        bf16Optimizer: made.bf16Optimizer && stage === 1 && made.modelDtype === 'BF16',
        ...(subGroupSize === undefined ? {} : { subGroupSize }),
      };
    });
}

/** A buffer whose bytes count up from `seed`. Floats are small numbers, bools 0 or 1. */
export function bufferOf(name: string, dtype: DType, shape: readonly number[], seed: number): NamedBuffer {
  const bytes = new Uint8Array(sizeOf({ shape }) * bytesOf(dtype)).map((_, i) => (seed + 7 * i) % 251);
  const top = dtype === 'BOOL' ? bytes.map((byte) => byte % 2) : bytes;
  // An exponent of all ones would make a number of no meaning of it.
  if (dtype.startsWith('F') || dtype === 'BF16') {
    for (let end = bytesOf(dtype) - 1; end < top.length; end += bytesOf(dtype)) top[end] = (top[end] ?? 0) % 0x3c;
  }
  return { name, dtype, shape, bytes: top };
}
