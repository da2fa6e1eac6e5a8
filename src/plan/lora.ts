/**
 * Which adapter of a LoRA run is meant, and where its model starts in the names.
 *
 * @module
 */

import { UnshardError } from '../base/errors.js';
import type { Inventory } from '../checkpoints/inventory.js';
import { adapterNames, MODEL_PREFIX } from '../checkpoints/peft-names.js';
import { adapterCompanion, readLoraConfig } from './adapter-config.js';
import { type Candidate, candidatesOf } from './names.js';
import type { ResolvedOptions } from './plan.js';

/** The adapters of a checkpoint; empty where it is no LoRA run. */
export function adaptersOf(inventory: Inventory): string[] {
  return adapterNames(candidatesOf(inventory).map(({ name }) => name));
}

/**
 * The adapter that was asked for, else the only one.
 *
 * @throws UnshardError `adapter-absent` where the run is no LoRA run, `adapter-kind` where it says to be of another kind,
 * `adapter-unknown`, `adapter-ambiguous`.
 */
export function chooseAdapter(
  candidates: readonly Candidate[],
  inventory: Inventory,
  { adapterName, output }: ResolvedOptions,
): string {
  const adapters = adapterNames(candidates.map(({ name }) => name));
  const found = adapters.join(', ');
  const [only, ...more] = adapters;
  if (only === undefined) {
    const companion = adapterCompanion(inventory, 'default');
    if (companion) readLoraConfig(inventory, companion);
    throw usage('adapter-absent', `${inventory.folder} holds no LoRA adapter: no name has lora_A or lora_B in it.`, {
      advice: 'Write the whole model instead.',
      facts: { file: inventory.folder, expected: output, found: 0 },
    });
  }
  if (adapterName !== undefined && !adapters.includes(adapterName)) {
    throw usage('adapter-unknown', `There is no adapter ${adapterName}; there is ${found}.`, {
      advice: 'Name one of those.',
      facts: { expected: adapterName, found },
    });
  }
  if (adapterName === undefined && more.length > 0) {
    throw usage('adapter-ambiguous', `There are ${adapters.length} adapters: ${found}.`, {
      advice: 'Name the one that is meant (adapterName).',
      facts: { expected: 1, found },
    });
  }
  return adapterName ?? only;
}

/**
 * What stands before the names of the base model: `base_model.model.` and whatever wraps the PeftModel; empty where LoRA
 * was put into a model without one.
 *
 * @throws UnshardError `adapter-models` where the layers belong to several models.
 */
export function modelPrefix(layers: ReadonlySet<string>): string {
  const prefixes = new Set([...layers].map(prefixOf));
  const [prefix = '', other] = prefixes;
  if (other === undefined) return prefix;
  throw new UnshardError({
    kind: 'unsupported',
    code: 'adapter-models',
    message: `The adapters lie in ${prefixes.size} models: one below ${prefix || 'the root'}, one below ${other || 'the root'}.`,
    advice: 'Write all tensors under their own names instead.',
    facts: { expected: prefix, found: other },
  });
}

function prefixOf(layer: string): string {
  if (layer.startsWith(MODEL_PREFIX)) return MODEL_PREFIX;
  const at = layer.indexOf(`.${MODEL_PREFIX}`);
  return at < 0 ? '' : layer.slice(0, at + 1 + MODEL_PREFIX.length);
}

function usage(code: string, message: string, more: Pick<UnshardError['detail'], 'advice' | 'facts'>): UnshardError {
  return new UnshardError({ kind: 'usage', code, message, ...more });
}
