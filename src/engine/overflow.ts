import { bytesOf } from '../base/dtype.js';
import { assert, UnshardError } from '../base/errors.js';
import { numelOf } from '../base/shape.js';
import { addStats, emptyStats } from '../numeric/stats.js';
import type { OutputFile, Plan } from '../plan/plan.js';
import type { ConvertStats } from './backend.js';
import { LaneBuffers } from './buffers.js';
import type { FillContext } from './fill.js';
import { fillTile } from './fill.js';
import { withoutProofs } from './prove.js';
import { tilesOf } from './tiles.js';
import { workOf } from './work.js';

/** Largest finite value of the dtypes that are converted to, for the message. */
const LARGEST = { F16: 65504, BF16: 3.3895313892515355e38, F32: 3.4028234663852886e38 } as const;

/**
 * Throws when a tile of a tensor held a finite value that the output dtype cannot hold. The whole tensor is read once
 * more first, so that the message tells how many there are and how large they get.
 *
 * @throws UnshardError `overflow`.
 */
export async function assertNoOverflow(context: FillContext, index: number, found: ConvertStats): Promise<void> {
  if (found.overflow === 0) return;
  const tensor = context.plan.tensors[index];
  assert(tensor && tensor.to in LARGEST, `tensor ${index} is not converted`);
  const all = await statsOf(context, index);
  const limit = LARGEST[tensor.to as keyof typeof LARGEST];
  const largest = Number(all.largest.toPrecision(6));
  throw new UnshardError({
    kind: 'overflow',
    code: 'overflow',
    message: `${tensor.name} holds ${all.overflow} finite values that ${tensor.to} cannot hold: the largest is ${largest}, the limit is ${limit}.`,
    advice:
      'Use bf16 or fp32, for all or for this tensor alone; or ask for overflow "inf", as PyTorch does, or "clamp".',
    facts: { tensor: tensor.name, expected: limit, found: largest, count: all.overflow },
  });
}

/** Statistics of one whole tensor. */
async function statsOf(context: FillContext, index: number): Promise<ConvertStats> {
  const sum = emptyStats();
  const plan = withoutProofs(singleTensorPlan(context.plan, index));
  const buffers = new LaneBuffers();
  for (const tile of tilesOf(plan, 0)) {
    const work = workOf(plan, tile);
    const { stats } = await fillTile({ ...context, plan, audit: undefined }, work, buffers.fit(work));
    for (const result of stats) addStats(sum, result.stats);
  }
  return sum;
}

/** The plan with one output file, which holds one tensor and nothing else. */
export function singleTensorPlan(plan: Plan, index: number): Plan {
  const tensor = plan.tensors[index];
  assert(tensor, `the plan has no tensor ${index}`);
  const length = numelOf(tensor.shape) * bytesOf(tensor.to);
  const parts = length === 0 ? [] : [{ kind: 'tensor', at: 0, length, tensor: index } as const];
  const file: OutputFile = { path: tensor.name, byteLength: length, parts };
  return { ...plan, files: [file] };
}
