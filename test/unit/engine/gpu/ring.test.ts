import { expect, test } from 'vitest';
import { Ring } from '../../../../src/engine/gpu/ring.js';

test('a slot has one user at a time, and those who wait come in order', async () => {
  const ring = new Ring(['a', 'b']);
  const using = new Set<string>();
  const order: number[] = [];
  for (const wave of [0, 1, 2]) {
    await Promise.all(
      Array.from({ length: 9 }, (_, i) =>
        ring.use(async (slot) => {
          expect(using.has(slot)).toBe(false);
          using.add(slot);
          order.push(9 * wave + i);
          for (let turn = 0; turn <= i % 3; turn++) await Promise.resolve();
          using.delete(slot);
        }),
      ),
    );
  }
  expect(order).toEqual(Array.from({ length: 27 }, (_, i) => i));
});

test('work that fails gives its slot back', async () => {
  const ring = new Ring(['only']);
  await expect(ring.use(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(await ring.use(async (slot) => slot)).toBe('only');
});
