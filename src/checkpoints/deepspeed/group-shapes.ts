/**
 * Which parameters lie in which flat buffer, and in which order. Since 0.5.4 the files list that. Before, they hold one
 * list for all buffers, or none, or one in another order, and the state dict must tell.
 *
 * @module
 */

import { UnshardError } from '../../base/errors.js';
import { numelOf } from '../../base/shape.js';
import type { Draft } from './draft.js';
import { viewedShapes } from './expert-views.js';
import { dig } from './fields.js';
import { flatOrder } from './flat-order.js';
import { orderUnknown, viewsUnproven } from './old-problems.js';
import type { Part } from './rank-set.js';
import { recordedShapes } from './recorded-shapes.js';
import type { GroupShapes, ModelStates, NamedShape, OptimStates } from './states.js';

/**
 * The parameters of each group (stage 3: sub-group) in flat order. What cannot be told is a problem of the draft.
 *
 * @throws UnshardError `param-shapes-missing`.
 */
export async function groupShapes(
  draft: Draft,
  { model, optims, experts }: Pick<Part, 'model' | 'optims' | 'experts'>,
  signal: AbortSignal | undefined,
): Promise<GroupShapes> {
  const [first] = optims;
  const known = model?.paramShapes ?? first?.paramShapes;
  if (known || !model || !first) return known ?? [];
  const recorded = recordedShapes(model, optims);
  if (recorded) return recorded;
  if (experts.tensors.size > 0) {
    const viewed = await viewedShapes(draft, model, optims, experts, signal);
    if (!viewed) draft.problems.push(viewsUnproven(model, optims));
    return viewed ?? [];
  }
  const listed = first.listedShapes;
  if (first.stage < 3 && model.module.size > 0) return flatOrder(draft, model, optims, listed, signal);
  if (!listed) throw shapesMissing(model);
  return cutShares(draft, first, listed, optims.length);
}

/** Stage 3: the next parameters whose shares fill a sub-group are those of it. */
function cutShares(draft: Draft, optim: OptimStates, listed: readonly NamedShape[], ranks: number): GroupShapes {
  const groups: NamedShape[][] = [];
  let next = 0;
  for (const { numel } of optim.flatGroups) {
    const group: NamedShape[] = [];
    let filled = 0;
    for (let param = listed[next]; filled < numel && param; param = listed[next]) {
      group.push(param);
      filled += Math.ceil(numelOf(param[1]) / ranks);
      next++;
    }
    groups.push(group);
    if (filled !== numel) break;
  }
  const rest = listed.slice(next);
  groups.at(-1)?.push(...rest);
  const needed = listed.reduce((sum, [, shape]) => sum + Math.ceil(numelOf(shape) / ranks), 0);
  const found = optim.flatGroups.reduce((sum, { numel }) => sum + numel, 0);
  const isWhole = groups.length === optim.flatGroups.length && needed === found;
  if (!isWhole) draft.problems.push(orderUnknown(optim.shard.path, needed, found));
  else if (paramGroupCount(optim) > 1) draft.warnings.push(unproven(optim));
  return isWhole ? groups : [];
}

function paramGroupCount({ state }: OptimStates): number {
  const groups = dig(state, 'optimizer_state_dict', 'param_groups');
  return Array.isArray(groups) ? groups.length : 1;
}

function unproven({ shard, deepspeedVersion = 'before 0.4.0' }: OptimStates): { code: string; message: string } {
  return {
    code: 'order-unproven',
    message: `${shard.path} (DeepSpeed ${deepspeedVersion}) has several parameter groups and one list of parameters. That list is in the order of the groups since 0.4.3; before, it may not be, and nothing in a ZeRO-3 checkpoint proves it.`,
  };
}

function shapesMissing(model: ModelStates): UnshardError {
  return new UnshardError({
    kind: 'unsupported',
    code: 'param-shapes-missing',
    message: `${model.shard.path} (DeepSpeed ${model.deepspeedVersion ?? 'of unknown version'}) lists no param_shapes, so the flat buffers cannot be cut into parameters.`,
    advice: 'DeepSpeed writes them into this file since 0.6.0. Load and save the checkpoint once with a newer version.',
    facts: { file: model.shard.path, found: model.deepspeedVersion ?? '' },
  });
}
