/**
 * What can be wrong with a model that is cut by tensor, pipeline or expert parallelism, as errors with their numbers. One
 * function per defect.
 *
 * @module
 */

import { type ErrorDetail, UnshardError } from '../../base/errors.js';
import { counted } from '../../base/words.js';

/** Items of a list that a message shows. */
const SHOWN = 12;

const OTHER_RUN = 'The files do not belong together: one may come from another run or another step. Check the folder.';
const COPY = 'Copy the missing files here. They may lie on another node, where those ranks ran.';

function listed(items: readonly (string | number)[]): string {
  return items.length > SHOWN ? `${items.slice(0, SHOWN).join(', ')}, …` : items.join(', ');
}

/** Model-parallel ranks of which no file is there. */
export function missingMpRanks(
  folder: string,
  missing: readonly number[],
  expected: number,
  found: number,
  what = 'files',
): ErrorDetail {
  return {
    kind: 'missing-shard',
    code: 'missing-mp-rank',
    message: `${folder} should hold the ${what} of ${expected} model-parallel ranks; those of ${found} are there. Missing: mp_rank ${listed(missing)}.`,
    advice: `${COPY} The shards of one tensor-parallel rank can be had alone (--tp-rank).`,
    facts: { file: folder, expected, found, missing: listed(missing) },
  };
}

/** Model-parallel ranks beyond those of the run. */
export function staleMpRanks(folder: string, stale: readonly number[], expected: number): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'stale-mp-ranks',
    message: `${folder} should hold the files of ${expected} model-parallel ranks; there are some of mp_rank ${listed(stale)} as well.`,
    advice: 'Move the files of the other run away.',
    facts: { file: folder, expected, found: listed(stale) },
  };
}

/** The number of model-parallel ranks is not stages times tensor-parallel ranks. */
export function oddGrid(folder: string, ranks: number, tensor: number): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'parallel-grid',
    message: `${folder} holds ${ranks} model-parallel ranks, which ${tensor} tensor-parallel ranks cannot share evenly.`,
    advice: OTHER_RUN,
    facts: { file: folder, expected: tensor, found: ranks },
  };
}

/** A tensor-parallel rank has not got a name that others have. */
export function namesDiffer(file: string, name: string, expected: number, found: number): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'tp-name-missing',
    message: `${file} has no ${name}; ${found} of ${expected} tensor-parallel ranks have it.`,
    advice: OTHER_RUN,
    facts: { file, tensor: name, expected, found },
  };
}

/** The shards of a tensor are of different kinds. */
export function shardsDiffer(file: string, other: string, name: string, expected: string, found: string): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'tp-shards-differ',
    message: `${other} holds ${name} as ${found}; ${file} as ${expected}.`,
    advice: OTHER_RUN,
    facts: { file: other, other: file, tensor: name, expected, found },
  };
}

/** Tensors of which nothing tells how their shards are joined. */
export function undecidedTensors(
  folder: string,
  ranks: number,
  count: number,
  kinds: readonly (readonly [kind: string, count: number])[],
): ErrorDetail {
  const lines = kinds.slice(0, SHOWN).map(([kind, times]) => (times > 1 ? `${kind} (${times} of this kind)` : kind));
  const more = kinds.length > SHOWN ? `; and ${kinds.length - SHOWN} more kinds` : '';
  return {
    kind: 'unsupported',
    code: 'tp-rules-missing',
    message: `${folder} is cut over ${ranks} tensor-parallel ranks, and how ${count} of its tensors are to be joined is not known. ${lines.join('; ')}${more}.`,
    advice:
      'Give each a rule (--tp-rule PATTERN=HOW): dimension 0 (column parallel), 1 (row parallel), replicated or average; a fused QKV or gate and up needs the rules of universal_checkpoint_info. Or take the shards of one rank alone (--tp-rank).',
    facts: { file: folder, expected: ranks, found: count, tensors: lines.join('; ') },
  };
}

/** Layer files of a topology with more than pipeline, tensor and data parallelism. */
export function unknownTopology(file: string, axes: string): UnshardError {
  return new UnshardError({
    kind: 'unsupported',
    code: 'layer-topology',
    message: `${file} is of a pipeline whose layers are cut along axes that Unshard does not know (${axes}).`,
    advice: 'Pipelines with tensor parallelism (-model_NN) are read.',
    facts: { file, found: axes },
  });
}

/** Experts of native DeepSpeed MoE at stage 3, which DeepSpeed does not write. */
export function expertsAtStage3(file: string): UnshardError {
  return new UnshardError({
    kind: 'unsupported',
    code: 'moe-zero3',
    message: `${file} is an expert file beside shards of ZeRO-3, which DeepSpeed does not write together.`,
    advice: 'Move the files of the other run away.',
    facts: { file },
  });
}

