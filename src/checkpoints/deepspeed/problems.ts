/**
 * What can be wrong with a set of DeepSpeed files, as errors with their numbers. One function per defect.
 *
 * @module
 */

import type { ErrorDetail } from '../../base/errors.js';
import { counted } from '../../base/words.js';
import type { TorchTensor } from '../../formats/torch/tensor.js';
import type { Notice, Problem } from '../inventory.js';
import type { ModelStates, OptimStates, Shard } from './states.js';

/** One rank's part of a flat group of master weights. */
export interface Slice {
  readonly optim: OptimStates;
  readonly tensor: TorchTensor;
}

const OTHER_RUN =
  'The files do not belong together: a shard may come from another run or another step. Check the folder.';

/** Ranks of a set that are not there. */
export function missingRanks(
  folder: string,
  kind: 'optim' | 'model',
  missing: readonly number[],
  expected: number,
  found: number,
): ErrorDetail {
  const list = missing.length > 20 ? `${missing.slice(0, 20).join(', ')}, …` : missing.join(', ');
  return {
    kind: 'missing-shard',
    code: `missing-${kind}-rank`,
    message: `${folder} should hold ${expected} *_${kind}_states.pt files, one per rank; ${found} are there. Missing: rank ${list}.`,
    advice:
      'Copy the missing files here. They may lie on another node, where those ranks ran. Where they are lost, ask for a partial recovery.',
    facts: { file: folder, expected, found, missing: list },
  };
}

/** Model files of ZeRO-3 that are not there, and hold shares of the frozen parameters. */
export function missingFrozenShares(
  folder: string,
  missing: readonly number[],
  expected: number,
  found: number,
): Problem {
  return {
    ...missingRanks(folder, 'model', missing, expected, found),
    advice:
      'Copy the missing files here. They hold shares of the frozen parameters: leave those out to go on without them.',
    concerns: 'frozen',
  };
}

/** Files of ranks beyond the world size: left over from a larger run. */
export function staleRanks(folder: string, names: readonly string[], expected: number, found: number): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'stale-ranks',
    message: `${folder} should hold the shards of ${counted(expected, 'rank')}; files of ${found} are there. Not of this run: ${names.slice(0, 5).join(', ')}.`,
    advice: 'Move the files of the other run away.',
    facts: { file: folder, expected, found },
  };
}

/** A warning of files that may be of another run: nothing of this one needs them. */
export function filesUnused(folder: string, files: readonly Shard[], what: string, why: string): Notice {
  const message = `${folder} holds files of ${what} (${files.length}: ${files[0]?.name.name}, …), though ${why}. They are not used.`;
  return { code: 'files-unused', message };
}

/** Two files are of one rank. */
export function rankTwice(folder: string, name: string, other: string): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'rank-twice',
    message: `${folder} holds two files of one rank: ${name} and ${other}.`,
    advice: 'Move the file of the other run away.',
    facts: { file: folder, expected: name, found: other },
  };
}

/** Optimizer files of several runs are there, each set whole. */
export function severalSets(folder: string, sets: readonly (readonly OptimStates[])[]): ErrorDetail {
  const names = sets.map((set) => set[0]?.shard.name.name ?? '').join(', ');
  return {
    kind: 'inconsistent',
    code: 'several-optim-sets',
    message: `${folder} holds whole sets of optimizer files of ${sets.length} runs, which begin with ${names}.`,
    advice: 'Move the files of the other run away.',
    facts: { file: folder, expected: 1, found: sets.length },
  };
}

/** The state dict and the list of parameters give one parameter different shapes. */
export function shapeDiffers(
  file: string,
  name: string,
  expected: readonly number[],
  found: readonly number[],
): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'shape-differs',
    message: `${file}: ${name} has shape [${expected.join(', ')}] in param_shapes and [${found.join(', ')}] in the state dict.`,
    advice: 'The file is damaged or was edited. Take it from the original checkpoint.',
    facts: { file, tensor: name, expected: expected.join(), found: found.join() },
  };
}

/** Two files of one set say different things. */
export function disagree(
  what: string,
  file: string,
  expected: string | number,
  other: string,
  found: string | number,
): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: `${what.replaceAll(/[^a-z]+/g, '-')}-differs`,
    message: `${other} says ${what} ${found}; ${file} says ${expected}.`,
    advice: OTHER_RUN,
    facts: { file: other, other: file, expected, found },
  };
}

/** A file was saved under the name of another one. */
export function renamedShard(file: string, saved: string): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'root-name-differs',
    message: `${file} was saved as ${saved}: it was renamed, or copied over the file of another rank.`,
    advice: 'Take every file from the original checkpoint, under the name that it has there.',
    facts: { file, expected: file.slice(file.lastIndexOf('/') + 1), found: saved },
  };
}

/** Two ranks have files of one content. */
export function duplicateShard(file: string, other: string): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'duplicate-shard',
    message: `${file} has the same content as ${other}, though they are of different ranks.`,
    advice: 'One of them was copied over the other. Take both from the original checkpoint.',
    facts: { file, other },
  };
}

/** The configurations of two files differ under a key. Values are not shown. */
export function configDiffers(file: string, other: string, key: string): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'ds-config-differs',
    message: `${other} was saved with another ds_config than ${file}: they differ in ${key}.`,
    advice: OTHER_RUN,
    facts: { file: other, other: file, key },
  };
}

