import { describe, expect, test } from 'vitest';
import { inspect } from '../../src/checkpoints/inspect.js';
import { memoryTree } from '../../src/io/memory.js';
import { small } from '../helpers/deepspeed/small.js';
import { writeCheckpoint } from '../helpers/deepspeed/write.js';
import { rejectionOf } from '../helpers/errors.js';
import { recordingTree } from '../helpers/recording-tree.js';
import { latin1 } from '../helpers/zip.js';

const { files } = writeCheckpoint(small(2));

const withLatest = (text: Uint8Array | string) =>
  memoryTree({ ...files, latest: typeof text === 'string' ? latin1(text) : text });

test.each(['global_step7', 'global_step7\n', 'global_step7\r\n', '\tglobal_step7 '])(
  '%j names its folder',
  async (text) => {
    expect((await inspect(withLatest(text))).tag).toEqual({ tag: 'global_step7', path: 'global_step7', latest: true });
  },
);

test('a byte order mark before the name of the folder does not matter', async () => {
  const text = new TextEncoder().encode('\ufeffglobal_step7\r\n');
  expect([...text.subarray(0, 3)]).toEqual([0xef, 0xbb, 0xbf]);
  expect((await inspect(withLatest(text))).tag.latest).toBe(true);
});

describe('a "latest" that names no folder beside it', () => {
  test.each([
    ['', '""'],
    ['   \n', '""'],
    ['.', '"."'],
    ['..', '".."'],
    ['../global_step7', '"../global_step7"'],
    ['global_step7/../../secret', '"global_step7/../../secret"'],
    ['/etc', '"/etc"'],
    ['..\\windows', '"..\\\\windows"'],
    ['global_step7\0', '"global_step7\\u0000"'],
    ['global_step6\nglobal_step7', '"global_step6\\nglobal_step7"'],
    [`${'x'.repeat(100)}/`, `"${'x'.repeat(80)}"`],
    ['y'.repeat(5000), 'more than 4096 bytes'],
  ])('%j is refused, and nothing outside is opened', async (text, found) => {
    const tree = recordingTree(withLatest(text));
    expect(await rejectionOf(inspect(tree))).toMatchObject({
      kind: 'bad-file',
      code: 'latest-bad',
      facts: { file: 'latest', found },
    });
    expect(tree.reads.filter(({ path }) => path !== 'latest')).toEqual([]);
  });

  test('is refused where the folder is not there, with the folders that are', async () => {
    expect(await rejectionOf(inspect(withLatest('global_step9')))).toMatchObject({
      kind: 'not-checkpoint',
      code: 'latest-missing-tag',
      facts: { file: 'latest', expected: 'global_step9', found: 'global_step7' },
    });
  });

  test('is refused where the folder holds no checkpoint', async () => {
    const tree = memoryTree({ ...files, latest: latin1('logs'), 'logs/events.txt': latin1('x') });
    expect(await rejectionOf(inspect(tree))).toMatchObject({ code: 'latest-missing-tag', facts: { expected: 'logs' } });
  });

  test.each(['..', 'global_step9', 'y'.repeat(5000)])('does not matter where a tag is asked for (%j)', async (text) => {
    const { tag, warnings } = await inspect(withLatest(text), { tag: 'global_step7' });
    expect({ path: tag.path, warnings }).toEqual({ path: 'global_step7', warnings: [] });
  });

  test('bytes that are no text', async () => {
    expect(await rejectionOf(inspect(withLatest(new Uint8Array(64).fill(0xff))))).toMatchObject({
      code: 'latest-missing-tag',
      facts: { file: 'latest', expected: '\ufffd'.repeat(64) },
    });
  });
});

describe('a folder without a checkpoint', () => {
  test.each<[what: string, names: readonly string[]]>([
    ['nothing', []],
    ['other files', ['README.md', 'pytorch_model.bin', 'a/b.txt']],
    ['a checkpoint three folders down', ['a/b/c/mp_rank_00_model_states.pt']],
    ['names that are nearly right', ['global_step7/mp_rank_00_model_states.pt.part', 'x/model_states.pt']],
  ])('holds %s', async (_, names) => {
    const tree = memoryTree(Object.fromEntries(names.map((name) => [name, new Uint8Array()])));
    expect(await rejectionOf(inspect(tree))).toMatchObject({
      kind: 'not-checkpoint',
      code: 'no-checkpoint',
      facts: { file: 'memory' },
    });
  });

  test.each(['', 'checkpoint-7/pytorch_model_fsdp_0/'])('is one of torch.distributed.checkpoint (%j)', async (path) => {
    const names = ['.metadata', '__0_0.distcp', '__1_0.distcp'];
    const tree = (of: readonly string[]) =>
      memoryTree(Object.fromEntries(of.map((name) => [`${path}${name}`, new Uint8Array(9)])));
    expect(await rejectionOf(inspect(tree(names)))).toMatchObject({
      kind: 'unsupported',
      code: 'distributed-checkpoint',
      facts: { file: path.replace(/\/$/, '') || 'memory' },
    });
    for (const some of [names.slice(0, 1), names.slice(1)]) {
      expect(await rejectionOf(inspect(tree(some)))).toMatchObject({ code: 'no-checkpoint' });
    }
    const beside = memoryTree({
      ...files,
      [`${path}.metadata`]: new Uint8Array(9),
      [`${path}x.distcp`]: new Uint8Array(9),
    });
    expect((await inspect(beside)).tag.path).toBe('global_step7');
  });

  test('has a tag that is asked for all the same', async () => {
    expect(await rejectionOf(inspect(memoryTree({}), { tag: 'global_step7' }))).toMatchObject({
      kind: 'usage',
      code: 'tag-not-found',
      facts: { expected: 'global_step7', found: '' },
    });
  });
});
