/**
 * Whether downloads fit: each file is made in the browser's own storage, which has a limit, before it can be saved.
 *
 * @module
 */

import type { FileView } from '../worker/protocol.js';
import { formatBytes } from './format.js';

/** How the files of a plan fit into the bytes that are free. */
export type Fit =
  | { readonly kind: 'fits' }
  /** Every file fits, but not all together: the run has to wait in between. */
  | { readonly kind: 'in-turns'; readonly text: string }
  | { readonly kind: 'too-large'; readonly text: string };

/** Holds files against the space. `free` is undefined where it cannot be found out: then the run has to. */
export function fitOf(files: readonly FileView[], free: number | undefined): Fit {
  if (free === undefined) return { kind: 'fits' };
  const [largest] = files.toSorted((a, b) => b.byteLength - a.byteLength);
  const all = files.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (!largest || all <= free) return { kind: 'fits' };
  if (largest.byteLength > free) {
    const text = `${largest.path} needs ${formatBytes(largest.byteLength)}, and the browser’s storage has ${formatBytes(free)} free.`;
    return { kind: 'too-large', text };
  }
  const text = `The files need ${formatBytes(all)} in all, and the browser’s storage has ${formatBytes(free)} free. The run will wait in between, until you say that the first files are saved.`;
  return { kind: 'in-turns', text };
}
