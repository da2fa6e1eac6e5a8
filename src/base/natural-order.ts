/** A run of digits without its leading zeros, or of anything else. */
const PIECE = /0*(\d+)|\D+/g;

/**
 * Items in the natural order of their names: numbers in them by their value, all else by code units; of names that are the
 * same by that, the one with fewer zeros comes first. It is the same on every machine, and needs no table of a language.
 */
export function inNaturalOrder<T>(items: readonly T[], nameOf: (item: T) => string): T[] {
  const keyed = items.map((item) => {
    const name = nameOf(item);
    return { item, name, pieces: [...name.matchAll(PIECE)].map(([piece, number]) => number ?? piece) };
  });
  keyed.sort(
    (a, b) => comparePieces(a.pieces, b.pieces) || a.name.length - b.name.length || compareText(a.name, b.name),
  );
  return keyed.map(({ item }) => item);
}

function comparePieces(a: readonly string[], b: readonly string[]): number {
  for (const [i, left] of a.entries()) {
    const right = b[i];
    if (right === undefined) return 1;
    const order = isNumber(left) && isNumber(right) ? left.length - right.length : 0;
    const difference = order || compareText(left, right);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

function isNumber(piece: string): boolean {
  return piece >= '0' && piece < ':';
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
