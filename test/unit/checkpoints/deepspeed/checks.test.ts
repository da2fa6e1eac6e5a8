import { describe, expect, test } from 'vitest';
import { inspect } from '../../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../../src/io/memory.js';
import { openFolder } from '../../../../src/io/node.js';
import { inspectSpec, without } from '../../../helpers/deepspeed/check.js';
import type { PyMap, PyOrdered } from '../../../helpers/deepspeed/python.js';
import { bufferOf } from '../../../helpers/deepspeed/random-spec.js';
import { optimOf, small } from '../../../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../../../helpers/deepspeed/write.js';
import { checkpointPath, FIXTURE_NAMES } from '../../../helpers/fixtures.js';

/** Every check of an inspection, in the order in which they are told. */
const IDS = [
  'latest-tag',
  'rank-set',
  'root-names',
  'duplicate-shards',
  'ranks-agree',
  'device-order',
  'slice-mappings',
  'element-counts',
  'names-once',
];

describe.each(FIXTURE_NAMES)('%s', (name) => {
  test('passes every check that can be made of it', async () => {
    const { checks, problems } = await inspect(await openFolder(checkpointPath(name)));
    expect(checks.map(({ id }) => id).toSorted()).toEqual(IDS.toSorted());
    expect(checks.filter(({ status }) => status === 'failed')).toEqual([]);
    expect(problems).toEqual([]);
    const passed = new Set(checks.filter(({ status }) => status === 'passed').map(({ id }) => id));
    expect([...passed]).toEqual(expect.arrayContaining(['latest-tag', 'rank-set', 'names-once']));
  });
});

describe('a check fails with the problem that it found, and the others say what they can', () => {
  const failedIn = async (files: Record<string, Uint8Array>) => {
    const { checks, problems } = await inspect(memoryTree(files));
    const failed = checks.filter(({ status }) => status === 'failed');
    expect(problems.map(({ message }) => message)).toEqual(expect.arrayContaining(failed.map(({ detail }) => detail)));
    return failed.map(({ id }) => id);
  };

  test.each([1, 2, 3] as const)('none fails of a whole checkpoint (stage %i)', async (stage) => {
    expect(await failedIn(writeCheckpoint(small(stage)).files)).toEqual([]);
  });

  test('rank-set', async () => {
    expect(await failedIn(without(writeCheckpoint(small(2)).files, optimOf(1)))).toEqual(['rank-set']);
  });

  test('element-counts', async () => {
    const editModel = (root: PyMap) => {
      const [first] = (root.get('param_shapes') ?? []) as PyOrdered[];
      first?.map.set('more', [7, 7]);
    };
    expect(await failedIn(writeCheckpoint(small(2, { editModel })).files)).toEqual(['element-counts']);
  });

  test('names-once', async () => {
    const editModel = (root: PyMap) => void root.set('buffer_names', ['nowhere']);
    expect(await failedIn(writeCheckpoint(small(3, { editModel })).files)).toEqual(['names-once']);
  });

  test('what comes after a problem is not told to have passed', async () => {
    const { checks } = await inspect(memoryTree(without(writeCheckpoint(small(2)).files, optimOf(1))));
    const status = Object.fromEntries(checks.map(({ id, status }) => [id, status]));
    expect(status).toMatchObject({ 'element-counts': 'not-checkable', 'names-once': 'not-checkable' });
  });
});

describe('the names', () => {
  test('are counted by where their bits come from', async () => {
    const spec = small(2, {
      frozen: [{ name: 'base', shape: [2] }],
      tied: [['tied.weight', 'embed.weight']],
      buffers: [bufferOf('ids', 'I64', [3], 1)],
    });
    const { checks } = await inspectSpec(spec);
    const { detail } = checks.find(({ id }) => id === 'names-once') ?? { detail: '' };
    for (const part of ['4 master', '1 frozen', '1 buffer', '1 tied name,', '0 left out'])
      expect(detail).toContain(part);
  });
});

describe('the tag', () => {
  const files = writeCheckpoint(small(2)).files;
  const latest = (text: string) => ({ latest: new TextEncoder().encode(text) });
  const tagCheck = async (more: Record<string, Uint8Array>, tag?: string) => {
    const found = await inspect(memoryTree({ ...files, ...more }), tag === undefined ? {} : { tag });
    return {
      warnings: found.warnings.map(({ code }) => code),
      check: found.checks.find(({ id }) => id === 'latest-tag'),
    };
  };

  test('is the one that the file latest names', async () => {
    expect(await tagCheck(latest('global_step7'))).toMatchObject({ warnings: [], check: { status: 'passed' } });
  });

  test('is named by no file', async () => {
    const { check } = await tagCheck({});
    expect(check).toMatchObject({
      status: 'not-checkable',
      detail: 'No file latest names a tag; global_step7 was read.',
    });
  });

  test('is another one, as asked', async () => {
    const other = writeCheckpoint({ ...small(2), folder: 'global_step9' }).files;
    const { check } = await tagCheck({ ...other, ...latest('global_step9') }, 'global_step7');
    expect(check).toMatchObject({ status: 'not-checkable', detail: expect.stringContaining('names global_step9') });
  });

  test('that names another step than its files is told', async () => {
    const renamed = Object.entries(files).map(([path, bytes]) => [
      path.replace('global_step7', 'global_step70'),
      bytes,
    ]);
    const { warnings } = await inspect(memoryTree(Object.fromEntries(renamed)));
    expect(warnings.map(({ code }) => code)).toEqual(['tag-step-differs']);
  });
});
