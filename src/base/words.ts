/**
 * Counts and names in sentences.
 *
 * @module
 */

/** A count with its noun: `1 tensor`, `2 tensors`. `digits` is how the count is written. */
export function counted(count: number, noun: string, digits = String(count)): string {
  return `${digits} ${noun}${count === 1 ? '' : 's'}`;
}

/** The name of the first, and whether there are more: `a`; `a, …`. */
export function firstOf(named: readonly { readonly name: string }[]): string {
  return named.length > 1 ? `${named[0]?.name}, …` : (named[0]?.name ?? '');
}
