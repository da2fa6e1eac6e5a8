import type { Plan } from './plan.js';

/**
 * SHA-256 of a plan as hex digits. It is that of the plan's JSON with the keys of every object sorted, so it does not change
 * on a way through a file.
 */
export async function hashPlan(plan: Plan): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(withSortedKeys(plan)));
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function withSortedKeys(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withSortedKeys);
  const sorted: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))) {
    // A tensor may have this name, which would set the prototype. A prototype of null makes every object slow.
    if (key === '__proto__') Object.defineProperty(sorted, key, { value: withSortedKeys(field), enumerable: true });
    else sorted[key] = withSortedKeys(field);
  }
  return sorted;
}
