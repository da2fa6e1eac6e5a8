import { expect, test } from 'vitest';
import { memoryTree } from '../../../src/io/memory.js';
import { listedOnce } from '../../../src/worker/places.js';

test('each folder is listed once, whoever asks and when', async () => {
  const asked: string[] = [];
  const tree = memoryTree({ latest: new Uint8Array(1), 'step1/a.pt': new Uint8Array(2) });
  const once = listedOnce({
    name: tree.name,
    list(path) {
      asked.push(path);
      return tree.list(path);
    },
    open: (path) => tree.open(path),
  });
  const [first, second] = await Promise.all([once.list('step1'), once.list('step1')]);
  const [root, third] = [await once.list(''), await once.list('step1')];
  expect(asked).toEqual(['step1', '']);
  expect(first).toEqual([{ name: 'a.pt', kind: 'file' }]);
  expect([second, third]).toEqual([first, first]);
  expect(root).toEqual(await tree.list(''));
  expect((await once.open('step1/a.pt')).size).toBe(2);
});
