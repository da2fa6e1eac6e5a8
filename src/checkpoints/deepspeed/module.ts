/**
 * What the model file holds beside the trainable parameters: buffers, frozen parameters, tied names.
 *
 * @module
 */

import { counted } from '../../base/words.js';
import type { TorchTensor } from '../../formats/torch/tensor.js';
import type { Proof } from '../inventory.js';
import { addFaulty, addTensor, bitsOf, type Draft, locate } from './draft.js';
import { badAlias, badFragment, bufferAbsent } from './problems.js';
import type { ModelStates } from './states.js';

/** Locates what `addBuffers`, `addFrozenFragments`, `addRest` and the 16-bit copies need of a model file. */
export async function locateModule(
  draft: Draft,
  model: ModelStates,
  stage: number,
  owners: ReadonlySet<string>,
  signal?: AbortSignal,
): Promise<void> {
  const tensors = [...model.module].filter(([name]) => stage < 3 || !owners.has(name)).map(([, tensor]) => tensor);
  const frozen = stage < 3 ? model.frozenFragments.values() : [];
  await locate(draft, [{ shard: model.shard, tensors: [...tensors, ...frozen] }], signal);
}

/**
 * Records tied parameters: those that the files list, and at stage 0 to 2 those that share their storage.
 * `owners` are names that must stay: what the optimizer or the frozen list holds.
 */
export function addAliases(
  draft: Draft,
  models: readonly ModelStates[],
  stage: number,
  owners: ReadonlySet<string>,
): void {
  const first = models[0];
  if (!first) return;
  const shared = new Map(models.flatMap((model) => [...model.shared]));
  for (const [alias, owner] of shared) {
    // A frozen owner may have been left out when the checkpoint was saved. Its other name then stands for itself.
    const isThere = owners.has(owner) || first.module.has(owner);
    if (!isThere && first.recordsFrozen) {
      draft.problems.push(badAlias(first.shard.path, alias, owner, 'which is not in the checkpoint'));
    } else if (isThere && (stage === 3 || mayBeTied(first, alias, owner))) draft.aliases.set(alias, owner);
    else if (!first.module.has(alias) && !owners.has(alias)) {
      draft.skipped.push({ name: alias, reason: `one name of ${owner}, but not both are in the checkpoint` });
    }
  }
  if (stage > 2) return;
  for (const names of sharingNames(first.module)) {
    const free = names.filter((name) => !draft.aliases.has(name));
    const owner = free.find((name) => owners.has(name)) ?? free[0];
    for (const name of free) {
      if (owner !== undefined && name !== owner && !owners.has(name)) draft.aliases.set(name, owner);
    }
  }
}

/**
 * At stage 1 and 2 DeepSpeed takes parameters that start at one address for tied. That is so for a part of another one,
 * and for all that have no elements, whose address is 0.
 */
function mayBeTied({ module }: ModelStates, alias: string, owner: string): boolean {
  const [tensor, other] = [module.get(alias), module.get(owner)];
  return tensor !== undefined && tensor.numel > 0 && (!other || String(tensor.shape) === String(other.shape));
}

/** Lists of names that are one and the same view of one storage. */
function sharingNames(module: ReadonlyMap<string, TorchTensor>): string[][] {
  const groups = new Map<unknown, Map<string, string[]>>();
  for (const [name, tensor] of module) {
    if (tensor.numel === 0) continue;
    const views = groups.get(tensor.storage) ?? new Map<string, string[]>();
    groups.set(tensor.storage, views);
    const view = `${tensor.dtype} ${tensor.offset} [${tensor.shape.join()}] [${tensor.stride.join()}] ${tensor.flip ?? ''}`;
    views.set(view, [...(views.get(view) ?? []), name]);
  }
  return [...groups.values()].flatMap((views) => [...views.values()]).filter((names) => names.length > 1);
}

/** Adds the persistent buffers. They are whole in every model file. */
export function addBuffers(draft: Draft, model: ModelStates): void {
  for (const name of model.bufferNames) {
    const tensor = model.module.get(name);
    if (!tensor) draft.problems.push(bufferAbsent(model.shard.path, name));
    else if (!draft.aliases.has(name)) {
      addTensor(
        draft,
        { name, shape: tensor.shape, origin: 'buffer', stored: bitsOf(draft, tensor) },
        model.shard.path,
      );
    }
  }
}

