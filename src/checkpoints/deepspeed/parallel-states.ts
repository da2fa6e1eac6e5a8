/**
 * What a model file says of parallelism beyond ZeRO: stages of a pipeline, tensor-parallel ranks, experts.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';
import type { PyValue } from '../../formats/pickle/values.js';
import { asCount, asList, asString, type Field, fieldOf, isPresent } from './fields.js';

/** More experts than any layer has had. */
export const MAX_EXPERTS = 2 ** 14;

/** What a model file says of parallelism beyond ZeRO. */
export interface ParallelStates {
  /** Stages and tensor-parallel ranks. Only newer versions say. */
  readonly degrees: { readonly pipeline: number; readonly tensor: number } | undefined;
  /** `universal_checkpoint_info`: how tensor-parallel shards are joined. */
  readonly universalInfo: Field | undefined;
  /** Number of experts of each layer with experts; one number stands for all layers before 0.6.0. Undefined without any. */
  readonly expertCounts: readonly number[] | number | undefined;
  /** Layers whose experts AutoEP keeps in one tensor for each weight. */
  readonly fusedExperts: readonly FusedExperts[];
}

/** A layer of AutoEP. */
export interface FusedExperts {
  /** The weights are `PREFIX.w1`, `PREFIX.w2` and `PREFIX.w3`; in the files of experts, `PREFIX.w1.EXPERT`. */
  readonly prefix: string;
  readonly experts: number;
}

/** Reads the fields of a model file. */
export function parallelStates(root: Field): ParallelStates {
  const dims = fieldOf(root, 'checkpoint_parallel_dimensions');
  const info = fieldOf(root, 'universal_checkpoint_info');
  return {
    degrees: isPresent(dims)
      ? { pipeline: asDegree(fieldOf(dims, 'pp_degree')), tensor: asDegree(fieldOf(dims, 'tp_degree')) }
      : undefined,
    universalInfo: isPresent(info) ? info : undefined,
    expertCounts: expertCounts(fieldOf(root, 'num_experts')),
    fusedExperts: fusedExperts(root),
  };
}

function asDegree(field: Field): number {
  return Math.max(1, asCount(field));
}

/** Training code may have put something else under this name, which then says nothing. */
function expertCounts({ value }: Field): readonly number[] | number | undefined {
  if (isExpertCount(value)) return value;
  const counts = Array.isArray(value) ? value.filter(isExpertCount) : [];
  return Array.isArray(value) && counts.length === value.length && counts.length > 0 ? counts : undefined;
}

function isExpertCount(value: PyValue | undefined): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_EXPERTS;
}

function fusedExperts(root: Field): FusedExperts[] {
  const own = fieldOf(root, 'ds_autoep_layers');
  const layers = isPresent(own) ? own : fieldOf(root, 'autoep_layers');
  if (!isPresent(layers)) return [];
  if (isPresent(fieldOf(root, 'folding'))) {
    throw refuse(root.file, 'autoep-folding', 'AutoEP and tensor parallelism folded into each other');
  }
  return asList(layers).map((layer) => {
    if (fieldOf(layer, 'checkpoint_format').value === 'zero3_partitioned') {
      throw refuse(root.file, 'autoep-zero3', 'the experts of AutoEP cut by ZeRO-3 over ranks of their own');
    }
    return { prefix: asString(fieldOf(layer, 'expert_key_prefix')), experts: asCount(fieldOf(layer, 'num_experts')) };
  });
}

/** What DeepSpeed itself does not convert either. */
function refuse(file: string, code: string, what: string): UnshardError {
  return new UnshardError({
    kind: 'unsupported',
    code,
    message: `${file} is of a checkpoint with ${what}, which Unshard does not read.`,
    advice: 'Load it with DeepSpeed as it was saved, and save it without that.',
    facts: { file },
  });
}
