/**
 * Full weights in memory, one tensor at a time: the third of the needs that Unshard serves.
 *
 * @module
 */

import type { DType } from '../base/dtype.js';
import { assert } from '../base/errors.js';
import { inspect } from '../checkpoints/inspect.js';
import type { FileTree } from '../io/types.js';
import { plan as makePlan } from '../plan/make.js';
import { matches } from '../plan/options.js';
import type { OverflowPolicy, Plan, Precision } from '../plan/plan.js';
import { CrcAudit } from './audit.js';
import type { Backend } from './backend.js';
import { cpuBackend } from './cpu.js';
import { ConverterSwitch, type FillContext, fillTile } from './fill.js';
import { assertNoOverflow, singleTensorPlan } from './overflow.js';
import { PlanSources } from './sources.js';
import { tilesOf, workOf } from './tiles.js';

/** Options of `consolidateWeights`. */
export interface ConsolidateOptions {
  /** Default `fp32`. */
  readonly dtype?: Precision;
  /** Default: the tag that `latest` names. */
  readonly tag?: string;
  /** Names to leave out; `*` stands for any characters. */
  readonly exclude?: readonly string[];
  /** Leave out parameters that were not trained. Default false. */
  readonly excludeFrozen?: boolean;
  /** Default `error`. */
  readonly overflow?: OverflowPolicy;
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
  const { signal, exclude = [], excludeFrozen = false, dtype = 'fp32', overflow = 'error' } = options;
  const inventory = await inspect(tree, {
    ...(options.tag === undefined ? {} : { tag: options.tag }),
    ...(signal === undefined ? {} : { signal }),
  });
  const plan = makePlan(inventory, { dtype, overflow, excludeFrozen });
  const isWanted = (name: string) => !exclude.some((pattern) => matches(pattern, name));
  const wanted = plan.tensors.flatMap((tensor, index) => {
    const tied = Object.keys(plan.aliases).filter((alias) => plan.aliases[alias] === tensor.name);
    const names = [tensor.name, ...tied].filter(isWanted);
    return names[0] === undefined ? [] : [{ tensor, index, name: names[0], names }];
  });
  const context: FillContext = {
    plan,
    sources: new PlanSources(tree, plan.sources),
    audit: new CrcAudit(plan.crcs),
    backend: new ConverterSwitch(options.backend ?? cpuBackend()),
    signal,
  };
  try {
    for (const [done, { tensor, index, name, names }] of wanted.entries()) {
      const data = await readTensor(context, index);
      yield { name, names, dtype: tensor.to, shape: tensor.shape, data };
      options.onProgress?.({ done: done + 1, total: wanted.length, name });
    }
    await context.audit?.finish(context.sources, plan.sources, signal);
  } finally {
    await context.sources.close();
  }
}

async function readTensor(context: FillContext, index: number): Promise<Uint8Array<ArrayBuffer>> {
  const plan: Plan = singleTensorPlan(context.plan, index);
  const data = new Uint8Array(plan.files[0]?.byteLength ?? 0);
  for (const tile of tilesOf(plan, 0)) {
    const work = workOf(plan, tile);
    const output = data.subarray(tile.at, tile.at + tile.length);
    const results = await fillTile({ ...context, plan }, work, new Uint8Array(work.inputLength), output);
    for (const { tensor, stats } of results) {
      assert(tensor === index, `tile of tensor ${index} holds tensor ${tensor}`);
      if (plan.options.overflow === 'error') await assertNoOverflow(context, index, stats);
    }
  }
  return data;
}
