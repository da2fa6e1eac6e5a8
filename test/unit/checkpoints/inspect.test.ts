import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import type { InspectProgress } from '../../../src/checkpoints/options.js';
import { run } from '../../../src/engine/run.js';
import { memoryOutput, memoryTree } from '../../../src/io/memory.js';
import { plan } from '../../../src/plan/make.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import type { Role } from '../../helpers/deepspeed/python.js';
import { small } from '../../helpers/deepspeed/small.js';
import type { CheckpointSpec } from '../../helpers/deepspeed/spec.js';
import { type WrittenCheckpoint, writeCheckpoint } from '../../helpers/deepspeed/write.js';
import { rejectionOf } from '../../helpers/errors.js';
import { recordingTree, type TreeRead } from '../../helpers/recording-tree.js';
import { latin1 } from '../../helpers/zip.js';

const STAGES = [0, 1, 2, 3] as const;

/** Parameters that are larger than what a reader may read in passing. */
const LARGE = [[{ name: 'a', shape: [40, 1000] }], [{ name: 'b', shape: [20_001] }]];
const LARGE_ELEMENTS = 60_001;

/** The ends of a file are read without looking: its pickle lies at the one, its directory at the other. */
const END = 2 ** 16 + 8192 + 8;

/** Parameters of files that are much larger than their ends. */
const HUGE = [[{ name: 'w', shape: [240_000] }]];

/** Where a zip record starts shows only when its header was read, so a little more may be read with it. */
const LONGEST_DESCRIPTOR = 24;

const withFrozen = (stage: CheckpointSpec['stage'], more: Partial<CheckpointSpec> = {}) =>
  writeCheckpoint(small(stage, { frozen: [{ name: 'base', shape: [9] }], ...more }));

/** Number of bytes of storages of a role that reads touched. */
function bytesRead(written: WrittenCheckpoint, reads: readonly TreeRead[], role: Role): number {
  let count = 0;
  for (const { path, offset, length } of reads) {
    for (const region of written.regions.get(path) ?? []) {
      const overlap = Math.min(offset + length, region.offset + region.length) - Math.max(offset, region.offset);
      if (region.role === role) count += Math.max(0, overlap);
    }
  }
  return count;
}

/** Number of bytes of storages of a role. */
function bytesOf(written: WrittenCheckpoint, role: Role): number {
  const regions = [...written.regions.values()].flat().filter((region) => region.role === role);
  return regions.reduce((sum, { length }) => sum + length, 0);
}

async function runOf(written: WrittenCheckpoint, options: PlanOptions): Promise<readonly TreeRead[]> {
  const tree = memoryTree(written.files);
  const made = plan(await inspect(tree), { overflow: 'inf', ...options });
  const input = recordingTree(tree);
  await run(made, { input, output: memoryOutput() });
  return input.reads;
}

describe('what is read', () => {
  test.each([1, 2, 3] as const)('to inspect: the ends of files, and no tensor (stage %i)', async (stage) => {
    const written = writeCheckpoint(small(stage, { groups: HUGE }));
    const tree = recordingTree(memoryTree(written.files));
    await inspect(tree);
    const inside = tree.reads.filter(
      ({ path, offset, length }) => offset + length > END && offset < (written.files[path]?.length ?? 0) - END,
    );
    expect(inside.length).toBeGreaterThan(0);
    for (const role of ['weights', 'moments', 'copy'] as const) {
      const records = [...written.regions.values()].flat().filter((region) => region.role === role).length;
      expect(bytesRead(written, inside, role)).toBeLessThanOrEqual(records * LONGEST_DESCRIPTOR);
    }
  });

  test.each(STAGES)('to convert to fp32: every master and no optimizer state (stage %i)', async (stage) => {
    const written = writeCheckpoint(small(stage, { groups: LARGE, ranks: stage === 0 ? 1 : 3 }));
    const reads = await runOf(written, { dtype: 'fp32' });
    expect(bytesOf(written, 'moments')).toBeGreaterThan(2 * 4 * LARGE_ELEMENTS);
    expect(bytesRead(written, reads, 'moments')).toBe(0);
    expect(bytesRead(written, reads, 'weights')).toBeGreaterThanOrEqual(4 * LARGE_ELEMENTS);
  });

  test.each([0, 1, 2] as const)('to convert to the dtype of the model: copies alone (stage %i)', async (stage) => {
    const written = writeCheckpoint(small(stage, { groups: LARGE, ranks: stage === 0 ? 1 : 3 }));
    const reads = await runOf(written, { dtype: 'bf16' });
    expect(reads.filter(({ path }) => path.includes('optim_states'))).toEqual([]);
    expect(bytesRead(written, reads, 'weights')).toBe(0);
    // Every element once; the padding of the flat buffer, where there is one, is known to be zeros by its CRC-32.
    expect(bytesRead(written, reads, 'copy')).toBe(2 * LARGE_ELEMENTS);
    expect(bytesRead(written, await runOf(written, { dtype: 'fp16' }), 'weights')).toBeGreaterThan(0);
  });

  test('to tell padding: the last elements, where the version leaves some', async () => {
    const readBy = async (version: string) => {
      const written = writeCheckpoint(small(2, { version, container: 'legacy', groups: LARGE }));
      const tree = recordingTree(memoryTree(written.files));
      await inspect(tree);
      const reads = tree.reads.filter(({ offset }) => offset > 0);
      return bytesRead(written, reads, 'weights');
    };
    // 40,000 and 20,001 elements on 3 ranks: 2 and 3 of padding, of which 0.6.5 strips 2 and none.
    expect(await readBy('0.6.5')).toBe(3 * 4);
    expect(await readBy('0.7.0')).toBe(0);
  });
});

