/**
 * Stage 1 before 0.4.0, and `legacy_stage1` to 0.5.8: the flat buffer of a group is cut into small pieces that are dealt
 * to the ranks like cards, piece `k` to rank `k % ranks`. A rank saves a list of its pieces for each group.
 *
 * @module
 */

import { TorchTensor } from '../../formats/torch/tensor.js';
import type { OptimStates } from './states.js';

/**
 * The ranks once for every round of the deal, each with its piece of that round: in this order the pieces join to the flat
 * buffers, as the slices of other versions do. Other versions are given back as they are.
 */
export function dealtRanks(optims: readonly OptimStates[]): readonly OptimStates[] {
  const pieces = optims.flatMap(({ subPartitions }) => subPartitions ?? []);
  const rounds = pieces.reduce((most, { length }) => Math.max(most, length), 0);
  if (rounds === 0) return optims;
  const partitionCounts = [optims.length * rounds];
  return Array.from({ length: rounds }, (_, round) =>
    optims.map((optim) => ({ ...optim, partitionCounts, flatGroups: piecesOf(optim, round) })),
  ).flat();
}

/** A rank's piece of each group, an empty one where the group had fewer rounds: groups keep their numbers. */
function piecesOf({ subPartitions = [] }: OptimStates, round: number): TorchTensor[] {
  const any = subPartitions.flat()[0];
  return subPartitions.flatMap((group) => group[round] ?? (any ? emptyLike(any) : []));
}

function emptyLike(tensor: TorchTensor): TorchTensor {
  return new TorchTensor(tensor.dtype, [0], [1], 0, tensor.storage, undefined);
}

/**
 * Elements that may follow the last parameter of a group: less than two for each rank, or for pieces that were dealt, what
 * it takes to fill the last round.
 */
export function paddingLimit(optims: readonly OptimStates[], group: number): number {
  const [first] = optims;
  const rounds = first?.subPartitions?.reduce((most, { length }) => Math.max(most, length), 0);
  if (!rounds) return 2 * optims.length;
  const piece = first?.subPartitions?.[group]?.[0]?.numel ?? 0;
  return (optims.length / rounds) * (piece + 1);
}
