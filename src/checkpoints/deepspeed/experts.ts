/**
 * The files of experts of a mixture-of-experts model. Each holds the 16-bit weights of one expert, under the number that it
 * has in the whole model; the state dict of the model file is without them.
 *
 * @module
 */

import { bytesOf } from '../../base/dtype.js';
import type { ErrorDetail } from '../../base/errors.js';
import { numelOf } from '../../base/shape.js';
import type { TorchTensor } from '../../formats/torch/tensor.js';
import type { StoredBits, TensorEntry } from '../inventory.js';
import { addTensor, type Draft, locate } from './draft.js';
import type { ExpertName } from './files.js';
import { expertCount, missingExperts, staleExperts } from './parallel-problems.js';
import { type FusedExperts, MAX_EXPERTS } from './parallel-states.js';
import { rankTwice } from './problems.js';
import { type ModelStates, type NamedShape, type Shard, stateDict } from './states.js';

/** The shard of an expert file. */
export type ExpertShard = Shard<ExpertName>;

/** The experts of a model. */
export interface Experts {
  /** Weights and buffers by their names in the whole model. */
  readonly tensors: ReadonlyMap<string, TorchTensor>;
  /** Number of experts, by the start of their names up to the number. */
  readonly counts: ReadonlyMap<string, number>;
  readonly fused: readonly FusedExperts[];
  readonly extraState: readonly string[];
}

/** Start, number and end of the name of an expert's parameter. */
const EXPERT = /^((?:.*\.)?deepspeed_moe\.experts\.deepspeed_experts\.)(\d+)(\..+)$/s;

/** The weights of an expert of AutoEP. */
const FUSED_WEIGHTS = ['w1', 'w2', 'w3'];

/** Missing experts that are named. */
const MAX_LISTED = 20;

/** Opens the experts of one model-parallel rank. What is missing goes into the problems of the draft. */
export async function readExperts(
  draft: Draft,
  folder: string,
  model: ModelStates,
  shards: readonly ExpertShard[],
  signal?: AbortSignal,
): Promise<Experts> {
  const { expertCounts: said, fusedExperts: fused } = model.parallel;
  draft.problems.push(...checkExperts(folder, shards, said));
  const files = shards.map((shard) => ({ shard, ...stateDict(shard) }));
  await locate(
    draft,
    files.map(({ shard, tensors }) => ({ shard, tensors: tensors.values() })),
    signal,
  );
  // Layer by layer, as the optimizer has them: a file before 0.6.0 holds an expert of every layer.
  const layers = new Map<string, [id: string, name: string, tensor: TorchTensor][]>();
  for (const [name, tensor] of files.flatMap(({ tensors }) => [...tensors])) {
    const [, start = '', id = ''] = EXPERT.exec(name) ?? [];
    const of = layers.get(start) ?? [];
    layers.set(start, of);
    of.push([id, name, tensor]);
  }
  const sorted = [...layers.values()].flatMap((of) => of.toSorted(([a], [b]) => Number(a) - Number(b)));
  const extraState = files.flatMap((file) => file.extraState);
  const counts = [...layers].map(([start, of]) => [start, new Set(of.map(([id]) => id)).size] as const);
  return {
    tensors: new Map(sorted.map(([, name, tensor]) => [name, tensor])),
    counts: new Map(counts),
    fused,
    extraState,
  };
}

/** A model file whose state dict has the experts in it, and whose buffers are those of all experts. */
export function withExperts(model: ModelStates, experts: Experts): ModelStates {
  if (experts.tensors.size === 0) return model;
  const extraState = [...model.extraState, ...experts.extraState];
  // Every rank lists those of its own experts: the same, but for the number.
  const bufferNames = new Set(
    model.bufferNames.flatMap((name) => {
      const [, start = '', , end = ''] = EXPERT.exec(name) ?? [];
      const count = experts.counts.get(start) ?? 0;
      return count === 0 ? [name] : Array.from({ length: count }, (_, id) => `${start}${id}${end}`);
    }),
  );
  return {
    ...model,
    module: new Map([...model.module, ...experts.tensors]),
    bufferNames: [...bufferNames],
    extraState,
  };
}

/**
 * Parameters as the whole model names them, of those that expert-parallel rank `rank` of `ranks` holds: there experts are
 * counted from 0. A fused weight of AutoEP becomes one parameter for each expert, as the files of experts have it.
 */
export function globalShapes(
  file: string,
  experts: Experts,
  shapes: readonly NamedShape[],
  rank: number,
  ranks: number,
): NamedShape[] | ErrorDetail {
  const named: NamedShape[] = [];
  for (const [name, shape] of shapes) {
    const fused = experts.fused.find(({ prefix }) => FUSED_WEIGHTS.some((weight) => name === `${prefix}.${weight}`));
    const [, start = '', id = '', end = ''] = EXPERT.exec(name) ?? [];
    if (!fused && (start === '' || ranks === 1)) {
      named.push([name, shape]);
      continue;
    }
    const count = fused ? fused.experts : (experts.counts.get(start) ?? 0);
    const own = count / ranks;
    const fits = fused ? shape[0] === own : Number(id) < own;
    if (!Number.isInteger(own) || !fits) return expertCount(file, fused ? name : start, ranks, count);
    if (!fused) named.push([`${start}${rank * own + Number(id)}${end}`, shape]);
    else for (let i = 0; i < own; i++) named.push([`${name}.${rank * own + i}`, shape.slice(1)]);
  }
  return named;
}

