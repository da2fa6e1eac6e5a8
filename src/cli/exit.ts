import type { ErrorKind } from '../node.js';

/** Exit code of a conversion that was cancelled, as shells report SIGINT. */
export const EXIT_CANCELLED = 130;

/** Exit code of a fault in Unshard itself. */
export const EXIT_INTERNAL = 1;

/** Exit code of each kind of error, so that scripts can tell them apart. */
export const EXIT_CODES: Readonly<Record<ErrorKind, number>> = {
  usage: 2,
  'not-checkpoint': 3,
  'missing-shard': 4,
  'bad-file': 5,
  inconsistent: 6,
  unsupported: 7,
  overflow: 8,
  source: 9,
  sink: 10,
  gpu: 11,
};
