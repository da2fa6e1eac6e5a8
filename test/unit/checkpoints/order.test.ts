import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import { memoryTree } from '../../../src/io/memory.js';
import type { FileTree } from '../../../src/io/types.js';
import { checkpointFiles, FIXTURE_NAMES } from '../../helpers/fixtures.js';

/** A folder whose files answer the later, the earlier they are named, or the other way round. */
function answering(files: Record<string, Uint8Array>, order: 'forwards' | 'backwards'): FileTree {
  const tree = memoryTree(files);
  const paths = Object.keys(files).toSorted();
  const delayOf = (path: string) => (order === 'forwards' ? paths.indexOf(path) : paths.length - paths.indexOf(path));
  return {
    ...tree,
    async open(path) {
      await pause(delayOf(path));
      const source = await tree.open(path);
      return {
        ...source,
        async read(offset, into, signal) {
          await pause(delayOf(path));
          await source.read(offset, into, signal);
        },
      };
    },
  };
}

test.each(FIXTURE_NAMES)('%s gives one inventory, in whatever order its files answer', async (name) => {
  const files = checkpointFiles(name);
  const [first, second] = [await inspect(answering(files, 'forwards')), await inspect(answering(files, 'backwards'))];
  expect(JSON.stringify(first)).toBe(JSON.stringify(second));
});