/**
 * True where whole experts were dealt to all ranks, whatever tensor-parallel rank they have: no expert has files of two
 * model-parallel ranks.
 */
export function areDealt(sets: readonly { readonly experts: readonly ExpertShard[] }[]): boolean {
  const names = sets.flatMap(({ experts }) => experts.map(({ name }) => labelOf(name.moeLayer, name.expert)));
  return sets.length > 1 && names.length > 0 && new Set(names).size === names.length;
}

/** True for the name of a parameter or buffer of an expert. */
export function isExpert(name: string): boolean {
  return EXPERT.test(name);
}

/** True for what expert-parallel rank `rank` of `ranks` holds: its experts, and all that is no expert. */
export function isOnRank(experts: Experts, name: string, rank: number, ranks: number): boolean {
  const [, start = '', id = ''] = EXPERT.exec(name) ?? [];
  const own = (experts.counts.get(start) ?? 0) / ranks;
  return start === '' || Math.floor(Number(id) / own) === rank;
}

/** Puts the fused weights of AutoEP together again: one tensor over all experts. */
export function fuseExperts(draft: Draft, file: string, { fused }: Experts): void {
  for (const { prefix, experts } of fused) {
    for (const name of FUSED_WEIGHTS.map((weight) => `${prefix}.${weight}`)) {
      const names = Array.from({ length: experts }, (_, id) => `${name}.${id}`);
      const parts = names.flatMap((part) => draft.tensors.get(part) ?? []);
      const [first] = parts;
      if (!first) continue;
      const isAlike = ({ shape, origin, stored }: TensorEntry) =>
        String(shape) === String(first.shape) && origin === first.origin && stored.dtype === first.stored.dtype;
      if (parts.length < experts || !parts.every(isAlike)) {
        draft.problems.push(expertCount(file, name, experts, parts.filter(isAlike).length));
        continue;
      }
      for (const part of names) draft.tensors.delete(part);
      addTensor(draft, stacked(name, parts, first), file);
    }
  }
}

/** Tensors of one shape as one, along a new first dimension. */
function stacked(name: string, parts: readonly TensorEntry[], first: TensorEntry): TensorEntry {
  const join = (bits: readonly (StoredBits | undefined)[]): StoredBits | undefined => {
    const there = bits.flatMap((one) => one ?? []);
    const [one] = there;
    if (!one || there.length < bits.length || there.some(({ dtype }) => dtype !== one.dtype)) return undefined;
    const length = numelOf(first.shape) * bytesOf(one.dtype);
    const pieces = there.flatMap((own, i) => own.pieces.map((piece) => ({ ...piece, at: piece.at + i * length })));
    return { dtype: one.dtype, pieces };
  };
  const copy = join(parts.map((part) => part.copy));
  const stored = join(parts.map((part) => part.stored)) ?? first.stored;
  return { name, shape: [parts.length, ...first.shape], origin: first.origin, stored, ...(copy ? { copy } : {}) };
}

/** Number of experts by layer with experts; before 0.6.0 a file holds an expert of all layers. */
type Counts = ReadonlyMap<number | undefined, number>;

/** Whether every expert has its file, and no other has. */
function checkExperts(folder: string, shards: readonly ExpertShard[], said: readonly number[] | number | undefined) {
  const problems: ErrorDetail[] = [];
  const counts = expectedCounts(shards, said);
  const files = new Map<string, ExpertName>();
  for (const { name } of shards) {
    const other = files.get(labelOf(name.moeLayer, name.expert));
    if (other) problems.push(rankTwice(folder, other.name, name.name));
    files.set(labelOf(name.moeLayer, name.expert), name);
  }
  const expected = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const isWanted = ({ moeLayer, expert }: ExpertName) => expert < (counts.get(moeLayer) ?? 0);
  const stale = [...files.values()].filter((name) => !isWanted(name));
  const found = files.size - stale.length;
  if (found < expected) problems.push(missingExperts(folder, missingOf(counts, files), expected, found));
  else if (stale[0]) problems.push(staleExperts(folder, stale[0].name, expected, files.size));
  return problems;
}

/** What the model file says; else as many as the file of the highest number tells. */
function expectedCounts(shards: readonly ExpertShard[], said: readonly number[] | number | undefined): Counts {
  const isOld = shards.some(({ name }) => name.moeLayer === undefined);
  if (typeof said === 'object' && !isOld) return new Map(said.entries());
  if (typeof said === 'number' && shards.length === 0) return new Map([[undefined, said]]);
  const counts = new Map<number | undefined, number>();
  for (const { name } of shards) {
    const seen = Math.max(counts.get(name.moeLayer) ?? 0, name.expert + 1);
    counts.set(name.moeLayer, typeof said === 'number' ? said : Math.min(seen, MAX_EXPERTS));
  }
  return counts;
}

/** The first experts that have no file. */
function missingOf(counts: Counts, files: ReadonlyMap<string, ExpertName>): string[] {
  const missing: string[] = [];
  for (const [layer, count] of counts) {
    for (let id = 0; id < count && missing.length < MAX_LISTED; id++) {
      if (!files.has(labelOf(layer, id))) missing.push(labelOf(layer, id));
    }
  }
  return missing;
}

function labelOf(layer: number | undefined, id: number): string {
  return layer === undefined ? `expert ${id}` : `expert ${id} of layer ${layer}`;
}
