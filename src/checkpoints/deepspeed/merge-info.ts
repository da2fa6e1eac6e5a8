/**
 * `universal_checkpoint_info`: what a run writes down of how its tensor-parallel shards make up parameters. Megatron-
 * DeepSpeed writes patterns for kinds of parameters, AutoTP one for each.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';
import { PyObject } from '../../formats/pickle/values.js';
import { asCount, asList, asNamed, asString, type Field, fieldOf, isPresent } from './fields.js';
import { type PythonPattern, pythonPattern } from './python-pattern.js';

/** Parameters that hold several sub-parameters, each of them cut over the ranks: fused QKV, gate and up. */
export interface SubParams {
  readonly pattern: PythonPattern;
  /** Shape of the whole parameter as it is cut; -1 for the one size that follows from the others. */
  readonly shape: readonly number[];
  /** The dimension that is cut, an index of `shape`. */
  readonly dim: number;
  /** Sizes of the sub-parameters along `dim`; a number for that many of equal size. */
  readonly sizes: readonly number[] | number;
  /** Width of each sub-parameter on each rank: `widths[sub][rank]`. Undefined in metadata that knows even cuts only. */
  readonly widths: readonly (readonly number[])[] | undefined;
}

/** What a run says of its shards. The first pattern that matches decides, in the order of the fields. */
export interface MergeInfo {
  /** Parameters that DeepSpeed itself cannot join, and why. */
  readonly unsupported: readonly (readonly [pattern: PythonPattern, reason: string])[];
  readonly replicated: readonly PythonPattern[];
  readonly average: readonly PythonPattern[];
  /** Two halves along the first dimension, each cut over the ranks. */
  readonly twoHalves: readonly PythonPattern[];
  readonly subParams: readonly SubParams[];
  /** Joined along the second dimension. All others are joined along the first. */
  readonly rows: readonly PythonPattern[];
  /** Parameters whose first dimension is the vocabulary, which may be padded. */
  readonly vocabulary: readonly PythonPattern[];
  readonly vocabularySize: number | undefined;
}

/** Reads the field of a model file. */
export function mergeInfo(info: Field): MergeInfo {
  const patterns = (key: string) =>
    optionalList(fieldOf(info, key)).map((field) => pythonPattern(asString(field), info.file));
  const size = fieldOf(info, 'original_vocab_size');
  const unsupported = fieldOf(info, 'autotp_unsupported_parameter_patterns');
  return {
    unsupported: isPresent(unsupported)
      ? asNamed(unsupported).map(([text, reason]) => [pythonPattern(text, info.file), String(reason.value)] as const)
      : [],
    replicated: patterns('tp_replicated_parameter_patterns'),
    average: patterns('parameter_to_average_patterns'),
    twoHalves: patterns('parameter_with_2_sub_params_cat_dim_0'),
    subParams: optionalList(fieldOf(info, 'parameter_with_sub_params')).flatMap((field) => subParams(field, info)),
    rows: patterns('parameter_with_row_parallelism_patterns'),
    vocabulary: patterns('vocabulary_parameter_patterns'),
    vocabularySize: isPresent(size) ? asCount(size) : undefined,
  };
}

/** One entry: a dict, or the object of DeepSpeed's own class. */
function subParams(field: Field, info: Field): SubParams[] {
  const value = field.value instanceof PyObject ? field.value.state : field.value;
  const entry: Field = { ...field, value };
  const dims = asList(fieldOf(entry, 'shape'));
  const dim = asCount(fieldOf(entry, 'partition_dim'));
  const cut = dims[dim];
  if (!cut) throw badSubParams(entry, `partition_dim ${dim} is no dimension of its shape`);
  const sizes = Array.isArray(cut.value) ? asList(cut).map(asCount) : asCount(cut);
  const shape = dims.map((size) => {
    if (size.value === -1) return -1;
    return Array.isArray(size.value) ? asList(size).reduce((sum, part) => sum + asCount(part), 0) : asCount(size);
  });
  const recorded = fieldOf(info, 'sub_param_shard_widths');
  return optionalList(fieldOf(entry, 'patterns')).map((pattern) => {
    const text = asString(pattern);
    const widths = isPresent(recorded) ? fieldOf(recorded, text) : recorded;
    const read = optionalList(widths).map((ranks) => asList(ranks).map(asCount));
    return {
      pattern: pythonPattern(text, field.file),
      shape,
      dim,
      sizes,
      widths: isPresent(widths) || recordsWidths(info) ? read : undefined,
    };
  });
}

/** Since version 0.4 sub-parameters need not be cut evenly, and their widths are written down. */
function recordsWidths(info: Field): boolean {
  const { value } = fieldOf(info, 'universal_checkpoint_version');
  return typeof value === 'number' && value >= 0.4;
}

function optionalList(field: Field): Field[] {
  return isPresent(field) ? asList(field) : [];
}

function badSubParams(field: Field, why: string): UnshardError {
  return new UnshardError({
    kind: 'bad-file',
    code: 'sub-params-bad',
    message: `${field.file}: ${field.path}: ${why}.`,
    advice: 'Give the rule of those parameters yourself, or take the file from the original checkpoint.',
    facts: { file: field.file, field: field.path },
  });
}
