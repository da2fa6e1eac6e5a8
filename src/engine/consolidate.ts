/**
 * Full weights in memory, one tensor at a time: the third of the needs that Unshard serves.
 *
 * @module
 */

import type { DType } from '../base/dtype.js';
import { assert } from '../base/errors.js';
import { inspect } from '../checkpoints/inspect.js';
import type { InspectOptions } from '../checkpoints/options.js';
import type { FileTree } from '../io/types.js';
import { plan as makePlan } from '../plan/make.js';
import type { Plan, PlanOptions } from '../plan/plan.js';
import { CrcAudit } from './audit.js';
import type { Backend } from './backend.js';
import { LaneBuffers } from './buffers.js';
import { cpuBackend } from './cpu.js';
import { ConverterSwitch, type FillContext, fillTile } from './fill.js';
import { assertNoOverflow, singleTensorPlan } from './overflow.js';
import { assertProven, withoutProofs } from './prove.js';
import { PlanSources } from './sources.js';
import { tilesOf } from './tiles.js';
import { workOf } from './work.js';

/** Options of `consolidateWeights`: those of `plan` that say which weights are wanted and at what precision, and these. */
export interface ConsolidateOptions
  extends Omit<PlanOptions, 'format' | 'maxShardSize' | 'duplicateTied'>,
    Pick<InspectOptions, 'tag' | 'tpRules' | 'tpRank' | 'partial' | 'lost'> {
  /** Compare masters with their copies, and bytes with the CRC-32s that their files record. Default true. */
  readonly verify?: boolean;
  /** What converts. Default: the CPU. */
  readonly backend?: Backend;
  readonly signal?: AbortSignal;
  /** Called after each tensor. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number; readonly name: string }) => void;
}

/** A full, non-partitioned tensor. */
export interface Weight {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** Little-endian elements in row-major order. */
  readonly data: Uint8Array<ArrayBuffer>;
}

/** One step of the iteration: a weight and every name it has, the owner first. */
export interface NamedWeight extends Weight {
  readonly name: string;
  /** The name, and the names that are tied to it. */
  readonly names: readonly string[];
}

/** Weights to be iterated over once, or to be collected. */
export interface ConsolidatedWeights extends AsyncIterable<NamedWeight> {
  /** All weights by name. Tied names hold the same object. */
  collect(): Promise<Map<string, Weight>>;
}

/**
 * Reads the full weights of a checkpoint into memory, with the precision as an argument. Shared parameters stay shared
 * and persistent buffers are included. Iterating needs memory for one tensor and a tile; nothing is read before it starts.
 *
 * @example
 * for await (const { name, shape, data } of consolidateWeights(tree, { dtype: 'bf16' })) …
 *
 * @throws UnshardError (when iterated) as `inspect`, `plan` and `run` do.
 */
export function consolidateWeights(tree: FileTree, options: ConsolidateOptions = {}): ConsolidatedWeights {
  return {
    [Symbol.asyncIterator]: () => readWeights(tree, options),
    async collect() {
      const weights = new Map<string, Weight>();
      for await (const { names, dtype, shape, data } of readWeights(tree, options)) {
        const weight: Weight = { dtype, shape, data };
        for (const name of names) weights.set(name, weight);
      }
      return weights;
    },
  };
}

async function* readWeights(tree: FileTree, options: ConsolidateOptions): AsyncGenerator<NamedWeight> {
  const { tag, tpRules, tpRank, partial, lost, backend, signal, onProgress, verify = true, ...wanted } = options;
  const inventory = await inspect(tree, {
    ...(tag === undefined ? {} : { tag }),
    ...(tpRules === undefined ? {} : { tpRules }),
    ...(tpRank === undefined ? {} : { tpRank }),
    ...(partial === undefined ? {} : { partial }),
    ...(lost === undefined ? {} : { lost }),
    ...(signal === undefined ? {} : { signal }),
  });
  // Of the formats, this is the one in which tied names are always one tensor.
  const made = makePlan(inventory, { ...wanted, format: 'bin' });
  const plan = verify ? made : withoutProofs(made);
  const aliases = Object.entries(plan.aliases);
  const context: FillContext = {
    plan,
    sources: new PlanSources((path) => tree.open(path), plan.sources),
    audit: verify ? new CrcAudit(plan.crcs) : undefined,
    backend: new ConverterSwitch(backend ?? cpuBackend()),
    signal,
  };
  const buffers = new LaneBuffers();
  try {
    for (const [index, { name, shape, to: dtype }] of plan.tensors.entries()) {
      const data = await readTensor(context, buffers, index);
      const tied = aliases.flatMap(([alias, owner]) => (owner === name ? [alias] : []));
      yield { name, names: [name, ...tied], dtype, shape, data };
      onProgress?.({ done: index + 1, total: plan.tensors.length, name });
    }
    await context.audit?.finish(context.sources, plan.sources, signal);
  } finally {
    await context.sources.close();
  }
}

async function readTensor(context: FillContext, buffers: LaneBuffers, index: number): Promise<Uint8Array<ArrayBuffer>> {
  const plan: Plan = singleTensorPlan(context.plan, index);
  const data = new Uint8Array(plan.files[0]?.byteLength ?? 0);
  for (const tile of tilesOf(plan, 0)) {
    const work = workOf(plan, tile);
    const output = data.subarray(tile.at, tile.at + tile.length);
    const { stats, differences } = await fillTile({ ...context, plan }, work, buffers.fit(work, output));
    for (const { tensor, stats: found } of stats) {
      assert(tensor === index, `tile of tensor ${index} holds tensor ${tensor}`);
      if (plan.options.overflow === 'error') await assertNoOverflow(context, index, found);
    }
    await assertProven({ ...context, plan }, differences);
  }
  return data;
}
