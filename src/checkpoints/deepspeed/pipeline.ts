/**
 * Pipeline parallelism: the model is a list of layers, shared out over stages. Stages have masters of their own; the 16-bit
 * weights and the buffers lie in a file for each layer, whose names begin anew in every layer.
 *
 * @module
 */

import type { ErrorDetail } from '../../base/errors.js';
import type { TorchTensor } from '../../formats/torch/tensor.js';
import type { Notice, StoredBits, TensorEntry } from '../inventory.js';
import { bitsOf, type Draft, locate } from './draft.js';
import type { LayerName } from './files.js';
import { missingLayers, unknownTopology } from './parallel-problems.js';
import { bitsMatch } from './probe.js';
import { touchesLost } from './settle.js';
import { type ModelStates, type Shard, type StateDict, stateDict } from './states.js';

/** The shard of a layer file. */
export type LayerShard = Shard<LayerName>;

/** A parameter or buffer of a layer: its index, then the name in the layer. */
const OF_LAYER = /^(\d+)\.(.+)$/s;

/** A parameter or buffer of a module that several layers use: a key, then the name in the module. */
const OF_TIED = /^(tied_modules\.[^.]+\.)(.+)$/s;

/** The state dict that the layer files of one tensor-parallel rank make up, under names that begin with the layer. */
export async function readLayers(
  draft: Draft,
  shards: readonly LayerShard[],
  signal?: AbortSignal,
): Promise<StateDict> {
  const odd = shards.find(({ name }) => name.axes !== undefined);
  if (odd) throw unknownTopology(odd.path, odd.name.axes ?? '');
  const files = shards.toSorted((a, b) => a.name.layer - b.name.layer).map((shard) => ({ shard, ...stateDict(shard) }));
  await locate(
    draft,
    files.map(({ shard, tensors }) => ({ shard, tensors: tensors.values() })),
    signal,
  );
  const named = files.flatMap(({ shard: { name: layer }, tensors }) =>
    [...tensors].map(([name, tensor]): [string, TorchTensor] => [`${layer.layer}.${name}`, tensor]),
  );
  const extraState = files.flatMap(({ shard, extraState: names }) =>
    names.map((name) => `${shard.name.layer}.${name}`),
  );
  return { tensors: new Map(named), extraState };
}

/** Whether every layer that the model files name has its file. Layers without parameters and buffers need none. */
export function checkLayers(
  folder: string,
  shards: readonly LayerShard[],
  names: readonly string[],
): readonly ErrorDetail[] {
  const files = new Set(shards.map(({ name }) => name.layer));
  const layers = new Set(names.flatMap((name) => OF_LAYER.exec(name)?.[1] ?? []));
  const missing = [...layers].filter((layer) => !files.has(Number(layer)));
  return missing.length > 0 ? [missingLayers(folder, missing, layers.size)] : [];
}

/** True for what every stage that uses a tied module holds a copy of. */
export function isTied(name: string): boolean {
  return OF_TIED.test(name);
}

/**
 * The state dict with tied modules under their own names. A layer file does not say that its module is a tied one: it is
 * where nothing else is known of the layer, the names and shapes are those of the tied module, and so are the bits.
 */
export async function nameTied(
  draft: Draft,
  model: ModelStates,
  owners: ReadonlySet<string>,
  signal?: AbortSignal,
): Promise<ModelStates> {
  const known = new Set([...owners, ...model.bufferNames].map((name) => OF_LAYER.exec(name)?.[1]));
  const module = new Map<string, TorchTensor>();
  const layers = new Map<string, Map<string, TorchTensor>>();
  for (const [name, tensor] of model.module) {
    const [, layer = '', inLayer = name] = OF_LAYER.exec(name) ?? [];
    if (layer === '' || known.has(layer)) module.set(name, tensor);
    else layers.set(layer, (layers.get(layer) ?? new Map()).set(inLayer, tensor));
  }
  for (const [layer, tensors] of layers) {
    const { key, notice } = await tiedKey(draft, layer, tensors, { owners, module }, signal);
    if (notice) draft.warnings.push(notice);
    for (const [name, tensor] of tensors) {
      const tied = `${key ?? `${layer}.`}${name}`;
      const entry = key === undefined ? undefined : draft.tensors.get(tied);
      if (entry) draft.tensors.set(tied, withCopy(draft, entry, tensor));
      if (!module.has(tied)) module.set(tied, tensor);
    }
  }
  return { ...model, module };
}

