/**
 * The base model with a LoRA adapter merged into it: the weights that `merge_and_unload` of PEFT leaves, under the names
 * of the base model.
 *
 * @module
 */

import { UnshardError } from '../base/errors.js';
import type { Inventory, Notice, SkippedTensor, TensorEntry } from '../checkpoints/inventory.js';
import { BASE_LAYER, loraLayers, loraName, originalName, savedName } from '../checkpoints/peft-names.js';
import { adapterCompanion, type LoraConfig, readLoraConfig } from './adapter-config.js';
import { chooseAdapter, modelPrefix } from './lora.js';
import type { Candidate, Step } from './names.js';
import type { Compute, ResolvedOptions } from './plan.js';
import { type LoraTensors, loraUpdates, mergeRefused } from './update.js';

/**
 * Merges an adapter: its tensors are computed into the weights that they belong to, and are not written themselves.
 * Modules that were trained whole beside it take the place of the original ones.
 *
 * @throws UnshardError as `chooseAdapter`, `readLoraConfig` and `loraUpdates` do; `adapter-config-missing`,
 * `merge-unsupported` for adapters that are not plain LoRA, `merge-base-missing`.
 */
export function mergeAdapter(candidates: readonly Candidate[], inventory: Inventory, options: ResolvedOptions): Step {
  const adapter = chooseAdapter(candidates, inventory, options);
  const config = configOf(inventory, adapter);
  const [variant] = config.variants;
  if (variant !== undefined) throw mergeRefused(config.file, `the adapter uses ${variant}`);
  const unwrapped = takeSavedModules(candidates, adapter);
  const layers = loraLayers(unwrapped.kept.map(({ name }) => name));
  const prefix = modelPrefix(layers);
  const { model, tensors, skipped } = takeLayers(unwrapped.kept, layers, adapter);
  const updates = loraUpdates(tensors, baseWeights(tensors, model, inventory.folder), config, prefix);
  const kept = model.map((candidate): Candidate => {
    const compute = updates.get(candidate.entry);
    return { ...candidate, name: baseName(candidate.name, layers, prefix), ...(compute ? { compute } : {}) };
  });
  const warnings = [...tieNotices(kept, unwrapped.replaced, updates), ...configNotices(inventory)];
  return { kept, skipped: [...unwrapped.skipped, ...skipped], warnings };
}

/** Puts the copies that the adapter holds of whole modules in the place of the originals. */
function takeSavedModules(
  candidates: readonly Candidate[],
  adapter: string,
): { kept: Candidate[]; skipped: SkippedTensor[]; replaced: Set<TensorEntry> } {
  const savedOf = (name: string) => {
    const saved = savedName(name);
    return saved?.adapter === adapter ? [saved.module] : [];
  };
  const modules = new Set(candidates.flatMap(({ name }) => savedOf(name)));
  const kept: Candidate[] = [];
  const skipped: SkippedTensor[] = [];
  const replaced = new Set<TensorEntry>();
  for (const candidate of candidates) {
    const saved = savedName(candidate.name);
    const original = originalName(candidate.name);
    if (saved && saved.adapter !== adapter) {
      skipped.push({ name: candidate.source, reason: 'part of another adapter' });
    } else if (original && modules.has(original.module)) {
      skipped.push({ name: candidate.source, reason: 'replaced by the copy that was trained with the adapter' });
      replaced.add(candidate.entry);
    } else {
      const place = saved ?? original;
      kept.push(place ? { ...candidate, name: `${place.module}.${place.rest}` } : candidate);
    }
  }
  return { kept, skipped, replaced };
}

/** Sorts the tensors of the adapters from those of the model. */
function takeLayers(
  candidates: readonly Candidate[],
  layers: ReadonlySet<string>,
  adapter: string,
): { model: Candidate[]; tensors: Map<string, LoraTensors>; skipped: SkippedTensor[] } {
  const model: Candidate[] = [];
  const tensors = new Map<string, Map<string, TensorEntry>>();
  const skipped: SkippedTensor[] = [];
  for (const candidate of candidates) {
    const part = loraName(candidate.name, layers);
    if (!part) {
      model.push(candidate);
      continue;
    }
    const isOurs = part.adapter === adapter;
    skipped.push({ name: candidate.source, reason: isOurs ? 'merged into its layer' : 'part of another adapter' });
    if (!isOurs) continue;
    const ofLayer = tensors.get(part.layer) ?? new Map<string, TensorEntry>();
    tensors.set(
      part.layer,
      ofLayer.set(part.rest === '' ? part.attribute : `${part.attribute}.${part.rest}`, candidate.entry),
    );
  }
  return { model, tensors, skipped };
}

