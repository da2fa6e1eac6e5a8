import { closeSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { slicePieces } from '../../src/base/slice.js';
import { inspect, openFolder, plan } from '../../src/node.js';
import type { Precision } from './checkpoint/expected.js';

/** Bytes of one read. */
const BLOCK = 2 ** 24;

/**
 * Gives a function that reads what a conversion will read, and nothing else, so that it finds the bytes in the page
 * cache: what is compared is the program with `cp`, not with the disk. `cp` finds its source there as well.
 */
export async function warmer(checkpoint: string, precision: Precision): Promise<() => void> {
  const made = plan(await inspect(await openFolder(checkpoint)), { dtype: precision });
  const runs = made.tensors.flatMap((tensor) => {
    const proofs = tensor.proofs?.flatMap((proof) => proof.pieces) ?? [];
    return slicePieces([...tensor.pieces, ...proofs], made.partitions, 0, Number.MAX_SAFE_INTEGER).runs;
  });
  const files = made.sources.map(({ path }) => join(checkpoint, path));
  return () => {
    const block = Buffer.alloc(BLOCK);
    for (const [source, path] of files.entries()) {
      const file = openSync(path, 'r');
      for (const run of runs.filter((candidate) => candidate.source === source)) {
        for (let at = 0; at < run.length; at += BLOCK) {
          readSync(file, block, 0, Math.min(BLOCK, run.length - at), run.offset + at);
        }
      }
      closeSync(file);
    }
  };
}
