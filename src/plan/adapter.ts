/**
 * The tensors of a LoRA adapter, named as `save_pretrained` of peft 0.21 names them, so that `PeftModel.from_pretrained`
 * loads them.
 *
 * @module
 */

import type { Inventory, Notice } from '../checkpoints/inventory.js';
import { BASE_LAYER, loraLayers, loraName, MODEL_PREFIX, originalName, savedName } from '../checkpoints/peft-names.js';
import { adapterCompanion, type LoraConfig, readLoraConfig } from './adapter-config.js';
import { chooseAdapter, modelPrefix } from './lora.js';
import type { Candidate, Step } from './names.js';
import type { ResolvedOptions } from './plan.js';

/** Layers whose own weights PEFT saves with the adapter where the adapter is on them. */
const EMBEDDINGS: ReadonlySet<string> = new Set(['embed_tokens', 'lm_head']);

/** The trained rows of an embedding. */
const TOKENS = '.token_adapter.trainable_tokens_delta.';

/**
 * Keeps the adapter's tensors and names them as PEFT does.
 *
 * @throws UnshardError as `chooseAdapter`, `modelPrefix` and `readLoraConfig` do.
 */
export function takeAdapter(candidates: readonly Candidate[], inventory: Inventory, options: ResolvedOptions): Step {
  const adapter = chooseAdapter(candidates, inventory, options);
  const companion = adapterCompanion(inventory, adapter);
  const bias = companion ? readLoraConfig(inventory, companion).bias : 'none';
  const layers = loraLayers(candidates.map(({ name }) => name));
  const prefix = modelPrefix(layers);
  const keyOf = keysOf(adapter, layers, bias);
  const kept: Candidate[] = [];
  const skipped: Step['skipped'][number][] = [];
  for (const candidate of candidates) {
    const key = candidate.name.startsWith(prefix) ? keyOf(candidate) : undefined;
    if (key !== undefined) kept.push({ ...candidate, name: MODEL_PREFIX + key.slice(prefix.length) });
    else skipped.push({ name: candidate.source, reason: 'not part of the adapter' });
  }
  const warnings = [...prefixNotices(prefix), ...(companion ? [] : [configMissing(adapter)])];
  return { kept, skipped, warnings };
}

/** The function from a tensor to its key in the adapter's file; undefined for one that does not belong into it. */
function keysOf(
  adapter: string,
  layers: ReadonlySet<string>,
  bias: LoraConfig['bias'],
): (candidate: Candidate) => string | undefined {
  return ({ name, source, entry }) => {
    const saved = savedName(name);
    if (saved) return saved.adapter === adapter ? withoutAdapter(`${saved.module}.${saved.rest}`, adapter) : undefined;
    if (originalName(name)) return undefined;
    const part = loraName(name, layers);
    if (part) {
      if (part.adapter !== adapter) return undefined;
      // PEFT keeps the key that DoRA had when its magnitude was a parameter, not a module.
      const isMagnitude = part.attribute === 'lora_magnitude_vector' && part.rest === 'weight';
      return withoutAdapter(isMagnitude ? name.slice(0, -'.weight'.length) : name, adapter);
    }
    // A tied layer follows the one that it is tied to, which alone is saved.
    if (name.endsWith(TOKENS + adapter) && source === entry.name) return withoutAdapter(name, adapter);
    return isSavedBias(name, layers, bias) || isEmbedding(name, layers) ? withoutAdapter(name, adapter) : undefined;
  };
}

/** Takes an adapter's name out of a key: the last component, or the one before it. */
function withoutAdapter(key: string, adapter: string): string {
  if (key.endsWith(`.${adapter}`)) return key.slice(0, -adapter.length - 1);
  const dot = key.lastIndexOf('.');
  const before = key.slice(0, Math.max(dot, 0));
  return before.endsWith(`.${adapter}`) ? before.slice(0, -adapter.length - 1) + key.slice(dot) : key;
}

/**
 * True for a bias that is saved as `bias` of the configuration asks. With `all`, PEFT saves those of whole modules a second
 * time, under keys that it does not look for when it loads; these are not written.
 */
function isSavedBias(name: string, layers: ReadonlySet<string>, bias: LoraConfig['bias']): boolean {
  if (bias === 'none' || (name !== 'bias' && !name.endsWith('.bias'))) return false;
  const module = name.slice(0, -'.bias'.length);
  return bias === 'all' || layers.has(module.endsWith(`.${BASE_LAYER}`) ? parentOf(module) : module);
}

function isEmbedding(name: string, layers: ReadonlySet<string>): boolean {
  const at = name.indexOf(`.${BASE_LAYER}.`);
  const layer = name.slice(0, Math.max(at, 0));
  return layers.has(layer) && EMBEDDINGS.has(layer.slice(layer.lastIndexOf('.') + 1));
}

function parentOf(module: string): string {
  return module.slice(0, module.lastIndexOf('.'));
}

function prefixNotices(prefix: string): Notice[] {
  if (prefix === MODEL_PREFIX) return [];
  const message =
    prefix === ''
      ? `${MODEL_PREFIX} was put before the names of the adapter, since PEFT expects it there.`
      : `${prefix.slice(0, -MODEL_PREFIX.length)} was taken off the names of the adapter, since PEFT expects ${MODEL_PREFIX} at their start.`;
  return [{ code: 'adapter-prefix', message }];
}

function configMissing(adapter: string): Notice {
  const message = `There is no adapter_config.json of ${adapter} beside the checkpoint, and PEFT needs it to load the adapter: copy it from the output folder of the run.`;
  return { code: 'adapter-config-missing', message };
}
