import type { Inventory, TensorEntry } from '../../src/checkpoints/inventory.js';

/** An inventory of two ranks of 1,000 bytes each, with the given tensors; everything else is empty. */
export function inventoryOf(tensors: readonly TensorEntry[], more: Partial<Inventory> = {}): Inventory {
  const tag = { tag: 'global_step1', path: 'global_step1', latest: true };
  return {
    folder: 'run',
    layout: 'deepspeed-zero2',
    tag,
    tags: [tag],
    sources: [
      { path: 'global_step1/rank0.pt', size: 1000, modified: 1 },
      { path: 'global_step1/rank1.pt', size: 1000, modified: 1 },
    ],
    partitions: [
      [
        { source: 0, offset: 100 },
        { source: 1, offset: 200 },
      ],
    ],
    crcs: [],
    tensors,
    aliases: {},
    skipped: [],
    warnings: [],
    problems: [],
    checks: [],
    companions: [],
    facts: { ranks: 2, elements: 0, uninterpretedObjects: 0, dangerousGlobals: [] },
    ...more,
  };
}

/** A master of `count` fp32 elements at `offset` of the first source, with a bf16 copy in the second where asked. */
export function masterOf(name: string, count: number, offset: number, withCopy = false): TensorEntry {
  const copy = { dtype: 'BF16', pieces: [{ source: 1, offset, length: count * 2, at: 0 }] } as const;
  return {
    name,
    shape: [count],
    origin: 'master',
    stored: { dtype: 'F32', pieces: [{ source: 0, offset, length: count * 4, at: 0 }] },
    ...(withCopy ? { copy } : {}),
  };
}