/** A rank records a part of a parameter at another place than param_shapes puts it. */
export function sliceMapping(
  file: string,
  group: number,
  { name, expected, found }: { readonly name: string; readonly expected: string; readonly found: string },
): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'slice-mapping',
    message: `${file} records ${found} of its slice of group ${group} as ${name}; by param_shapes that is ${expected}.`,
    advice: 'The shards may be of another run, or of ranks in another order; or param_shapes was edited.',
    facts: { file, tensor: name, group, expected, found },
  };
}

/** A name of the checkpoint is in none of the lists of what is written and what is not. */
export function nameLost(file: string, name: string): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'name-lost',
    message: `${file} names ${name}, of which no file holds any values.`,
    advice: OTHER_RUN,
    facts: { file, tensor: name },
  };
}

/** An optimizer file has another number of groups than the model file. */
export function groupCount(model: ModelStates, optim: OptimStates, expected: number): ErrorDetail {
  const found = optim.flatGroups.length;
  return {
    kind: 'inconsistent',
    code: 'group-count',
    message: `${optim.shard.path} has ${found} flat groups of master weights; ${model.shard.path} lists parameters for ${expected}.`,
    advice: OTHER_RUN,
    facts: { file: optim.shard.path, other: model.shard.path, expected, found },
  };
}

/** The slices of one group have different dtypes. */
export function mixedDtypes(group: number, first: Slice, odd: Slice): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'master-dtype-differs',
    message: `${odd.optim.shard.path} stores group ${group} as ${odd.tensor.dtype}; ${first.optim.shard.path} as ${first.tensor.dtype}.`,
    advice: OTHER_RUN,
    facts: { file: odd.optim.shard.path, group, expected: first.tensor.dtype, found: odd.tensor.dtype },
  };
}

/** A slice that is no one-dimensional contiguous tensor. */
export function sliceNotFlat(group: number, { optim, tensor }: Slice): ErrorDetail {
  return {
    kind: 'bad-file',
    code: 'slice-not-flat',
    message: `${optim.shard.path}: the master weights of group ${group} must be one flat tensor; they have shape [${tensor.shape.join(', ')}] and stride [${tensor.stride.join(', ')}].`,
    advice: 'The file was not written by DeepSpeed, or by a version that Unshard does not know.',
    facts: { file: optim.shard.path, group },
  };
}

/** A slice that is longer or shorter than its place allows. */
export function unevenSlices(group: number, first: Slice, odd: Slice): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'slice-length',
    message: `${odd.optim.shard.path} holds ${odd.tensor.numel} elements of group ${group}; every rank before the last holds ${first.tensor.numel}.`,
    advice: OTHER_RUN,
    facts: { file: odd.optim.shard.path, group, expected: first.tensor.numel, found: odd.tensor.numel },
  };
}

/** A rank says that it stripped other padding than its slice lacks. */
export function groupPadding(group: number, { optim, tensor }: Slice, expected: number, found: number): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'group-padding',
    message: `${optim.shard.path} holds ${tensor.numel} elements of group ${group}, which lacks ${expected} of padding by the slices of other ranks; group_paddings says ${found}.`,
    advice: OTHER_RUN,
    facts: { file: optim.shard.path, group, expected, found },
  };
}

/** The slices of a group hold more or fewer elements than its parameters need. */
export function elementCount(
  group: number,
  needed: number,
  found: number,
  padding: number,
  slices: readonly Slice[],
): ErrorDetail {
  const file = slices[0]?.optim.shard.path ?? '';
  const expected = needed + padding;
  return {
    kind: 'inconsistent',
    code: 'element-count',
    message: `${file} and its ${slices.length - 1} siblings hold ${found} elements of group ${group}; its parameters need ${needed}${padding ? ` and ${padding} of padding` : ''}.`,
    advice: OTHER_RUN,
    facts: { file, group, expected, found },
  };
}

/** A rank's flat group at stage 3 is not the sum of its shares. */
export function shareCount(optim: OptimStates, group: number, expected: number, found: number): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'share-count',
    message: `${optim.shard.path} holds ${found} elements of sub-group ${group}; its shares of the parameters add up to ${expected}.`,
    advice: OTHER_RUN,
    facts: { file: optim.shard.path, group, expected, found },
  };
}

/** A frozen parameter's fragment has not the length or dtype that its shape asks for. */
export function badFragment(file: string, name: string, expected: string, found: string): Problem {
  return {
    kind: 'inconsistent',
    code: 'frozen-fragment',
    message: `${file}: the frozen parameter ${name} should have ${expected} here; it has ${found}.`,
    advice:
      'With zero_quantized_nontrainable_weights the scale is not saved and the values cannot be had. Leave the frozen parameters out to get the trained ones.',
    facts: { file, tensor: name, expected, found },
    concerns: 'frozen',
  };
}

/** A buffer that the model file lists and does not hold. */
export function bufferAbsent(file: string, name: string): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'buffer-absent',
    message: `${file} lists the persistent buffer ${name}, but its state dict does not hold it.`,
    advice: 'The file is damaged or was edited. Take it from the original checkpoint.',
    facts: { file, tensor: name },
  };
}

/** A tied parameter whose owner is not there, or is tied itself. */
export function badAlias(file: string, alias: string, owner: string, why: string): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'tied-owner',
    message: `${file}: ${alias} is tied to ${owner}, ${why}.`,
    advice: 'The model files may belong to different runs. Check the folder.',
    facts: { file, tensor: alias, expected: owner },
  };
}
