const UNITS: ReadonlyMap<string, number> = new Map([
  ['', 1],
  ['K', 1e3],
  ['M', 1e6],
  ['G', 1e9],
  ['T', 1e12],
]);

/**
 * The number of bytes that a size such as `5GB`, `1.5 MB`, `20K` or `4096` stands for, or undefined where it is none. Units are
 * decimal and their case does not matter, as in `huggingface_hub`.
 */
export function parseSize(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(text);
  const unit = UNITS.get((match?.[2] ?? '').toUpperCase().replace(/B$/, ''));
  const bytes = Math.round(Number(match?.[1]) * (unit ?? Number.NaN));
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined;
}
