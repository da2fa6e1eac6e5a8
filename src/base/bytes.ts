/** Words that are compared before it is looked whether any differs: so many cost less than looking after each. */
const STRIDE = 256;

/** True where two runs of bytes are the same. Made for megabytes: where their alignment allows it words are compared. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  const isAligned = a.byteOffset % 4 === 0 && b.byteOffset % 4 === 0;
  const words = isAligned ? Math.floor(a.length / 4) : 0;
  if (words > 0) {
    const left = new Int32Array(a.buffer, a.byteOffset, words);
    const right = new Int32Array(b.buffer, b.byteOffset, words);
    for (let from = 0; from < words; from += STRIDE) {
      const to = Math.min(words, from + STRIDE);
      let differing = 0;
      for (let i = from; i < to; i++) differing |= (left[i] ?? 0) ^ (right[i] ?? 0);
      if (differing !== 0) return false;
    }
  }
  for (let i = words * 4; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
