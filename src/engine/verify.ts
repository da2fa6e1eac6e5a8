/**
 * Compares finished weights, written by anyone, with a checkpoint: every tensor of the one with the master of the other,
 * rounded to the dtype that the weights have.
 *
 * @module
 */

import { bytesOf, type DType, roundsTo } from '../base/dtype.js';
import { numelOf } from '../base/shape.js';
import { inspect, problemError } from '../checkpoints/inspect.js';
import { blockingProblems, type CheckReport, type Inventory } from '../checkpoints/inventory.js';
import type { InspectOptions } from '../checkpoints/options.js';
import { isSavedKey } from '../checkpoints/peft-names.js';
import { readWeightSet, type WeightSet } from '../checkpoints/weight-set.js';
import type { StoredTensor } from '../checkpoints/weights.js';
import type { FileTree } from '../io/types.js';
import { usedCrcs } from '../plan/crcs.js';
import { resolveOptions } from '../plan/options.js';
import type { OutputFile, Plan, PlannedTensor, PlanOptions, ResolvedOptions } from '../plan/plan.js';
import { type Selection, selectTensors } from '../plan/select.js';
import { CrcAudit } from './audit.js';
import type { Backend } from './backend.js';
import { cpuBackend } from './cpu.js';
import { ConverterSwitch, type Difference, type FillContext } from './fill.js';
import { type Filler, localFiller } from './filler.js';
import { eachTile, lanesOf } from './lanes.js';
import { PlanSources } from './sources.js';
import type { Threads } from './threads/threads.js';
import { tilesOf } from './tiles.js';

/** Options of a conversion that say which tensors it writes, and under which names. */
const SELECTING = [
  'output',
  'adapterName',
  'lora',
  'include',
  'exclude',
  'excludeFrozen',
  'trainableOnly',
  'stripPrefix',
  'trimVocab',
] as const satisfies readonly (keyof PlanOptions)[];

/**
 * Options of `verify`. Those of a conversion say what the weights are said to be; by default all tensors under their own
 * names, or the adapter where the file is one as PEFT saves it.
 */
export interface VerifyOptions
  extends Pick<InspectOptions, 'tag' | 'tpRules' | 'tpRank' | 'partial' | 'lost'>,
    Pick<PlanOptions, (typeof SELECTING)[number]> {
  /** The file of weights, or the index of several, where the folder holds more than one. */
  readonly file?: string;
  /** What rounds. Default: the CPU. It stays open: the caller closes it. */
  readonly backend?: Backend;
  /** Starts threads to compare on, unless the backend is a GPU. They are closed at the end. Default: this thread compares. */
  readonly openThreads?: (plan: Plan) => Threads | undefined;
  /** Bytes that tiles may hold in memory at once. Default 128 MiB; at least one tile is used. */
  readonly memory?: number;
  readonly signal?: AbortSignal;
  /** Called after every tile. */
  readonly onProgress?: (progress: VerifyProgress) => void;
}

/** Bytes of the weights that were compared so far. */
export interface VerifyProgress {
  readonly compared: number;
  readonly total: number;
}

/** What a comparison found of one name. */
export type VerifyStatus =
  /** Every element is the checkpoint's, rounded to the dtype of the file. */
  | 'match'
  | 'differs'
  /** It is not in the weights, and need not be: a name that is tied to it is. */
  | 'tied'
  /** It is in the checkpoint and not in the weights. */
  | 'missing'
  /** It is in the weights and not in the checkpoint. */
  | 'extra'
  | 'other-shape'
  /** The dtype is not one that the checkpoint's rounds to. */
  | 'other-dtype';

/** One name, in the checkpoint, the weights or both. */
export interface VerifiedTensor {
  readonly name: string;
  readonly status: VerifyStatus;
  /** As the weights have it; as the checkpoint has it where they do not. */
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** What should be there: shape, dtype, or first element that differs; where it is tied, the other name. */
  readonly expected?: string;
  /** What is there in its place. */
  readonly found?: string;
  /** Index of the first element that differs, and how many do. */
  readonly index?: number;
  readonly count?: number;
}

