/** What is left of a checkpoint without the files of some ranks, by the description of the layouts. */

import { decodeFloats, encodeFloats } from '../naive-floats.js';
import { cutFlat, shareOf } from './flat.js';
import { flatGroups, totalOf } from './layout.js';
import { type CheckpointSpec, type ExpectedTensor, type Param, sizeOf } from './spec.js';
import { modelName, optimName, type WrittenCheckpoint } from './write.js';

/** Path of the optimizer file of a rank. */
export function optimPath(spec: CheckpointSpec, rank: number): string {
  return `${spec.folder ?? 'global_step7'}/${optimName(spec, rank)}`;
}

/** Path of the model file of a rank. */
export function modelPath(spec: CheckpointSpec, rank: number): string {
  return `${spec.folder ?? 'global_step7'}/${modelName(spec, rank)}`;
}

/** Names of the trained parameters of which the optimizer file of a rank holds elements. */
export function heldBy(spec: CheckpointSpec, rank: number): Set<string> {
  if (spec.stage === 3)
    return new Set(spec.groups.flat().flatMap((param) => (hasShare(spec, param, rank) ? [param.name] : [])));
  return new Set(
    flatGroups(spec).flatMap((group) => {
      const { partition } = cutFlat(totalOf(group), spec.ranks, spec.version);
      let at = 0;
      return group.flatMap((param) => {
        const [first, end] = [at, at + sizeOf(param)];
        at = end;
        const isHeld = first < end && first < (rank + 1) * partition && end > rank * partition;
        return isHeld ? [param.name] : [];
      });
    }),
  );
}

function hasShare(spec: CheckpointSpec, param: Param, rank: number): boolean {
  return rank * shareOf(param, spec.ranks) < sizeOf(param);
}

/** The trained parameters of which one of some optimizer files holds elements. */
export function heldByAny(spec: CheckpointSpec, ranks: readonly number[]): Set<string> {
  return new Set(ranks.flatMap((rank) => [...heldBy(spec, rank)]));
}

/** The frozen parameters of which one of some model files of stage 3 holds elements. */
export function frozenHeldBy(spec: CheckpointSpec, ranks: readonly number[]): Set<string> {
  const held = (spec.frozen ?? []).filter((param) => ranks.some((rank) => hasShare(spec, param, rank)));
  return new Set(held.map(({ name }) => name));
}

/** What must come out where some tensors are the copies of the model file. */
export function withCopies(
  { masterDtype = 'F32', modelDtype }: Pick<CheckpointSpec, 'masterDtype' | 'modelDtype'>,
  written: Pick<WrittenCheckpoint, 'expected' | 'aliases'>,
  names: ReadonlySet<string>,
) {
  const expected = [...written.expected].map(([name, tensor]): [string, ExpectedTensor] => {
    if (!names.has(name)) return [name, tensor];
    return [
      name,
      { ...tensor, dtype: modelDtype, bytes: encodeFloats(modelDtype, decodeFloats(masterDtype, tensor.bytes)) },
    ];
  });
  return { expected: new Map(expected), aliases: written.aliases };
}

/** What must come out without some tensors, and the names tied to them. */
export function withoutTensors(written: WrittenCheckpoint, names: ReadonlySet<string>) {
  const aliases = Object.entries(written.aliases).filter(([, owner]) => !names.has(owner));
  return {
    expected: new Map([...written.expected].filter(([name]) => !names.has(name))),
    aliases: Object.fromEntries(aliases),
  };
}

/** True where the slices that are left of each group are none, or more than one: then they tell how long a slice is. */
export function provesSizes(spec: CheckpointSpec, lost: readonly number[]): boolean {
  const left = Array.from({ length: spec.ranks }, (_, rank) => rank).filter((rank) => !lost.includes(rank));
  return flatGroups(spec).every((group) => {
    const { saved } = cutFlat(totalOf(group), spec.ranks, spec.version, spec.bf16Optimizer);
    const filled = left.filter((rank) => (saved[rank] ?? 0) > 0);
    return filled.length !== 1 || spec.bf16Optimizer === true;
  });
}