describe('the signal', () => {
  // The optimizer's padding and the masters of stage 0 are read too, each in its own place.
  test.each(STAGES)('reaches every read of inspect and run (stage %i)', async (stage) => {
    const { signal } = new AbortController();
    const written = withFrozen(stage, { version: '0.6.0', ranks: stage === 0 ? 1 : 3 });
    const beside = { 'config.json': latin1('{}'), latest: latin1('global_step7'), 'pytorch_model.bin': latin1('PK') };
    const tree = recordingTree(memoryTree({ ...written.files, ...beside }));
    const made = plan(await inspect(tree, { signal }), { overflow: 'inf' });
    await run(made, { input: tree, output: memoryOutput(), signal });
    const read = new Set(tree.reads.map(({ path }) => path));
    expect([...read]).toEqual(expect.arrayContaining([...Object.keys(written.files), ...Object.keys(beside)]));
    expect(tree.reads.filter((entry) => entry.signal !== signal)).toEqual([]);
  });

  test('stops inspect between any two reads, and every file is closed', async () => {
    const { files } = withFrozen(3);
    const control = recordingTree(memoryTree(files));
    await inspect(control);
    for (let after = 0; after < control.reads.length; after++) {
      const controller = new AbortController();
      const tree = recordingTree(memoryTree(files), (count) => {
        if (count > after) controller.abort(new Error('stopped'));
      });
      await expect(inspect(tree, { signal: controller.signal })).rejects.toThrow('stopped');
      expect(tree.unclosed.size).toBe(0);
    }
  });
});

describe('files', () => {
  test('are all closed after inspect', async () => {
    const tree = recordingTree(memoryTree({ ...withFrozen(3).files, latest: latin1('global_step7') }));
    await inspect(tree);
    expect(tree.unclosed.size).toBe(0);
  });

  test('are all closed where one of them is damaged', async () => {
    const { files } = withFrozen(3);
    for (const path of Object.keys(files)) {
      const tree = recordingTree(memoryTree({ ...files, [path]: latin1('no torch file') }));
      expect(await rejectionOf(inspect(tree))).toMatchObject({ kind: 'bad-file', facts: { file: path } });
      expect(tree.unclosed.size).toBe(0);
    }
  });

  test('are counted as they are opened', async () => {
    const seen: InspectProgress[] = [];
    const { files } = withFrozen(3);
    await inspect(memoryTree(files), { onProgress: (progress) => seen.push(progress) });
    expect(seen.map(({ done, total }) => [done, total])).toEqual([1, 2, 3, 4, 5, 6].map((done) => [done, 6]));
    expect(new Set(seen.map(({ file }) => file))).toEqual(new Set(Object.keys(files)));
  });
});

test('files of a format without checksums are told of, once', async () => {
  const warningsOf = async (container: 'zip' | 'legacy') =>
    (await inspect(memoryTree(writeCheckpoint(small(2, { container })).files))).warnings;
  const [told, ...more] = await warningsOf('legacy');
  expect({ code: told?.code, more }).toEqual({ code: 'legacy-no-crcs', more: [] });
  expect(told?.message).toMatch(/: 4 of 4 files \(global_step7\/\S+\.pt, …\)\. /);
  expect(await warningsOf('zip')).toEqual([]);
});

test('the elements of an inventory are those of its tensors, tied ones once', async () => {
  const { files } = writeCheckpoint(small(2, { tied: [['tied', 'embed.weight']] }));
  expect((await inspect(memoryTree(files))).facts).toMatchObject({ elements: 39, globalSteps: 7 });
});
