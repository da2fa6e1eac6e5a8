import { describe, expect, test } from 'vitest';
import { sourceFailure } from '../../../src/io/failures.js';
import { SourcePool } from '../../../src/io/pool.js';
import type { ByteSource } from '../../../src/io/types.js';

/** Files of one byte, of which the system lets `allowed` be open at once. Opening is put off to the first read, as in Node. */
function system(allowed: number) {
  const open = new Set<number>();
  const most = { open: 0, opened: 0 };
  const openFile = async (index: number): Promise<ByteSource> => ({
    name: `${index}.pt`,
    size: 1,
    modified: 0,
    async read(_, into) {
      if (!open.has(index) && open.size >= allowed) throw sourceFailure('source-too-many-open', `${index}.pt`);
      if (!open.has(index)) most.opened++;
      open.add(index);
      most.open = Math.max(most.open, open.size);
      into[0] = index % 256;
    },
    async close() {
      open.delete(index);
    },
  });
  return { open, most, pool: new SourcePool(openFile) };
}

async function readAll(pool: SourcePool, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    const into = new Uint8Array(1);
    await pool.read(index, 0, into, undefined);
    expect(into[0]).toBe(index % 256);
  }
}

describe('a pool of files', () => {
  test('keeps those of a thousand ranks open', async () => {
    const { pool, most } = system(10_000);
    await readAll(pool, 1000);
    await readAll(pool, 1000);
    expect(most).toEqual({ open: 1000, opened: 1000 });
  });

  test('closes those that were not read for longest, beyond its limit', async () => {
    const { pool, open } = system(10_000);
    await readAll(pool, 3000);
    expect(open.size).toBe(2048);
    expect(open.has(2999) && !open.has(0)).toBe(true);
  });

  test('does with fewer where the system refuses more', async () => {
    const { pool, most, open } = system(100);
    await readAll(pool, 1000);
    expect(most.open).toBe(100);
    await pool.close();
    expect(open.size).toBe(0);
  });

  test('passes the refusal on where hardly any file can be open', async () => {
    const { pool } = system(0);
    await expect(pool.read(0, 0, new Uint8Array(1), undefined)).rejects.toMatchObject({
      detail: { code: 'source-too-many-open', facts: { file: '0.pt' } },
    });
  });
});
