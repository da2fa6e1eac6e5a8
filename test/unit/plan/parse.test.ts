import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { inspect } from '../../../src/checkpoints/inspect.js';
import { openFolder } from '../../../src/io/node.js';
import { hashPlan } from '../../../src/plan/hash.js';
import { plan } from '../../../src/plan/make.js';
import { parsePlan } from '../../../src/plan/parse.js';
import type { PlanOptions } from '../../../src/plan/plan.js';
import { checkpointPath, FIXTURE_NAMES } from '../../helpers/fixtures.js';
import { inventoryOf, masterOf } from '../../helpers/inventory.js';

const OPTIONS: readonly PlanOptions[] = [
  {},
  { dtype: 'bf16', format: 'bin', maxShardSize: 20_000, dtypeFor: [{ pattern: '*norm*', dtype: 'keep' }] },
  { dtype: 'fp16', overflow: 'clamp', duplicateTied: true, exclude: ['nothing'] },
];

describe('the plans of real checkpoints come back from JSON as they were, with the same hash', () => {
  test.each(FIXTURE_NAMES)('%s', async (name) => {
    const inventory = await inspect(await openFolder(checkpointPath(name)));
    const more: PlanOptions[] = name.startsWith('lora') ? [{ output: 'adapter' }] : [];
    for (const options of [...OPTIONS, ...more]) {
      const made = plan(inventory, options);
      const read = parsePlan(JSON.parse(JSON.stringify(made)));
      expect(read).toEqual(made);
      expect(await hashPlan(read)).toBe(await hashPlan(made));
    }
  });
});

describe('hashPlan', () => {
  const made = plan(inventoryOf([masterOf('a', 4, 0), masterOf('b', 2, 100)]));

  test('is the SHA-256 of the JSON with sorted keys, whatever their order was', async () => {
    const sorted = (value: unknown): unknown => {
      if (typeof value !== 'object' || value === null) return value;
      if (Array.isArray(value)) return value.map(sorted);
      return Object.fromEntries(
        Object.entries(value)
          .toSorted()
          .map(([key, field]) => [key, sorted(field)]),
      );
    };
    const text = JSON.stringify(sorted(made));
    expect(text.slice(0, 24)).toBe('{"aliases":{},"checks":[');
    expect(JSON.stringify(made)).not.toBe(text);
    expect(await hashPlan(made)).toBe(createHash('sha256').update(text).digest('hex'));
    expect(await hashPlan(parsePlan(JSON.parse(text)))).toBe(await hashPlan(made));
  });

  test('depends on every value, and on the order of lists', async () => {
    const hashes = await Promise.all(
      [
        made,
        { ...made, sources: made.sources.map((source) => ({ ...source, modified: source.modified + 1 })) },
        { ...made, tensors: made.tensors.toReversed() },
        { ...made, aliases: { __proto__x: 'a' } },
        { ...made, aliases: JSON.parse('{"__proto__":"a"}') as Record<string, string> },
      ].map(hashPlan),
    );
    expect(new Set(hashes).size).toBe(hashes.length);
  });
});