/** The weight that each layer's adapter changes. */
function baseWeights(
  tensors: ReadonlyMap<string, LoraTensors>,
  model: readonly Candidate[],
  folder: string,
): Map<string, TensorEntry> {
  const byName = new Map(model.map(({ name, entry }) => [name, entry]));
  const missing: string[] = [];
  const weights = new Map<string, TensorEntry>();
  for (const layer of tensors.keys()) {
    // The second name is the one of PEFT before 0.6.
    const weight = byName.get(`${layer}.${BASE_LAYER}.weight`) ?? byName.get(`${layer}.weight`);
    if (weight) weights.set(layer, weight);
    else missing.push(layer);
  }
  const [first] = missing;
  if (first === undefined) return weights;
  const wrapped = model.find(({ name }) => name.startsWith(`${first}.${BASE_LAYER}.`));
  if (wrapped) throw mergeRefused(wrapped.source, 'its layer has no single weight');
  throw baseMissing(folder, first, missing.length, tensors.size);
}

/** A name as the base model has it: without the prefix of the PeftModel, and without the wrapping of its layers. */
function baseName(name: string, layers: ReadonlySet<string>, prefix: string): string {
  const at = name.lastIndexOf(`.${BASE_LAYER}.`);
  const isWrapped = at >= 0 && layers.has(name.slice(0, at));
  const unwrapped = isWrapped ? name.slice(0, at) + name.slice(at + BASE_LAYER.length + 1) : name;
  return unwrapped.startsWith(prefix) ? unwrapped.slice(prefix.length) : unwrapped;
}

/** What merging does to tied weights, which the training may not have meant. */
function tieNotices(
  kept: readonly Candidate[],
  replaced: ReadonlySet<TensorEntry>,
  updates: ReadonlyMap<TensorEntry, Compute>,
): Notice[] {
  const names = new Map<TensorEntry, string[]>();
  for (const { name, entry } of kept) names.set(entry, [...(names.get(entry) ?? []), name]);
  const merged = [...updates.keys()].map((entry) => names.get(entry) ?? []).filter((tied) => tied.length > 1);
  const untied = [...replaced].flatMap((entry) => names.get(entry) ?? []);
  return [
    ...merged.map((tied) => ({
      code: 'merged-tied',
      message: `${tied.join(' and ')} are one weight, so the adapter changes both, as PEFT does when it merges; the run trained it on one of them.`,
    })),
    ...untied.map((name) => ({
      code: 'merged-untied',
      message: `${name} was tied to a weight that the run trained apart. Set tie_word_embeddings to false in config.json, or it will be tied again when it is loaded.`,
    })),
  ];
}

function configNotices(inventory: Inventory): Notice[] {
  if (inventory.companions.some(({ name }) => name === 'config.json')) return [];
  const message =
    'There is no config.json beside the checkpoint: copy the one of the base model, so that from_pretrained opens the folder.';
  return [{ code: 'config-missing', message }];
}

function configOf(inventory: Inventory, adapter: string): LoraConfig {
  const companion = adapterCompanion(inventory, adapter);
  if (companion) return readLoraConfig(inventory, companion);
  const file = adapter === 'default' ? 'adapter_config.json' : `${adapter}/adapter_config.json`;
  throw new UnshardError({
    kind: 'missing-shard',
    code: 'adapter-config-missing',
    message: `${file} is not beside the checkpoint, so the scale of the adapter ${adapter} (lora_alpha) is not known.`,
    advice: 'Copy it from the output folder of the run to the folder that holds the tag folder.',
    facts: { file, expected: 1, found: 0 },
  });
}

function baseMissing(folder: string, layer: string, missing: number, layers: number): UnshardError {
  return new UnshardError({
    kind: 'missing-shard',
    code: 'merge-base-missing',
    message: `${folder} does not hold the weights that the adapter changes: ${missing} of ${layers} are missing, the first is ${layer}. A checkpoint that was saved without frozen parameters has none of them.`,
    advice: 'Write the adapter alone, and merge it into the base model with PEFT.',
    facts: { file: folder, tensor: layer, expected: layers, found: layers - missing },
  });
}
