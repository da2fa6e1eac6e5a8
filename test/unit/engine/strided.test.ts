import { describe, expect, test } from 'vitest';
import { crc32 } from '../../../src/base/crc32.js';
import type { Extent } from '../../../src/base/extent.js';
import type { TensorEntry } from '../../../src/checkpoints/inventory.js';
import { run } from '../../../src/engine/run.js';
import { memoryOutput, memoryTree } from '../../../src/io/memory.js';
import { plan } from '../../../src/plan/make.js';
import { rejectionOf } from '../../helpers/errors.js';
import { inventoryOf } from '../../helpers/inventory.js';
import { patternBytes } from '../../helpers/pattern.js';
import { readSafetensors, sha256 } from '../../helpers/safetensors.js';

// Larger than what is read in the end to fill gaps, so that only what the tensor reads can be checked.
const ROWS = 20_000;
const WIDTHS = [256, 128];
const WIDTH = 384;
const FILES = WIDTHS.map((width, i) => patternBytes(i, ROWS * width));
const TREE = memoryTree(Object.fromEntries(FILES.map((bytes, i) => [`rank${i}.pt`, bytes])));

/** The shards of two row-parallel ranks, side by side in every row. */
const SHARDS: readonly Extent[] = WIDTHS.map((length, source) => ({
  source,
  offset: 0,
  length,
  at: source * (WIDTHS[0] ?? 0),
  repeat: [{ count: ROWS, from: length, to: WIDTH }],
}));

function planOf(pieces: readonly Extent[], crcs: readonly number[]) {
  const tensor: TensorEntry = {
    name: 'w',
    shape: [ROWS, WIDTH],
    origin: 'module',
    stored: { dtype: 'U8', pieces },
  };
  return plan(
    inventoryOf([tensor], {
      sources: FILES.map(({ length: size }, i) => ({ path: `rank${i}.pt`, size, modified: 0 })),
      crcs: crcs.map((crc, source) => ({ source, offset: 0, length: FILES[source]?.length ?? 0, crc32: crc })),
    }),
  );
}

const CRCS = FILES.map((bytes) => crc32(bytes));

describe('rows that are put together of shards', () => {
  test('have every byte at its place, and the CRC-32s of their files are checked', async () => {
    const output = memoryOutput();
    const { checks } = await run(planOf(SHARDS, CRCS), { input: TREE, output });
    const whole = new Uint8Array(ROWS * WIDTH);
    for (let row = 0; row < ROWS; row++) {
      for (const [i, width] of WIDTHS.entries()) {
        const bytes = FILES[i]?.subarray(row * width, (row + 1) * width) ?? [];
        whole.set(bytes, row * WIDTH + i * (WIDTHS[0] ?? 0));
      }
    }
    const { tensors } = readSafetensors(Buffer.from(output.files.get('model.safetensors') ?? []));
    expect(tensors.get('w')?.sha256).toBe(sha256(whole));
    expect(checks.find(({ id }) => id === 'input-crc32')).toEqual({
      id: 'input-crc32',
      status: 'passed',
      detail: 'CRC-32 of 2 storages equals what their files record.',
    });
  });

  test('are refused where a file is damaged', async () => {
    const damaged = planOf(SHARDS, [CRCS[0] ?? 0, 5]);
    expect(await rejectionOf(run(damaged, { input: TREE, output: memoryOutput() }))).toMatchObject({
      code: 'crc-mismatch',
      facts: { file: 'rank1.pt' },
    });
  });
});
