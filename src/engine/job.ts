/**
 * The rules of a conversion job, checked in one place for every backend: a shader does not notice a piece that reaches
 * beyond its input.
 *
 * @module
 */

import { bytesOf } from '../base/dtype.js';
import { assert } from '../base/errors.js';
import type { ConvertJob } from './backend.js';

/** Throws where a job breaks the contract of `ConvertJob`. That is a defect of the caller, never of a checkpoint. */
export function checkJob({ from, to, input, pieces, output, slots }: ConvertJob): void {
  assert(from !== to, `a job converts ${from} to itself`);
  let elements = 0;
  for (const piece of pieces) {
    const end = piece.input + piece.count * bytesOf(from);
    assert(piece.output === elements, `a piece starts at element ${piece.output}, the one before ends at ${elements}`);
    assert(piece.count >= 0, `a piece has ${piece.count} elements`);
    assert(
      piece.input >= 0 && end <= input.byteLength,
      `a piece is bytes [${piece.input}, ${end}) of ${input.byteLength} bytes of input`,
    );
    assert(piece.slot >= 0 && piece.slot < slots, `a piece names slot ${piece.slot} of ${slots}`);
    elements += piece.count;
  }
  const wanted = elements * bytesOf(to);
  assert(output.byteLength === wanted, `the pieces make ${wanted} bytes, the output has ${output.byteLength}`);
}