/** The result of `verify`. */
export interface VerifyReport {
  readonly version: 1;
  /** True where every tensor is there and equal, and nothing else is. */
  readonly matches: boolean;
  readonly files: readonly { readonly path: string; readonly byteLength: number }[];
  /** In the order of the checkpoint; what is extra comes last. */
  readonly tensors: readonly VerifiedTensor[];
  readonly checks: readonly CheckReport[];
  /** Wall time in seconds. */
  readonly seconds: number;
}

/**
 * Compares the weights in a folder with a checkpoint, bit for bit. Both are streamed: memory is bounded by tiles. Tensors
 * that differ are reported; what cannot be read at all is an error.
 *
 * @throws UnshardError as `inspect` and `plan` do, of kind `usage` where the folder holds no weights or several, and of
 * kind `bad-file` where a file is damaged.
 */
export async function verify(tree: FileTree, output: FileTree, options: VerifyOptions = {}): Promise<VerifyReport> {
  const { file, signal, tag, tpRules, tpRank, partial, lost } = options;
  const started = performance.now();
  const inventory = await inspect(tree, {
    ...(tag === undefined ? {} : { tag }),
    ...(tpRules === undefined ? {} : { tpRules }),
    ...(tpRank === undefined ? {} : { tpRank }),
    ...(partial === undefined ? {} : { partial }),
    ...(lost === undefined ? {} : { lost }),
    ...(signal ? { signal } : {}),
  });
  const problem = problemError(blockingProblems(inventory));
  if (problem) throw problem;
  const weights = await readWeightSet(output, file, inventory.sources.length, signal);
  const resolved = selectingOptions(options, weights);
  const pairs = pairsOf(selectTensors(inventory, resolved), weights);
  const plan = comparisonPlan(inventory, weights, pairs.compared, resolved);
  const context: FillContext = {
    plan,
    sources: new PlanSources(
      (path, index) => (index < inventory.sources.length ? tree : output).open(path),
      plan.sources,
    ),
    audit: new CrcAudit(plan.crcs),
    backend: new ConverterSwitch(options.backend ?? cpuBackend()),
    signal,
  };
  const wanted = { crcs: 'none', readBack: false } as const;
  const threads = options.backend?.name === 'gpu' ? undefined : options.openThreads?.(plan);
  let filler: Filler | undefined;
  const differences = new Map<number, Difference>();
  const total = plan.totals.outputBytes;
  let compared = 0;
  try {
    const others = await threads?.filler({ plan, sources: context.sources, ...wanted, audit: true, signal });
    const using = others ?? localFiller(context, wanted);
    filler = using;
    await eachTile(tilesOf(plan, 0), { lanes: lanesOf(using, options), signal }, async (tile) => {
      const filled = await using.fill(tile);
      context.audit?.note(filled.audited);
      for (const difference of filled.differences) addDifference(differences, difference);
      compared += tile.length;
      options.onProgress?.({ compared, total });
    });
    const crcs = await context.audit?.finish(context.sources, plan.sources, signal);
    const results = pairs.compared.map(({ name, weight }, i) => resultOf(name, weight, differences.get(i)));
    const byName = new Map([...results, ...pairs.others].map((result) => [result.name, result]));
    const tensors = pairs.names.flatMap((name) => byName.get(name) ?? []);
    return {
      version: 1,
      matches: tensors.every(({ status }) => status === 'match' || status === 'tied'),
      files: weights.files.map(({ path, size }) => ({ path, byteLength: size })),
      tensors,
      checks: [...inventory.checks, ...(crcs ? [crcs] : [])],
      seconds: (performance.now() - started) / 1000,
    };
  } finally {
    await filler?.close().catch(() => {});
    threads?.close();
    await context.sources.close();
  }
}

/** What a conversion to these weights would have been asked for, each tensor at the dtype that is stored. */
function selectingOptions(options: VerifyOptions, weights: WeightSet): ResolvedOptions {
  const chosen = Object.fromEntries(SELECTING.map((key) => [key, options[key]]));
  const isAdapter = [...weights.tensors.keys()].some(isSavedKey);
  return resolveOptions({
    ...(isAdapter ? { output: 'adapter' } : {}),
    ...defined(chosen),
    dtype: 'keep',
    overflow: 'inf',
  });
}

function defined(options: PlanOptions): PlanOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** A tensor of the checkpoint and one of the weights whose bits can be compared. */
interface Pair {
  readonly name: string;
  readonly planned: PlannedTensor;
  readonly weight: StoredTensor;
}

