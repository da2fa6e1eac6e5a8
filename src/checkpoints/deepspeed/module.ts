/**
 * What the model file holds beside the trainable parameters: buffers, frozen parameters, tied names.
 *
 * @module
 */

import type { TorchTensor } from '../../formats/torch/tensor.js';
import { addTensor, bitsOf, type Draft, locate } from './draft.js';
import { badAlias, badFragment, bufferAbsent } from './problems.js';
import type { ModelStates } from './states.js';

/** Locates what `addBuffers`, `addFrozen` and the 16-bit copies need of a model file. */
export async function locateModule(
  draft: Draft,
  model: ModelStates,
  stage: number,
  signal?: AbortSignal,
): Promise<void> {
  const buffers = new Set(model.bufferNames);
  const tensors = [...model.module].filter(([name]) => stage < 3 || buffers.has(name)).map(([, tensor]) => tensor);
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
  for (const model of models) {
    for (const [alias, owner] of model.shared) draft.aliases.set(alias, owner);
  }
  const first = models[0];
  if (!first || stage > 2) return;
  for (const names of sharingNames(first.module)) {
    const free = names.filter((name) => !draft.aliases.has(name));
    const owner = free.find((name) => owners.has(name)) ?? free[0];
    for (const name of free) {
      if (owner !== undefined && name !== owner && !owners.has(name)) draft.aliases.set(name, owner);
    }
  }
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
    const tensor = model.frozenFragments.get(name);
    if (tensor && String(tensor.shape) === String(shape) && tensor.dtype !== 'I8') {
      addTensor(draft, { name, shape, origin: 'frozen', stored: bitsOf(draft, tensor) }, model.shard.path);
      continue;
    }
    const found = tensor ? `[${tensor.shape.join(', ')}] of ${tensor.dtype}` : 'nothing';
    const expected = `a floating-point tensor of shape [${shape.join(', ')}]`;
    draft.problems.push(badFragment(model.shard.path, name, expected, found));
  }
}

/**
 * Adds every tensor of the state dict that nothing has claimed yet. At stage 1 these are the frozen parameters, which
 * DeepSpeed stores nowhere else.
 */
export function addRest(draft: Draft, model: ModelStates, origin: 'frozen' | 'module'): void {
  for (const [name, tensor] of model.module) {
    if (draft.tensors.has(name) || draft.aliases.has(name)) continue;
    addTensor(draft, { name, shape: tensor.shape, origin, stored: bitsOf(draft, tensor) }, model.shard.path);
  }
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
