/**
 * What can be wrong with a partial recovery.
 *
 * @module
 */

import type { ErrorDetail } from '../../base/errors.js';

/** The slices that are there do not tell how large those of lost ranks were. */
export function sizesUnproven(folder: string, ranks: readonly number[]): ErrorDetail {
  const found = ranks.slice(0, 20).join(', ');
  return {
    kind: 'missing-shard',
    code: 'lost-sizes-unproven',
    message: `Nothing in ${folder} proves how large the slices of the lost ranks (${found}) were, so the places of the others are not known.`,
    advice: 'Find the lost files, or take the copies in the model file.',
    facts: { file: folder, found },
  };
}

/** No parameter is left. */
export function nothingRecovered(folder: string, reason: ErrorDetail): ErrorDetail {
  return {
    kind: reason.kind,
    code: 'nothing-recovered',
    message: `Nothing can be recovered from ${folder}: a part of every parameter is lost. ${reason.message}`,
    advice: 'Find the lost files. They may lie on another node, where those ranks ran, or in an older copy.',
    facts: { ...reason.facts, file: folder },
  };
}

/** A file that is to be left out is none of the checkpoint. */
export function lostFileUnknown(folder: string, pattern: string): ErrorDetail {
  return {
    kind: 'usage',
    code: 'lost-file-unknown',
    message: `${folder} holds no checkpoint file ${pattern} that could be ignored.`,
    advice: 'Give its name or its path in the checkpoint, as messages show it.',
    facts: { file: folder, expected: pattern },
  };
}