/** Layers of a pipeline that the model files name and that have no file. */
export function missingLayers(folder: string, missing: readonly string[], expected: number): ErrorDetail {
  return {
    kind: 'missing-shard',
    code: 'missing-layer',
    message: `${folder} should hold the files of ${counted(expected, 'layer')} with parameters or buffers. Missing: layer ${listed(missing)}.`,
    advice: COPY,
    facts: { file: folder, expected, found: expected - missing.length, missing: listed(missing) },
  };
}

/** Experts that have no file. `missing` are the first of them. */
export function missingExperts(
  folder: string,
  missing: readonly string[],
  expected: number,
  found: number,
): ErrorDetail {
  return {
    kind: 'missing-shard',
    code: 'missing-expert',
    message: `${folder} should hold the files of ${counted(expected, 'expert')}; ${found} are there. Missing: ${listed(missing)}.`,
    advice: COPY,
    facts: { file: folder, expected, found, missing: listed(missing) },
  };
}

/** Files of more experts than the model has. */
export function staleExperts(folder: string, name: string, expected: number, found: number): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'stale-experts',
    message: `${folder} should hold the files of ${counted(expected, 'expert')}; ${found} are there. Not of this run: ${name}.`,
    advice: 'Move the files of the other run away.',
    facts: { file: folder, expected, found },
  };
}

/** The optimizer of an expert-parallel rank is not there, and that of a higher one is. */
export function missingExpertOptim(file: string, rank: number): ErrorDetail {
  return {
    kind: 'missing-shard',
    code: 'missing-expert-optim',
    message: `${file} is the optimizer of an expert-parallel rank; that of rank ${rank} is not here.`,
    advice: COPY,
    facts: { file, missing: rank },
  };
}

/** A group of expert parameters is cut over a number of ranks that its expert parallelism does not give. */
export function expertRanks(
  file: string,
  group: number,
  said: number | undefined,
  count: number,
  world: number,
): ErrorDetail {
  const name = said === undefined ? 'a group of experts' : `a group of experts for ${said} expert-parallel ranks`;
  return {
    kind: 'unsupported',
    code: 'expert-ranks',
    message: `${file}: group ${group} is ${name}, and is cut over ${count} of ${counted(world, 'rank')}.`,
    advice:
      'Experts that are shared out over tensor-parallel ranks as well are not read. Save with enable_expert_tensor_parallelism.',
    facts: { file, group, expected: said ?? 0, found: count },
  };
}

/** Each expert has a file of one tensor-parallel rank alone. */
export function expertsDealt(folder: string, experts: number, ranks: number): ErrorDetail {
  return {
    kind: 'unsupported',
    code: 'expert-ranks',
    message: `${folder} holds ${experts} expert files, each expert's of one of ${ranks} tensor-parallel ranks alone: whole experts were dealt to all ranks, across tensor parallelism.`,
    advice:
      'Such experts are not read; those of runs with enable_expert_tensor_parallelism are, where every rank has its part of each. If it was on, the expert files of other ranks are missing.',
    facts: { file: folder, expected: ranks, found: experts },
  };
}

/** The experts of a layer cannot be shared out over the expert-parallel ranks evenly. */
export function expertCount(file: string, prefix: string, ranks: number, found: number): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'expert-count',
    message: `${file} shares out ${prefix} over ${ranks} expert-parallel ranks; the files hold ${found} of its experts.`,
    advice: OTHER_RUN,
    facts: { file, tensor: prefix, expected: ranks, found },
  };
}

/** In neither order of the ranks do the masters of experts round to the weights in their files. */
export function expertOrder(file: string, group: number, name: string): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'expert-order',
    message: `${file}: the masters of group ${group} of expert parameters are not those of the expert files (${name}), in whichever order the ranks are taken.`,
    advice: OTHER_RUN,
    facts: { file, group, tensor: name },
  };
}

/** Parameters of a universal checkpoint whose master is not there. */
export function missingParams(folder: string, missing: readonly string[], expected: number): ErrorDetail {
  return {
    kind: 'missing-shard',
    code: 'missing-param',
    message: `${folder} should hold the masters of ${counted(expected, 'parameter')}, each in zero/NAME/fp32.pt. Missing: ${listed(missing)}.`,
    advice: 'Copy the missing folders here, or convert the checkpoint again.',
    facts: { file: folder, expected, found: expected - missing.length, missing: listed(missing) },
  };
}

/** A flat master of a parameter that no model file gives the shape of. */
export function unlistedParam(file: string, name: string): ErrorDetail {
  return {
    kind: 'inconsistent',
    code: 'param-unlisted',
    message: `${file} is the master of ${name}, and no model file lists its shape.`,
    advice: OTHER_RUN,
    facts: { file, tensor: name },
  };
}
