/**
 * What the table of tensors shows: the rows that a search finds, and those of them that are in sight.
 *
 * @module
 */

import type { TensorRow } from '../worker/protocol.js';

/** Height of a row in CSS pixels; the style sheet has the same number. */
export const ROW_HEIGHT = 30;

/** Most rows that the window on the table shows. */
const WINDOW_ROWS = 20;

/** Rows drawn above and below the window, so that scrolling shows no gap. */
const SPARE_ROWS = 10;

/** The rows `[first, end)` to draw when the table of `count` rows is scrolled by `top` pixels. */
export function rowsInSight(count: number, top: number): { readonly first: number; readonly end: number } {
  const drawn = WINDOW_ROWS + 2 * SPARE_ROWS;
  const wanted = Math.min(Math.floor(top / ROW_HEIGHT) - SPARE_ROWS, count - drawn);
  // Even, so that the stripes of the rows stay where they are.
  const first = Math.max(0, wanted - (wanted % 2));
  return { first, end: Math.min(count, first + drawn + 1) };
}

/** The rows whose name holds every word of the query, whatever its case. */
export function search(tensors: readonly TensorRow[], query: string): readonly TensorRow[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return tensors;
  return tensors.filter(({ name }) => {
    const lower = name.toLowerCase();
    return words.every((word) => lower.includes(word));
  });
}
