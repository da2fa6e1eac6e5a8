import type { GridParam, GridSpec } from './grid.js';
import { type Py, PyFloat, type PyMap, PyTuple } from './python.js';

/** `universal_checkpoint_info` as AutoTP writes it: a pattern for each parameter that is not joined along dimension 0. */
export function mergeInfoOf(params: readonly GridParam[]): PyMap {
  const named = (is: (param: GridParam) => boolean): Py => params.filter(is).map(({ name }) => patternOf(name));
  const info: PyMap = new Map<string, Py>([
    ['universal_checkpoint_version', new PyFloat(0.4)],
    ['tp_replicated_parameter_patterns', named(({ cut }) => cut.kind === 'whole')],
    ['parameter_to_average_patterns', named(({ cut }) => cut.kind === 'average')],
    ['parameter_with_row_parallelism_patterns', named((param) => plainDim(param) === 1)],
    ['parameter_with_2_sub_params_cat_dim_0', []],
    ['vocabulary_parameter_patterns', named(({ rows }) => rows !== undefined)],
    ['autotp_unsupported_parameter_patterns', new Map()],
  ]);
  const fused = params.filter((param) => param.cut.kind === 'parts' && (plainDim(param) ?? 2) > 1);
  info.set('parameter_with_sub_params', fused.map(subParams));
  info.set('sub_param_shard_widths', new Map(fused.map(({ name, cut }) => [patternOf(name), widthsOf(cut)])));
  const rows = params.find((param) => param.rows !== undefined)?.rows;
  if (rows !== undefined) info.set('original_vocab_size', rows);
  return info;
}

/** The dimension along which shards are one after another; undefined for other cuts. */
export function plainDim({ cut }: GridParam): number | undefined {
  return cut.kind === 'parts' && cut.widths.length === 1 ? cut.dim : undefined;
}

/** A pattern for one name, as `re.escape` makes it. */
export function patternOf(name: string): string {
  return `^${name.replaceAll(/[^\w]/g, '\\$&')}$`;
}

function subParams({ name, shape, cut }: GridParam): Py {
  if (cut.kind !== 'parts') throw new Error('the parameter is not cut');
  const sizes = cut.widths.map((ranks) => ranks.reduce((sum, width) => sum + width, 0));
  const dims = shape.map((size, i): Py => (i === cut.dim ? new PyTuple(sizes) : i === shape.length - 1 ? -1 : size));
  return new Map<string, Py>([
    ['patterns', [patternOf(name)]],
    ['shape', shape.includes(0) ? shape.map((size, i): Py => (i === cut.dim ? new PyTuple(sizes) : size)) : dims],
    ['partition_dim', cut.dim],
  ]);
}

function widthsOf(cut: GridParam['cut']): Py {
  return cut.kind === 'parts' ? cut.widths.map((ranks) => [...ranks]) : [];
}

/** A run of three data-parallel and two tensor-parallel ranks, with the merge rules of its parameters. */
export function smallGrid(spec: Partial<GridSpec> & Pick<GridSpec, 'params'>): GridSpec {
  const info = mergeInfoOf(spec.params);
  return { version: '0.19.6', stage: 1, modelDtype: 'BF16', ranks: 3, tp: 2, info, ...spec };
}
