import { expect, test } from 'vitest';
import { takeTurns } from '../../bench/turns.js';

test('steps take turns, every other turn in reverse, and each has its results in order', async () => {
  const order: string[] = [];
  const step = (name: string) => async () => {
    order.push(name);
    return `${name}${order.length}`;
  };
  const results = await takeTurns(3, [step('a'), step('b')]);
  expect(order).toEqual(['a', 'b', 'b', 'a', 'a', 'b']);
  expect(results).toEqual([
    ['a1', 'a4', 'a5'],
    ['b2', 'b3', 'b6'],
  ]);
});

test('a step that fails ends the turns', async () => {
  let calls = 0;
  const fail = async () => {
    calls++;
    throw new Error('no space');
  };
  await expect(takeTurns(3, [fail, fail])).rejects.toThrow('no space');
  expect(calls).toBe(1);
});
