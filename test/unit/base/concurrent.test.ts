import { expect, test } from 'vitest';
import { takeTurns } from '../../../src/base/concurrent.js';

/** Works that end when they are told to, and which have begun. */
function works() {
  const log: string[] = [];
  const ends = new Map<string, { readonly end: () => void; readonly fail: () => void }>();
  const work = (name: string) => () =>
    new Promise<string>((resolve, reject) => {
      log.push(name);
      ends.set(name, { end: () => resolve(name), fail: () => reject(name) });
    });
  return { log, work, end: (name: string) => ends.get(name)?.end(), fail: (name: string) => ends.get(name)?.fail() };
}

test('at most so many works go at once, and the others follow in order', async () => {
  const { log, work, end } = works();
  const turns = takeTurns(2);
  const results = ['a', 'b', 'c', 'd'].map((name) => turns(work(name)));
  await Promise.resolve();
  expect(log).toEqual(['a', 'b']);
  end('b');
  expect(await results[1]).toBe('b');
  await expect.poll(() => log).toEqual(['a', 'b', 'c']);
  end('a');
  await expect.poll(() => log).toEqual(['a', 'b', 'c', 'd']);
  end('c');
  end('d');
  expect(await Promise.all(results)).toEqual(['a', 'b', 'c', 'd']);
});

test('a work that fails rejects for its caller alone, and gives its turn away', async () => {
  const { log, work, end, fail } = works();
  const turns = takeTurns(1);
  const [first, second] = [turns(work('a')), turns(work('b'))];
  fail('a');
  await expect(first).rejects.toBe('a');
  await expect.poll(() => log).toEqual(['a', 'b']);
  end('b');
  expect(await second).toBe('b');
});
