/**
 * The base model with a LoRA adapter merged into it: the weights that `merge_and_unload` of PEFT leaves, under the names
 * of the base model.
 *
 * @module
 */

import { UnshardError } from '../base/errors.js';
import { counted } from '../base/words.js';
import type { Companion, Inventory, Notice, SkippedTensor, TensorEntry } from '../checkpoints/inventory.js';
import { BASE_LAYER, loraLayers, loraName, originalName, savedName } from '../checkpoints/peft-names.js';
import { adapterCompanion, givenLoraConfig, type LoraConfig, readLoraConfig } from './adapter-config.js';
import { mayUntie } from './config.js';
import { chooseAdapter, modelPrefix } from './lora.js';
import type { Candidate, Step } from './names.js';
import type { Compute, LoraOptions, ResolvedOptions } from './plan.js';
import { type LoraTensors, loraUpdates, mergeRefused } from './update.js';

/**
 * Merges an adapter: its tensors are computed into the weights that they belong to, and are not written themselves.
 * Modules that were trained whole beside it take the place of the original ones.
 *
 * @throws UnshardError as `chooseAdapter`, `readLoraConfig` and `loraUpdates` do; `adapter-config-missing`,
 * `merge-unsupported` for adapters that are not plain LoRA, `merge-base-missing`, `adapter-incomplete`.
 */
export function mergeAdapter(candidates: readonly Candidate[], inventory: Inventory, options: ResolvedOptions): Step {
  const adapter = chooseAdapter(candidates, inventory, options);
  const config = configOf(inventory, adapter, options.lora);
  const [variant] = config.variants;
  if (variant !== undefined) throw mergeRefused(config.file, `the adapter uses ${variant}`);
  refuseIncomplete(inventory, adapter);
  const unwrapped = takeSavedModules(candidates, adapter);
  const layers = loraLayers(unwrapped.kept.map(({ name }) => name));
  const prefix = modelPrefix(layers);
  const { model, tensors, skipped } = takeLayers(unwrapped.kept, layers, adapter);
  const updates = loraUpdates(tensors, baseWeights(tensors, model, inventory.folder), config, prefix);
  const kept = model.map((candidate): Candidate => {
    const compute = updates.get(candidate.entry);
    return { ...candidate, name: baseName(candidate.name, layers, prefix), ...(compute ? { compute } : {}) };
  });
  const untied = namesOf(kept, unwrapped.replaced);
  const unties = untied.length > 0 && mayUntie(modelConfig(inventory)?.text);
  const notices = [...tieNotices(kept, updates), ...untied.map((name) => untiedNotice(name, unties))];
  const warnings = [...notices, ...configNotices(inventory, options.lora)];
  return { kept, skipped: [...unwrapped.skipped, ...skipped], warnings, unties };
}

/** A weight without its adapter, or in place of the copy that was trained, would be one of another model. */
function refuseIncomplete({ folder, skipped }: Inventory, adapter: string): void {
  const lost = skipped.filter(
    ({ name }) => (savedName(name) ?? loraName(name, loraLayers([name])))?.adapter === adapter,
  );
  const [first] = lost;
  if (!first) return;
  throw new UnshardError({
    kind: 'missing-shard',
    code: 'adapter-incomplete',
    message: `${folder} lacks ${counted(lost.length, 'tensor')} of the adapter ${adapter}, so it cannot be merged. The first is ${first.name}: ${first.reason}.`,
    advice: 'Find the lost files, or write the tensors that are there under their own names.',
    facts: { file: folder, tensor: first.name, found: lost.length },
  });
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
function tieNotices(kept: readonly Candidate[], updates: ReadonlyMap<TensorEntry, Compute>): Notice[] {
  const names = new Map<TensorEntry, string[]>();
  for (const { name, entry } of kept) names.set(entry, [...(names.get(entry) ?? []), name]);
  const merged = [...updates.keys()].map((entry) => names.get(entry) ?? []).filter((tied) => tied.length > 1);
  return merged.map((tied) => ({
    code: 'merged-tied',
    message: `${tied.join(' and ')} are one weight, so the adapter changes both, as PEFT does when it merges; the run trained it on one of them.`,
  }));
}

/** Names that are left of the tensors that were replaced under another one. */
function namesOf(kept: readonly Candidate[], replaced: ReadonlySet<TensorEntry>): string[] {
  return kept.flatMap(({ name, entry }) => (replaced.has(entry) ? [name] : []));
}

function untiedNotice(name: string, unties: boolean): Notice {
  const advice = unties
    ? 'tie_word_embeddings is false in config.json of the output, so that both are loaded.'
    : 'Set tie_word_embeddings to false in config.json, or it will be tied again when it is loaded.';
  return { code: 'merged-untied', message: `${name} was tied to a weight that the run trained apart. ${advice}` };
}

function modelConfig({ companions }: Inventory): Companion | undefined {
  return companions.find(({ name }) => name === 'config.json');
}

function configNotices(inventory: Inventory, lora: LoraOptions | undefined): Notice[] {
  return [...(lora ? [scaleNotice(lora)] : []), ...(modelConfig(inventory) ? [] : [configMissing()])];
}

function scaleNotice({ alpha, rslora }: LoraOptions): Notice {
  const rank = rslora ? 'the root of the rank' : 'the rank';
  const message = `There is no adapter_config.json beside the checkpoint: each layer was merged with the scale ${alpha} / ${rank}, as asked.`;
  return { code: 'merge-scale-given', message };
}

function configMissing(): Notice {
  const message =
    'There is no config.json beside the checkpoint: copy the one of the base model, so that from_pretrained opens the folder.';
  return { code: 'config-missing', message };
}

function configOf(inventory: Inventory, adapter: string, lora: LoraOptions | undefined): LoraConfig {
  const companion = adapterCompanion(inventory, adapter);
  if (companion && lora) throw givenTwice(inventory.sources[companion.source]?.path ?? companion.name);
  if (companion) return readLoraConfig(inventory, companion);
  if (lora) return givenLoraConfig(lora);
  const file = adapter === 'default' ? 'adapter_config.json' : `${adapter}/adapter_config.json`;
  throw new UnshardError({
    kind: 'missing-shard',
    code: 'adapter-config-missing',
    message: `${file} is not beside the checkpoint, so the scale of the adapter ${adapter} (lora_alpha) is not known.`,
    advice:
      'Copy it from the output folder of the run to the folder that holds the tag folder, or say lora_alpha yourself.',
    facts: { file, expected: 1, found: 0 },
  });
}

function givenTwice(file: string): UnshardError {
  return new UnshardError({
    kind: 'usage',
    code: 'lora-given-twice',
    message: `${file} says how the adapter is scaled, and so do the options.`,
    advice: 'Leave the options out.',
    facts: { file },
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
