import type { Plan } from './plan.js';

/**
 * SHA-256 of a plan as hex digits. It is that of the plan's JSON with the keys of every object sorted, so it does not change
 * on a way through a file.
 */
export async function hashPlan(plan: Plan): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(plan, (_, value: unknown) => withSortedKeys(value)));
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function withSortedKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  // A null prototype, so that a tensor named __proto__ is a key like any other.
  const sorted: Record<string, unknown> = Object.create(null);
  for (const [key, field] of Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) sorted[key] = field;
  return sorted;
}
