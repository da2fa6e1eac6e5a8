import { expect } from 'vitest';
import type { ErrorDetail } from '../../../src/base/errors.js';
import { inspect } from '../../../src/checkpoints/inspect.js';
import type { Inventory } from '../../../src/checkpoints/inventory.js';
import { memoryTree } from '../../../src/io/memory.js';
import { expectedOf, toSafetensors } from './convert.js';
import type { CheckpointSpec } from './spec.js';
import { type WrittenCheckpoint, writeCheckpoint } from './write.js';

/** Inspects the checkpoint of a spec. */
export function inspectSpec(spec: CheckpointSpec): Promise<Inventory> {
  return inspect(memoryTree(writeCheckpoint(spec).files));
}

/** Converts the checkpoint of a spec to fp32 and expects every tensor and tied name of it. */
export async function expectWhole(spec: CheckpointSpec): Promise<WrittenCheckpoint> {
  const written = writeCheckpoint(spec);
  expect(await toSafetensors(written.files)).toEqual(expectedOf(written, 'F32'));
  return written;
}

/** What a test compares of a problem. */
export type ProblemSummary = Pick<ErrorDetail, 'code' | 'facts'>;

/** Code and facts of each problem of a checkpoint. */
export async function problemsOf(files: Readonly<Record<string, Uint8Array>>): Promise<ProblemSummary[]> {
  const { problems } = await inspect(memoryTree(files));
  return problems.map(({ code, facts }) => ({ code, facts }));
}

/** Code and facts of each problem of a spec. */
export function problemsIn(spec: CheckpointSpec): Promise<ProblemSummary[]> {
  return problemsOf(writeCheckpoint(spec).files);
}

/** Files without the named ones. */
export function without(
  files: Readonly<Record<string, Uint8Array>>,
  ...paths: readonly string[]
): Record<string, Uint8Array> {
  return Object.fromEntries(Object.entries(files).filter(([path]) => !paths.includes(path)));
}
