import { numelOf } from '../../base/shape.js';
import type { FirstFacts } from '../options.js';
import { worldSizeOf } from './ranks.js';
import type { ModelStates, OptimStates } from './states.js';

/** What the first files tell of the whole; undefined where there is neither a model file nor an optimizer file. */
export function firstFacts(model: ModelStates | undefined, optim: OptimStates | undefined): FirstFacts | undefined {
  if (!model && !optim) return undefined;
  const stage = optim?.stage ?? (model?.shard.name.dp === undefined ? model?.configuredStage : 3);
  const shapes = (model?.paramShapes ?? optim?.paramShapes)?.flat() ?? [];
  const counted = shapes.length > 0 ? [...shapes, ...(model?.frozenShapes ?? [])].map(([, shape]) => shape) : undefined;
  const tensors = counted ?? [...(model?.module.values() ?? [])].map(({ shape }) => shape);
  const version = model?.deepspeedVersion ?? optim?.deepspeedVersion;
  return {
    ranks: (optim ? worldSizeOf([optim]) : model?.dpWorldSize) ?? 1,
    parameters: tensors.length,
    elements: tensors.reduce((sum, shape) => sum + numelOf(shape), 0),
    ...(stage === undefined ? {} : { stage }),
    ...(version === undefined ? {} : { deepspeedVersion: version }),
    ...(model?.globalSteps === undefined ? {} : { globalSteps: model.globalSteps }),
  };
}
