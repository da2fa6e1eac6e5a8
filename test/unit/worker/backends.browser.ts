import { expect, test } from 'vitest';
import { openBackend } from '../../../src/worker/backends.js';

test('a software adapter is left alone, and why is said', async () => {
  const opened = await openBackend('auto', undefined);
  expect(opened?.backend.name).toBe('cpu');
  expect(opened?.choice).toMatchObject({ chosen: 'cpu', reason: expect.stringContaining('software') });
});

test('a GPU that is asked for is taken, and both roads are measured', async () => {
  const opened = await openBackend('gpu', undefined);
  expect(opened?.backend.name).toBe('gpu');
  expect(opened?.choice.chosen).toBe('gpu');
  expect(opened?.choice.rates.map(({ name }) => name)).toEqual(['cpu', 'gpu']);
  for (const { gigabytesPerSecond } of opened?.choice.rates ?? []) expect(gigabytesPerSecond).toBeGreaterThan(0);
  expect(opened?.backend.waitedSeconds).toBeGreaterThan(0);
  await opened?.backend.close();
});