/** Adds the frozen parameters of stage 2: each fragment is the full tensor. */
export function addFrozenFragments(draft: Draft, model: ModelStates): void {
  for (const [name, shape] of model.frozenShapes) {
    if (draft.aliases.has(name)) continue;
    const tensor = model.frozenFragments.get(name);
    if (tensor && String(tensor.shape) === String(shape)) {
      const proofs = frozenCopy(draft, model, name, tensor);
      addTensor(draft, { name, shape, origin: 'frozen', stored: bitsOf(draft, tensor), ...proofs }, model.shard.path);
      continue;
    }
    const found = tensor ? `[${tensor.shape.join(', ')}]` : 'nothing';
    const fault = badFragment(model.shard.path, name, `shape [${shape.join(', ')}]`, found);
    addFaulty(draft, { name, shape, origin: 'frozen', dtype: tensor?.dtype ?? 'BF16' }, fault, model.shard.path);
  }
}

/** The state dict has frozen parameters too, mostly in the same storage. Where it has other bytes, they must be equal. */
function frozenCopy(
  draft: Draft,
  model: ModelStates,
  name: string,
  tensor: TorchTensor,
): { proofs?: readonly Proof[] } {
  const copy = model.module.get(name);
  const isOther = copy !== undefined && copy.storage !== tensor.storage && copy.numel === tensor.numel;
  return isOther ? { proofs: [{ check: 'frozen-copy', ...bitsOf(draft, copy) }] } : {};
}

/**
 * Adds every tensor of the state dict that nothing has claimed yet. At stage 1 these are the frozen parameters, which
 * DeepSpeed stores nowhere else, or where there are no optimizer files, the copies of `trained` parameters; at stage 3 what is neither parameter nor buffer, such as the scales of a quantized layer. The
 * values of names in `elsewhere` are in other files.
 */
export function addRest(
  draft: Draft,
  model: ModelStates,
  origin: 'frozen' | 'module',
  stage: number,
  trained: ReadonlySet<string>,
  elsewhere: ReadonlySet<string>,
): void {
  const hollow: string[] = [];
  for (const [name, tensor] of model.module) {
    if (draft.tensors.has(name) || draft.aliases.has(name)) continue;
    if (stage === 3 && elsewhere.has(name)) continue;
    if (stage === 3 && tensor.numel <= model.placeholderSize) hollow.push(name);
    else {
      const isCopy = stage > 0 && stage < 3 && trained.has(name);
      const stored = bitsOf(draft, tensor);
      addTensor(draft, { name, shape: tensor.shape, origin: isCopy ? 'copy' : origin, stored }, model.shard.path);
    }
  }
  const [first] = hollow;
  if (first === undefined) return;
  for (const name of hollow) draft.skipped.push({ name, reason: 'its values are in no file of the checkpoint' });
  const why = model.recordsShared
    ? 'They are other names of parameters that were left out, or their shards were not saved.'
    : 'They may be tied to others, or frozen: DeepSpeed before 0.9.2 does not record which. A head that is tied to the embedding need not be in the output: from_pretrained ties it again, as config.json says.';
  const message = `${model.shard.path} names ${counted(hollow.length, 'parameter')} without values in any file (${first}${hollow.length > 1 ? ', …' : ''}). ${why}`;
  draft.warnings.push({ code: 'hollow-parameters', message });
}

/** Checks that every alias names a tensor that is there and is no alias itself. */
export function checkAliases(draft: Draft, file: string): void {
  for (const [alias, owner] of draft.aliases) {
    if (draft.aliases.has(owner))
      draft.problems.push(badAlias(file, alias, owner, 'which is tied to another one itself'));
    else if (!draft.tensors.has(owner))
      draft.problems.push(badAlias(file, alias, owner, 'which is not in the checkpoint'));
    else if (draft.tensors.has(alias))
      draft.problems.push(badAlias(file, alias, owner, 'but has weights of its own as well'));
  }
}
