/**
 * Stage 0: no partitions. The optimizer's state in the model file may hold fp32 masters, in the order of the parameter
 * groups and without names. They are taken only where their bits prove whose they are.
 *
 * @module
 */

import { numelOf } from '../../base/shape.js';
import { counted } from '../../base/words.js';
import { TorchTensor } from '../../formats/torch/tensor.js';
import { addTensor, bitsOf, type Draft, locate } from './draft.js';
import { asList, asTensor, type Field, fieldOf, isPresent } from './fields.js';
import { bitsMatch } from './probe.js';
import type { ModelStates, Shard } from './states.js';

/** The state of an optimizer that was not partitioned, and the file that holds it. */
export interface WholeOptimizer {
  readonly shard: Shard;
  readonly state: Field;
}

/** A master that was given a name. */
type NamedMaster = readonly [name: string, master: TorchTensor];

/**
 * Adds the parameters whose masters were found: those of the state dict that `optimizer` may hold. Those without one are
 * left for `addRest`.
 */
export async function addZero0(
  draft: Draft,
  model: ModelStates,
  optimizer: WholeOptimizer,
  signal?: AbortSignal,
): Promise<void> {
  const groups = masterGroups(optimizer.state);
  if (groups.length === 0) return;
  await locate(draft, [{ shard: optimizer.shard, tensors: groups.flat() }], signal);
  // Names are looked for from either end. Copies that are alike may hide that masters were swapped: then the two differ.
  const found = await nameMasters(draft, model, groups, 'first', signal);
  const again = found && (await nameMasters(draft, model, groups, 'last', signal));
  if (!found || !again || !sameNames(found, again)) {
    draft.warnings.push(unnamedMasters(optimizer.shard.path, groups.flat().length));
    return;
  }
  for (const [name, master] of found) {
    const copy = model.module.get(name);
    addTensor(
      draft,
      {
        name,
        shape: master.shape,
        origin: 'master',
        stored: bitsOf(draft, master),
        ...(copy ? { copy: bitsOf(draft, copy) } : {}),
      },
      model.shard.path,
    );
  }
}

/** `fp32_groups` (a list of shaped tensors per group) or `fp32_groups_flat` (one flat tensor per group). */
function masterGroups(state: Field): TorchTensor[][] {
  if (!(state.value instanceof Map)) return [];
  const shaped = fieldOf(state, 'fp32_groups');
  if (isPresent(shaped)) return asList(shaped).map((group) => asList(group).map(asTensor));
  const flat = fieldOf(state, 'fp32_groups_flat');
  return isPresent(flat) ? asList(flat).map((group) => [asTensor(group)]) : [];
}

/** Names all masters, starting with the first or the last parameter. Undefined where some stay without a name. */
async function nameMasters(
  draft: Draft,
  model: ModelStates,
  groups: readonly (readonly TorchTensor[])[],
  start: 'first' | 'last',
  signal: AbortSignal | undefined,
): Promise<NamedMaster[] | undefined> {
  const inOrder = <T>(items: readonly T[]) => (start === 'first' ? items : items.toReversed());
  const buffers = new Set(model.bufferNames);
  const open = new Map(
    inOrder([...model.module]).filter(
      ([name, copy]) => copy.numel > 0 && !buffers.has(name) && !draft.aliases.has(name),
    ),
  );
  const found: NamedMaster[] = [];
  for (const masters of groups.flatMap(inOrder)) {
    const named = await cutMasters(draft, masters, open, start, signal);
    if (!named) return undefined;
    found.push(...named);
  }
  return found;
}

function sameNames(found: readonly NamedMaster[], again: readonly NamedMaster[]): boolean {
  const masters = new Map(again);
  return found.every(([name, { storage, offset }]) => {
    const other = masters.get(name);
    return other !== undefined && other.storage === storage && other.offset === offset;
  });
}

/**
 * Cuts one tensor of masters (shaped, or flat for a whole group) into parameters, from its start or its end: the next open
 * one that has the right size and the same bits once rounded. Undefined where some masters stay without a name.
 */
async function cutMasters(
  draft: Draft,
  masters: TorchTensor,
  open: Map<string, TorchTensor>,
  start: 'first' | 'last',
  signal: AbortSignal | undefined,
): Promise<NamedMaster[] | undefined> {
  if (masters.numel === 0) return [];
  if (String(masters.stride) !== String(contiguousStride(masters.shape))) return undefined;
  const found: NamedMaster[] = [];
  let used = 0;
  for (const [name, copy] of [...open]) {
    if (used === masters.numel) break;
    if (masters.shape.length !== 1 && String(masters.shape) !== String(copy.shape)) continue;
    if (used + copy.numel > masters.numel) continue;
    const part = new TorchTensor(
      masters.dtype,
      copy.shape,
      contiguousStride(copy.shape),
      masters.offset + (start === 'first' ? used : masters.numel - used - copy.numel),
      masters.storage,
      masters.flip,
    );
    if (!(await bitsMatch(draft, bitsOf(draft, part), bitsOf(draft, copy), copy.numel, signal))) continue;
    found.push([name, part]);
    open.delete(name);
    used += copy.numel;
  }
  return used === masters.numel ? found : undefined;
}

function contiguousStride(shape: readonly number[]): number[] {
  return shape.map((_, i) => numelOf(shape.slice(i + 1)));
}

function unnamedMasters(file: string, count: number): { code: string; message: string } {
  return {
    code: 'zero0-masters-unnamed',
    message: `${file} holds ${counted(count, 'tensor')} of fp32 masters without names, and their bits do not tell whose they are. The weights of the model file are used instead.`,
  };
}
