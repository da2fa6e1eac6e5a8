/**
 * A checkpoint of two ranks in memory, for tests that run plans of it in parts: every master lies beside others, one over
 * both files, and has a copy.
 *
 * @module
 */

import { crc32 } from '../../src/base/crc32.js';
import type { Inventory } from '../../src/checkpoints/inventory.js';
import { plan } from '../../src/plan/make.js';
import type { Plan, PlanOptions } from '../../src/plan/plan.js';
import { inventoryOf } from './inventory.js';
import { patternBytes } from './pattern.js';

/** Number of elements of each tensor. */
const ELEMENTS = 600;

/** Names of the tensors. */
export const NAMES: readonly string[] = ['a', 'b', 'c', 'd', 'e'];

const values = Float32Array.from({ length: NAMES.length * ELEMENTS }, (_, i) => (i % 200) / 8 - 12);
const masters = new Uint8Array(values.buffer);

/** Values of few bits: in bf16 they are the upper half of each fp32. */
export const COPIES: Uint8Array<ArrayBuffer> = new Uint8Array(values.length * 2);
for (const i of values.keys()) COPIES.set(masters.subarray(i * 4 + 2, i * 4 + 4), i * 2);

/** Bytes of each of the two files of masters. */
export const HALF: number = masters.length / 2;

/** The files of the checkpoint. */
export const FILES = {
  'rank0.pt': masters.slice(0, HALF),
  'rank1.pt': masters.slice(HALF),
  'model.pt': COPIES,
  'tokenizer.json': patternBytes(5, 70),
};

const paths = Object.keys(FILES) as (keyof typeof FILES)[];

/** What inspecting it would find. The CRC-32 of every file but the last is recorded. */
export const INVENTORY: Inventory = inventoryOf(
  NAMES.map((name, i) => {
    const [start, end] = [i * ELEMENTS * 4, (i + 1) * ELEMENTS * 4];
    const pieces = [
      { source: 0, from: start, to: Math.min(end, HALF), base: 0 },
      { source: 1, from: Math.max(start, HALF), to: end, base: HALF },
    ].flatMap(({ source, from, to, base }) =>
      from < to ? [{ source, offset: from - base, length: to - from, at: from - start }] : [],
    );
    const copy = [{ source: 2, offset: i * ELEMENTS * 2, length: ELEMENTS * 2, at: 0 }];
    return {
      name,
      shape: [ELEMENTS],
      origin: 'master',
      stored: { dtype: 'F32', pieces },
      copy: { dtype: 'BF16', pieces: copy },
    };
  }),
  {
    sources: paths.map((path) => ({ path, size: FILES[path].length, modified: 0 })),
    crcs: paths.slice(0, 3).map((path, source) => ({
      source,
      offset: 0,
      length: FILES[path].length,
      crc32: crc32(FILES[path]),
    })),
    companions: [{ source: 3, name: 'tokenizer.json' }],
  },
);

/** A plan of the checkpoint, by default of a file for each tensor. */
export function planOf(options: PlanOptions = {}, more: Partial<Inventory> = {}): Plan {
  return plan({ ...INVENTORY, ...more }, { maxShardSize: 1500, ...options });
}

/** The part of three that a file of a plan is in: the largest first, each to the part with the fewest bytes. */
export function partOfThree({ files }: Plan, path: string): number {
  const bytes = [0, 0, 0];
  const order = files.filter(({ afterOthers }) => !afterOthers).toSorted((a, b) => b.byteLength - a.byteLength);
  for (const file of order) {
    const least = bytes.indexOf(Math.min(...bytes));
    bytes[least] = (bytes[least] ?? 0) + file.byteLength;
    if (file.path === path) return least;
  }
  return -1;
}
