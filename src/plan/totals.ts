import { pieceLength } from '../base/extent.js';
import { numelOf } from '../base/shape.js';
import { piecesOf } from './crcs.js';
import type { OutputFile, PlannedTensor, PlanTotals } from './plan.js';

/** Sums over the tensors and files of a plan. */
export function totalsOf(tensors: readonly PlannedTensor[], files: readonly OutputFile[]): PlanTotals {
  const copied = files.flatMap(({ parts }) => parts).filter(({ kind }) => kind === 'copy');
  return {
    tensors: tensors.length,
    elements: sum(tensors.map(({ shape }) => numelOf(shape))),
    outputBytes: sum(files.map(({ byteLength }) => byteLength)),
    inputBytes: sum(piecesOf(tensors).map(pieceLength)) + sum(copied.map(({ length }) => length)),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
