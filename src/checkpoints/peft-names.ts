/**
 * The names that PEFT gives the parameters of a LoRA run: layers that are wrapped in an adapter, and modules that are
 * trained whole beside it. Checked against peft 0.21.
 *
 *     base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight
 *     base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight
 *     base_model.model.lm_head.modules_to_save.default.weight
 *     base_model.model.lm_head.original_module.weight
 *
 * @module
 */

/** What a PeftModel puts before every name of its base model. */
export const MODEL_PREFIX = 'base_model.model.';

/** The attribute of a wrapped layer that holds the layer itself. */
export const BASE_LAYER = 'base_layer';

/** Attributes that hold a module per adapter, so that `weight` or `bias` follows the adapter's name. */
const MODULES: ReadonlySet<string> = new Set(['lora_A', 'lora_B']);

/** Attributes that hold a parameter per adapter. */
const PARAMETERS: ReadonlySet<string> = new Set(['lora_embedding_A', 'lora_embedding_B']);

/** Names are cut at most this often from their end: an attribute, an adapter, and what is below it. */
const MAX_CUTS = 5;

/** A parameter of an adapter on a layer. */
export interface LoraName {
  /** The wrapped layer. */
  readonly layer: string;
  /** Such as `lora_A`. */
  readonly attribute: string;
  readonly adapter: string;
  /** What follows the adapter's name, such as `weight`; empty for a parameter. */
  readonly rest: string;
}

/** A parameter below a module that an adapter holds a copy of. */
export interface SavedName {
  /** The module that is wrapped. */
  readonly module: string;
  readonly adapter: string;
  /** Name below the module, such as `weight`. */
  readonly rest: string;
}

/** The layers that LoRA wraps. */
export function loraLayers(names: Iterable<string>): Set<string> {
  const layers = new Set<string>();
  for (const name of names) {
    const parts = name.split('.');
    if (MODULES.has(parts.at(-3) ?? '')) layers.add(parts.slice(0, -3).join('.'));
    else if (PARAMETERS.has(parts.at(-2) ?? '')) layers.add(parts.slice(0, -2).join('.'));
  }
  return layers;
}

/** Takes a name apart; undefined for one that is no adapter's parameter on any of `layers`. */
export function loraName(name: string, layers: ReadonlySet<string>): LoraName | undefined {
  let end = name.length;
  for (let cuts = 0; cuts < MAX_CUTS && end > 0; cuts++) {
    end = name.lastIndexOf('.', end - 1);
    const layer = name.slice(0, Math.max(end, 0));
    if (!layers.has(layer)) continue;
    const [attribute = '', adapter = '', ...rest] = name.slice(end < 0 ? 0 : end + 1).split('.');
    // Everything on a wrapped layer but the layer itself is PEFT's. Before 0.6 a layer was not wrapped but replaced, and
    // its own parameters lay beside those of the adapters.
    if (attribute !== BASE_LAYER && adapter !== '') return { layer, attribute, adapter, rest: rest.join('.') };
  }
  return undefined;
}

/** Takes the name of a parameter apart that an adapter holds a copy of. */
export function savedName(name: string): SavedName | undefined {
  const [module, below] = cut(name, 'modules_to_save');
  if (below === undefined) return undefined;
  const dot = below.indexOf('.');
  return dot < 0 ? undefined : { module, adapter: below.slice(0, dot), rest: below.slice(dot + 1) };
}

/** Takes the name of a parameter apart whose module has copies: the one that is there without adapters. */
export function originalName(name: string): Omit<SavedName, 'adapter'> | undefined {
  const [module, rest] = cut(name, 'original_module');
  return rest === undefined ? undefined : { module, rest };
}

/** The adapters whose parameters are among the names, in natural order. Empty for a run without LoRA. */
export function adapterNames(names: readonly string[]): string[] {
  const layers = loraLayers(names);
  const found = new Set<string>();
  for (const name of names) {
    const part = loraName(name, layers);
    if (part && (MODULES.has(part.attribute) || PARAMETERS.has(part.attribute))) found.add(part.adapter);
  }
  return [...found].sort();
}

/** A name before and after the component `attribute`. */
function cut(name: string, attribute: string): [before: string, after?: string] {
  const at = name.indexOf(`.${attribute}.`);
  return at < 0 ? [name] : [name.slice(0, at), name.slice(at + attribute.length + 2)];
}

/** True for a key of a file that PEFT saves an adapter to: the adapter's name is taken out of it. */
export function isSavedKey(key: string): boolean {
  return key.startsWith(MODEL_PREFIX) && /\.(?:lora_A\.weight|lora_embedding_A)$/.test(key);
}
