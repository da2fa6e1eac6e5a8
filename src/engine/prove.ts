/**
 * What the comparisons of a run prove, in words: the error where one fails, and the lines of the report.
 *
 * @module
 */

import { bytesOf } from '../base/dtype.js';
import { UnshardError } from '../base/errors.js';
import { type Piece, pieceLength } from '../base/extent.js';
import { numelOf } from '../base/shape.js';
import { slicePieces } from '../base/slice.js';
import { counted } from '../base/words.js';
import type { CheckReport } from '../checkpoints/inventory.js';
import type { Plan, PlannedTensor } from '../plan/plan.js';
import { assertUndamaged } from './audit.js';
import type { Difference, FillContext } from './fill.js';
import { plannedTensor } from './tiles.js';

/** What a check compares: the stored bits, for sentences, and what a difference may come from. */
interface Kind {
  readonly what: string;
  readonly advice: string;
}

const ALL_THE_SAME = 'With verification switched off it is converted all the same.';

const KINDS: ReadonlyMap<string, Kind> = new Map([
  [
    'master-copy',
    {
      what: 'the copy in the model file',
      advice: `The shards may be of different steps or runs, or of ranks in another order. ${ALL_THE_SAME}`,
    },
  ],
  [
    'master-gathered',
    {
      what: 'the gathered weights beside the checkpoint',
      advice: `The shards may be of different steps or runs; or that file is of another step, and should be moved away. ${ALL_THE_SAME}`,
    },
  ],
  [
    'replicated',
    {
      what: 'the copies of other ranks or stages',
      advice: `Files may be of different steps or runs; or the copies were trained apart, as norms are under sequence parallelism, and want their average (--tp-rule PATTERN=average). ${ALL_THE_SAME}`,
    },
  ],
  [
    'frozen-copy',
    {
      what: 'the state dict of the model file',
      advice: `The file was edited, or parameters changed while it was saved. ${ALL_THE_SAME}`,
    },
  ],
]);

const OTHER: Kind = { what: 'its second copy', advice: `The files may be of different steps or runs. ${ALL_THE_SAME}` };

/**
 * Throws where a tile showed a difference. Files that record CRC-32s are read first, since a damaged file is another
 * matter than files that do not belong together.
 *
 * @throws UnshardError `crc-mismatch`; else of kind `inconsistent`, with the id of the check and `-differs` as its code.
 */
export async function assertProven(context: FillContext, [first]: readonly Difference[]): Promise<void> {
  if (!first) return;
  const { plan, audit, sources, signal } = context;
  const { tensor, proof, dtype, index, count, stored, rounded } = first;
  const { check } = proof;
  const { name, shape, from, pieces } = plannedTensor(plan, tensor);
  const places = [placeOf(plan, pieces, index * bytesOf(from)), placeOf(plan, proof.pieces, index * bytesOf(dtype))];
  if (audit) await assertUndamaged(plan.crcs, places, sources, plan.sources, signal);
  const [file = '', other = ''] = places.map(({ source }) => plan.sources[source]?.path);
  const { what, advice } = KINDS.get(check) ?? OTHER;
  throw new UnshardError({
    kind: 'inconsistent',
    code: `${check}-differs`,
    message: `${name} [${shape.join(', ')}]: element ${index} is ${rounded} as ${dtype} in ${file}, and ${stored} in ${what} (${other}). Elements of this part of the tensor that differ: ${count}.`,
    advice,
    facts: { tensor: name, file, other, index, expected: stored, found: rounded, count },
  });
}

/** What the comparisons of a finished run have proven: a line for each check, and one for masters that had none. */
export function proofReports({ tensors }: Plan): CheckReport[] {
  const byCheck = new Map<string, PlannedTensor[]>();
  for (const tensor of tensors) {
    for (const check of new Set((tensor.proofs ?? []).map((proof) => proof.check))) {
      const proven = byCheck.get(check);
      if (proven) proven.push(tensor);
      else byCheck.set(check, [tensor]);
    }
  }
  const passed = [...byCheck].map(([id, proven]): CheckReport => {
    const { what } = KINDS.get(id) ?? OTHER;
    return {
      id,
      status: 'passed',
      detail: `Equal to ${what} bit for bit, once rounded to its dtype: ${countOf(proven)}.`,
    };
  });
  const unproven = unprovenMasters(tensors);
  if (unproven === undefined) return passed;
  const [copies] = passed.filter(({ id }) => id === 'master-copy');
  if (!copies) return [...passed, { id: 'master-copy', status: 'not-checkable', detail: unproven }];
  return passed.map((report) => (report === copies ? { ...report, detail: `${report.detail} ${unproven}` } : report));
}

/** Why masters could not be compared; undefined where all were. */
function unprovenMasters(tensors: readonly PlannedTensor[]): string | undefined {
  const computed = tensors.filter(({ compute }) => compute !== undefined);
  const masters = tensors.filter(({ origin, compute }) => origin === 'master' || compute !== undefined);
  if (masters.length === 0) return 'No master weights were read.';
  const unproven = masters.filter(({ proofs = [] }) => !proofs.some(({ check }) => check.startsWith('master-')));
  if (unproven.length === 0) return undefined;
  const taken = unproven.filter(({ fromCopy }) => fromCopy);
  const others = unproven.filter(({ fromCopy, compute }) => !fromCopy && compute === undefined);
  const sentences = [
    taken.length > 0 && `Taken from the 16-bit copy itself, without reading the masters: ${countOf(taken)}.`,
    computed.length > 0 && `Computed, and what from was not compared: ${countOf(computed)}.`,
    others.length > 0 && `Without a second copy in the checkpoint to compare their masters with: ${countOf(others)}.`,
  ];
  return sentences.filter(Boolean).join(' ');
}

function countOf(tensors: readonly PlannedTensor[]): string {
  const elements = tensors.reduce((sum, { shape }) => sum + numelOf(shape), 0);
  return `${counted(tensors.length, 'tensor')} of ${counted(elements, 'element')}`;
}

/** The plan with nothing to compare. */
export function withoutProofs(plan: Plan): Plan {
  const proofBytes = plan.tensors
    .flatMap(({ proofs = [] }) => proofs)
    .reduce((sum, { pieces }) => sum + pieces.reduce((bytes, piece) => bytes + pieceLength(piece), 0), 0);
  return {
    ...plan,
    tensors: plan.tensors.map(({ proofs: _, ...tensor }) => tensor),
    totals: { ...plan.totals, inputBytes: plan.totals.inputBytes - proofBytes },
  };
}

/** Where the byte at `offset` of a tensor lies. Of strided bytes, where the first of them do. */
function placeOf(plan: Plan, pieces: readonly Piece[], offset: number): { source: number; offset: number } {
  const { runs, strided } = slicePieces(pieces, plan.partitions, offset, offset + 1);
  const [first] = [...runs, ...strided];
  return { source: first?.source ?? -1, offset: first?.offset ?? 0 };
}