/** What is known of tied modules when a layer is looked at. */
interface Known {
  readonly owners: ReadonlySet<string>;
  /** Copies from layers before this one. */
  readonly module: ReadonlyMap<string, TorchTensor>;
}

/**
 * The start of the names of the tied module that a layer file holds a copy of. Where its masters are lost, names and shapes
 * decide, if only one module has them, and other layers must hold the same.
 */
async function tiedKey(
  draft: Draft,
  layer: string,
  tensors: ReadonlyMap<string, TorchTensor>,
  { owners, module }: Known,
  signal: AbortSignal | undefined,
): Promise<{ readonly key?: string; readonly notice?: Notice }> {
  const others: string[] = [];
  const lost: string[] = [];
  for (const key of new Set([...owners].flatMap((name) => OF_TIED.exec(name)?.[1] ?? []))) {
    const own = [...owners].filter((name) => name.startsWith(key));
    const pairs = own.flatMap((name) => {
      const entry = draft.tensors.get(name);
      const [copy, before] = [tensors.get(name.slice(key.length)), module.get(name)];
      if (!entry || !copy || String(entry.shape) !== String(copy.shape)) return [];
      return [{ bits: intactBits(draft, entry) ?? (before && bitsOf(draft, before)), copy }];
    });
    if (pairs.length < own.length) continue;
    const known = pairs.flatMap(({ bits, copy }) => (bits ? [{ bits, copy }] : []));
    if (!(await areCopies(draft, known, signal))) others.push(key);
    else if (known.length > 0) return { key };
    else lost.push(key);
  }
  const [key] = lost;
  if (key !== undefined && lost.length === 1) return { key, notice: takenForTied(layer, key) };
  const [other] = others;
  return other === undefined || lost.length > 0 ? {} : { notice: likeTied(layer, other) };
}

/** The master of a tied module as a stage holds it whose files are there. */
function intactBits(draft: Draft, { stored, proofs = [] }: TensorEntry): StoredBits | undefined {
  return [stored, ...proofs].find((own) => !touchesLost(draft, own));
}

async function areCopies(
  draft: Draft,
  pairs: readonly { readonly bits: StoredBits; readonly copy: TorchTensor }[],
  signal: AbortSignal | undefined,
): Promise<boolean> {
  for (const { bits, copy } of pairs) {
    if (!(await bitsMatch(draft, bits, bitsOf(draft, copy), copy.numel, signal))) return false;
  }
  return true;
}

function takenForTied(layer: string, key: string): Notice {
  const message = `Layer ${layer} has the names and shapes of ${key.slice(0, -1)}, whose masters are lost. It is taken for that module.`;
  return { code: 'layer-taken-for-tied', message };
}

function likeTied(layer: string, key: string): Notice {
  const message = `Layer ${layer} has the names and shapes of ${key.slice(0, -1)}, and other values. It is taken for a layer that was not trained; if it should be that module, its file is of another step.`;
  return { code: 'layer-like-tied', message };
}

/** A tied module may be written by several layers: the first gives the copy, others must equal it. */
function withCopy(draft: Draft, entry: TensorEntry, tensor: TorchTensor): TensorEntry {
  const copy = bitsOf(draft, tensor);
  if (!entry.copy) return { ...entry, copy };
  return { ...entry, proofs: [...(entry.proofs ?? []), { check: 'replicated', ...copy }] };
}
