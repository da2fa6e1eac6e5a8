/**
 * Stage 0: no partitions. The optimizer's state in the model file may hold fp32 masters, in the order of the parameter
 * groups and without names. They are taken only where their bits prove whose they are.
 *
 * @module
 */

import { bytesOf, type DType, isFloat } from '../../base/dtype.js';
import type { Piece } from '../../base/extent.js';
import { numelOf } from '../../base/shape.js';
import { TorchTensor } from '../../formats/torch/tensor.js';
import { readBytes } from '../../io/read.js';
import { convertBytes } from '../../numeric/convert.js';
import { addTensor, bitsOf, type Draft, locate } from './draft.js';
import { asList, asTensor, fieldOf, isPresent } from './fields.js';
import type { ModelStates } from './states.js';

/** Elements compared per block, and blocks spread over a tensor, to tell whose master it is. */
const PROBE_ELEMENTS = 64;
const PROBE_BLOCKS = 8;

/** Adds the parameters whose masters were found. Those without one are left for `addRest`. */
export async function addZero0(draft: Draft, model: ModelStates, signal?: AbortSignal): Promise<void> {
  const groups = masterGroups(model);
  if (groups.length === 0) return;
  await locate(draft, [{ shard: model.shard, tensors: groups.flat() }], signal);
  const buffers = new Set(model.bufferNames);
  const open = new Map([...model.module].filter(([name]) => !buffers.has(name) && !draft.aliases.has(name)));
  const found: [name: string, master: TorchTensor][] = [];
  for (const group of groups) {
    for (const flat of group) {
      const named = await nameMasters(draft, model, flat, open, signal);
      if (!named) {
        draft.warnings.push(unnamedMasters(model, groups.flat().length));
        return;
      }
      found.push(...named);
    }
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
function masterGroups(model: ModelStates): TorchTensor[][] {
  if (!model.optimizer) return [];
  const shaped = fieldOf(model.optimizer, 'fp32_groups');
  if (isPresent(shaped)) return asList(shaped).map((group) => asList(group).map(asTensor));
  const flat = fieldOf(model.optimizer, 'fp32_groups_flat');
  return isPresent(flat) ? asList(flat).map((group) => [asTensor(group)]) : [];
}

/**
 * Cuts one tensor of masters (shaped, or flat for a whole group) into parameters: the next open one in the order of the state dict that has
 * the right size and the same bits once rounded. Undefined where some masters stay without a name.
 */
async function nameMasters(
  draft: Draft,
  model: ModelStates,
  masters: TorchTensor,
  open: Map<string, TorchTensor>,
  signal: AbortSignal | undefined,
): Promise<[string, TorchTensor][] | undefined> {
  const found: [string, TorchTensor][] = [];
  let used = 0;
  for (const [name, copy] of [...open]) {
    if (used === masters.numel && masters.numel > 0) break;
    if (masters.shape.length !== 1 && String(masters.shape) !== String(copy.shape)) continue;
    if (used + copy.numel > masters.numel) continue;
    const part = new TorchTensor(
      masters.dtype,
      copy.shape,
      contiguousStride(copy.shape),
      masters.offset + used,
      masters.storage,
      masters.flip,
    );
    if (!(await bitsMatch(draft, model, part, copy, signal))) continue;
    found.push([name, part]);
    open.delete(name);
    used += copy.numel;
  }
  return used === masters.numel ? found : undefined;
}

/** Compares blocks of a master, rounded to the dtype of its copy, with the copy. */
async function bitsMatch(
  draft: Draft,
  model: ModelStates,
  master: TorchTensor,
  copy: TorchTensor,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  if (!isFloat(master.dtype) || !isFloat(copy.dtype) || copy.dtype === 'F64') return false;
  const numel = numelOf(copy.shape);
  if (numel === 0) return true;
  const [masterRun, ...moreMaster] = bitsOf(draft, master).pieces;
  const [copyRun, ...moreCopy] = bitsOf(draft, copy).pieces;
  // A view that is no single run of bytes is not compared: nothing is proven, and the copy is used.
  if (!masterRun || !copyRun || moreMaster.length + moreCopy.length > 0) return false;
  if ('repeat' in masterRun || 'repeat' in copyRun) return false;
  const { source } = model.shard.file;
  for (let block = 0; block < PROBE_BLOCKS; block++) {
    const start = Math.floor((block * Math.max(0, numel - PROBE_ELEMENTS)) / (PROBE_BLOCKS - 1));
    const count = Math.min(PROBE_ELEMENTS, numel - start);
    const read = (run: Piece, dtype: DType) =>
      readBytes(source, run.offset + start * bytesOf(dtype), count * bytesOf(dtype), signal);
    const rounded = convertBytes(await read(masterRun, master.dtype), master.dtype, copy.dtype);
    const expected = await read(copyRun, copy.dtype);
    if (rounded.some((byte, i) => byte !== expected[i])) return false;
  }
  return true;
}

function contiguousStride(shape: readonly number[]): number[] {
  return shape.map((_, i) => numelOf(shape.slice(i + 1)));
}

function unnamedMasters(model: ModelStates, count: number): { code: string; message: string } {
  return {
    code: 'zero0-masters-unnamed',
    message: `${model.shard.path} holds ${count} tensors of fp32 masters without names, and their bits do not tell whose they are. The weights of the model file are used instead.`,
  };
}