interface Pairs {
  readonly compared: readonly Pair[];
  /** Names whose bits are not compared, and why. */
  readonly others: readonly VerifiedTensor[];
  /** All names in the order of the report. */
  readonly names: readonly string[];
}

/** Which tensors can be compared. Of tied names each that is there is compared with the bits of their owner. */
function pairsOf({ tensors, aliases }: Selection, weights: WeightSet): Pairs {
  const compared: Pair[] = [];
  const others: VerifiedTensor[] = [];
  const names: string[] = [];
  const tied = new Map<string, string[]>();
  for (const [alias, owner] of Object.entries(aliases)) tied.set(owner, [...(tied.get(owner) ?? []), alias]);
  for (const planned of tensors) {
    const group = [planned.name, ...(tied.get(planned.name) ?? [])];
    const there = group.find((name) => weights.tensors.has(name));
    for (const name of group) {
      names.push(name);
      const weight = weights.tensors.get(name);
      const fault = weight ? faultOf(name, planned, weight) : absent(name, planned, there);
      if (fault) others.push(fault);
      else if (weight) compared.push({ name, planned, weight });
    }
  }
  const known = new Set(names);
  for (const [name, { dtype, shape }] of weights.tensors) {
    if (known.has(name)) continue;
    names.push(name);
    others.push({ name, status: 'extra', dtype, shape });
  }
  return { compared, others, names };
}

function absent(name: string, { from: dtype, shape }: PlannedTensor, there: string | undefined): VerifiedTensor {
  if (there === undefined) return { name, status: 'missing', dtype, shape };
  return { name, status: 'tied', dtype, shape, expected: there };
}

function faultOf(name: string, { shape, from }: PlannedTensor, weight: StoredTensor): VerifiedTensor | undefined {
  const found = { name, dtype: weight.dtype, shape: weight.shape };
  const [asked, is] = [`[${shape.join(', ')}]`, `[${weight.shape.join(', ')}]`];
  if (asked !== is) return { ...found, status: 'other-shape', expected: asked, found: is };
  if (roundsTo(from, weight.dtype)) return undefined;
  return { ...found, status: 'other-dtype', expected: from, found: weight.dtype };
}

/** A plan that reads the checkpoint as if to write the weights, with what is there to be compared. It is never written. */
function comparisonPlan(
  inventory: Inventory,
  weights: WeightSet,
  pairs: readonly Pair[],
  options: ResolvedOptions,
): Plan {
  const tensors = pairs.map(({ name, planned, weight }): PlannedTensor => {
    const { shape: _, ...bits } = weight;
    return { ...planned, name, to: weight.dtype, proofs: [{ check: 'weights', ...bits }] };
  });
  const { partitions } = inventory;
  let byteLength = 0;
  const parts: OutputFile['parts'][number][] = [];
  for (const [tensor, { shape, to }] of tensors.entries()) {
    const length = numelOf(shape) * bytesOf(to);
    if (length > 0) parts.push({ kind: 'tensor', at: byteLength, length, tensor });
    byteLength += length;
  }
  const elements = tensors.reduce((sum, { shape }) => sum + numelOf(shape), 0);
  return {
    version: 1,
    options,
    sources: [...inventory.sources, ...weights.files],
    partitions,
    crcs: usedCrcs([...inventory.crcs, ...weights.crcs], partitions, tensors),
    files: [{ path: 'weights', byteLength, parts }],
    tensors,
    aliases: {},
    skipped: [],
    warnings: [],
    checks: [],
    totals: { tensors: tensors.length, elements, outputBytes: byteLength, inputBytes: byteLength },
  };
}

/** Adds up what the tiles of a tensor show. They come in any order. */
function addDifference(differences: Map<number, Difference>, next: Difference): void {
  const before = differences.get(next.tensor);
  const first = before && before.index < next.index ? before : next;
  differences.set(next.tensor, { ...first, count: (before?.count ?? 0) + next.count });
}

function resultOf(name: string, { dtype, shape }: StoredTensor, difference: Difference | undefined): VerifiedTensor {
  if (!difference) return { name, status: 'match', dtype, shape };
  const { index, count, rounded, stored } = difference;
  return { name, status: 'differs', dtype, shape, expected: rounded, found: stored, index, count };
}
