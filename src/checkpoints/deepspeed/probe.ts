/**
 * Whether bits on disk are those of another tensor: a few blocks of both are read and compared. It decides between two
 * readings of a checkpoint; that the one chosen is right is proven when it is converted.
 *
 * @module
 */

import { bytesOf, isFloat } from '../../base/dtype.js';
import { assert } from '../../base/errors.js';
import { forEachRun, slicePieces } from '../../base/slice.js';
import { readBytes } from '../../io/read.js';
import { compareElements } from '../../numeric/compare.js';
import { convertBytes } from '../../numeric/convert.js';
import type { StoredBits } from '../inventory.js';
import type { Draft } from './draft.js';
import { touchesLost } from './settle.js';

/** Elements compared per block, and blocks spread over a tensor. */
const PROBE_ELEMENTS = 64;
const PROBE_BLOCKS = 8;

/**
 * Compares blocks of `numel` elements of a master, rounded to the dtype of its copy, with the copy. A NaN equals every NaN:
 * which one torch makes of it depends on the processor. False where they cannot be compared.
 */
export async function bitsMatch(
  draft: Draft,
  master: StoredBits,
  copy: StoredBits,
  numel: number,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { dtype: from } = master;
  const { dtype: to } = copy;
  if (touchesLost(draft, master) || !isFloat(from) || !isFloat(to) || to === 'F64' || master.flip || copy.flip)
    return false;
  for (let block = 0; block < PROBE_BLOCKS; block++) {
    const start = Math.floor((block * Math.max(0, numel - PROBE_ELEMENTS)) / (PROBE_BLOCKS - 1));
    const end = Math.min(start + PROBE_ELEMENTS, numel);
    const rounded = convertBytes(await readElements(draft, master, start, end, signal), from, to);
    const expected = await readElements(draft, copy, start, end, signal);
    if (compareElements(to, expected, rounded)) return false;
  }
  return true;
}

/** The bytes of elements `[start, end)` of a tensor. */
async function readElements(
  draft: Draft,
  { dtype, pieces }: StoredBits,
  start: number,
  end: number,
  signal: AbortSignal | undefined,
): Promise<Uint8Array> {
  const size = bytesOf(dtype);
  const bytes = new Uint8Array((end - start) * size);
  const { runs, strided } = slicePieces(pieces, draft.partitions, start * size, end * size);
  const reads = [...runs];
  for (const extent of strided) {
    const { source } = extent;
    forEachRun(extent, start * size, end * size, (offset, at, length) => reads.push({ source, offset, at, length }));
  }
  for (const { source, offset, at, length } of reads) {
    const file = draft.files.get(source);
    assert(file, `source ${source} is not open`);
    bytes.set(await readBytes(file, offset, length, signal), at);
  }
  return bytes;
}
