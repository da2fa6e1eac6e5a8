import { expect, it } from 'vitest';
import { inspect, plan } from '../../../src/index.js';
import { openFolder } from '../../../src/io/node.js';
import { viewCheckpoint, viewPlan } from '../../../src/worker/views.js';
import { checkpointPath, expectedOf } from '../../helpers/fixtures.js';

const NAME = 'lora-zero2-bf16-w2';
const { tensors, elements } = expectedOf(NAME);

it('shows every tensor of a checkpoint with where it comes from', async () => {
  const view = viewCheckpoint(await inspect(await openFolder(checkpointPath(NAME))));
  const origins = Object.fromEntries(view.tensors.map(({ name, origin }) => [name, origin]));
  expect(origins).toEqual(Object.fromEntries(Object.entries(tensors).map(([name, { source }]) => [name, source])));
  expect(view.facts.elements).toBe(elements);
  expect(view.sourceFiles).toBeGreaterThan(2);
  expect(view.adapters).toEqual(['default']);
  expect(view.checks.map(({ id }) => id)).toContain('latest-tag');
  expect(structuredClone(view)).toEqual(view);
});

it.each([
  ['fp32', 'master'],
  ['bf16', 'copy'],
] as const)('tells what the masters are taken from in %s', async (dtype, origin) => {
  const { tensors } = viewPlan(plan(await inspect(await openFolder(checkpointPath('llama-zero2-bf16-w1'))), { dtype }));
  expect(new Set(tensors.map(({ origin }) => origin))).toEqual(new Set([origin]));
});

it('shows every tensor and file of a plan, and none of its bytes', async () => {
  const made = plan(await inspect(await openFolder(checkpointPath(NAME))), { dtype: 'bf16' });
  const view = viewPlan(made);
  expect(view.tensors.map(({ name }) => name).sort()).toEqual(Object.keys(tensors).sort());
  expect(new Set(view.tensors.map(({ to }) => to))).toEqual(new Set(['BF16']));
  expect(view.files.reduce((sum, { byteLength }) => sum + byteLength, 0)).toBe(view.totals.outputBytes);
  const text = JSON.stringify(view);
  for (const word of ['pieces', 'parts', 'base64']) expect(text).not.toContain(`"${word}"`);
});
