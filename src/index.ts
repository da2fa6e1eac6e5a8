/**
 * Unshard as a library: inspect a checkpoint, plan a conversion, run it; or get full weights in memory.
 *
 * @example
 * const inventory = await inspect(tree);
 * const made = plan(inventory, { dtype: 'bf16' });
 * const report = await run(made, { input: tree, output });
 *
 * @module
 */

import type { GpuBackend, GpuOptions } from './engine/gpu/backend.js';

export type { DType, FloatDType, TargetDType } from './base/dtype.js';
export { type ErrorDetail, type ErrorKind, isAbort, isUnshardError, UnshardError } from './base/errors.js';
export type { Extent, Partition, Piece, RankCut, Repeat } from './base/extent.js';
export { canBeLost } from './checkpoints/deepspeed/files.js';
export { inspect } from './checkpoints/inspect.js';
export type {
  CheckpointFacts,
  CheckReport,
  Companion,
  Inventory,
  Layout,
  Notice,
  Origin,
  Problem,
  Proof,
  RecordedCrc,
  SkippedTensor,
  SourceFile,
  StoredBits,
  TagChoice,
  TensorEntry,
} from './checkpoints/inventory.js';
export { blockingProblems } from './checkpoints/inventory.js';
export { mergeTrees } from './checkpoints/merge-trees.js';
export type { FirstFacts, InspectOptions, InspectProgress, TpMerge, TpRule } from './checkpoints/options.js';
export type { Backend, ConvertJob, ConvertStats } from './engine/backend.js';
export {
  type BackendChoice,
  type BackendDecision,
  type CalibrateOptions,
  calibrate,
  type Rate,
} from './engine/calibrate.js';
export {
  type ConsolidatedWeights,
  type ConsolidateOptions,
  consolidateWeights,
  type NamedWeight,
  type Weight,
} from './engine/consolidate.js';
export { cpuBackend } from './engine/cpu.js';
export type { GpuBackend, GpuOptions } from './engine/gpu/backend.js';
export { type FinishOptions, finish } from './engine/parts/finish.js';
export type { Part } from './engine/parts/parts.js';
export type { BackendReport, FileReport, Report, RunProgress, TensorReport } from './engine/report.js';
export { type RunOptions, run } from './engine/run.js';
export type { Threads } from './engine/threads/threads.js';
export {
  type VerifiedTensor,
  type VerifyOptions,
  type VerifyProgress,
  type VerifyReport,
  type VerifyStatus,
  verify,
} from './engine/verify.js';
export { blobSource } from './io/blob.js';
export { fileListTree } from './io/files.js';
export { directoryOutput, directoryTree } from './io/handles.js';
export { memoryOutput, memoryTree } from './io/memory.js';
export { opfsOutput } from './io/opfs.js';
export type { ByteSink, ByteSource, FileTree, OutputTree, SharedOutput, TreeEntry } from './io/types.js';
export { hashPlan } from './plan/hash.js';
export { adaptersOf } from './plan/lora.js';
export { plan } from './plan/make.js';
export { offeredPrefix, type PrefixOffer } from './plan/names.js';
export { parsePlan } from './plan/parse.js';
export type {
  Compute,
  LoraOptions,
  OutputFile,
  OutputFormat,
  OutputKind,
  OutputPart,
  OverflowPolicy,
  Plan,
  PlannedTensor,
  PlanOptions,
  PlanTotals,
  Precision,
  ResolvedOptions,
} from './plan/plan.js';

/**
 * Opens the WebGPU backend; undefined where there is no adapter. The shaders are loaded with the first call.
 *
 * @throws UnshardError of kind `gpu` when there is an adapter and its device cannot be had.
 */
export async function openGpuBackend(options: GpuOptions = {}): Promise<GpuBackend | undefined> {
  const gpu = await import('./engine/gpu/backend.js');
  return gpu.openGpuBackend(options);
}
